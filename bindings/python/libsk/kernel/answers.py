"""Completion, inspection and is-complete: what a front end asks while one types.

The C ABI counts bytes of UTF-8, Python counts characters.
"""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

from libsk.kernel import mime

if TYPE_CHECKING:
    from libsk import _core
    from libsk.kernel.shell import RankShell

COMPLETE, INSPECT, IS_COMPLETE = 2, 3, 4
"""``enum sk_request_kind``."""

_IS_COMPLETE = {"unknown": 0, "complete": 1, "incomplete": 2, "invalid": 3}
"""``enum sk_is_complete``."""


def character_of(code: str, byte: int) -> int:
    """The character that starts at or before this byte."""
    return len(code.encode()[:byte].decode("utf-8", "ignore"))


def byte_of(code: str, character: int) -> int:
    """The byte at which this character starts."""
    return len(code[:character].encode())


def answer(worker: _core.Worker, shell: RankShell, request: dict[str, Any]) -> None:
    """Answers one question. Looking at objects runs code of theirs, whose warnings nobody reads."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        _answer(worker, shell, request)


def decline(worker: _core.Worker, request: dict[str, Any], why: str) -> None:
    """The answer where there is none, so that nobody waits for it."""
    cursor, kind = request["cursor"], request["kind"]
    bundle = {"text/plain": why} if kind == INSPECT else {}
    worker.reply(request["id"], int(bool(bundle)), cursor, cursor, [], mime.bundle_of(bundle))


def _answer(worker: _core.Worker, shell: RankShell, request: dict[str, Any]) -> None:
    code, kind, number = request["code"], request["kind"], request["id"]
    cursor = character_of(code, request["cursor"])
    if kind == COMPLETE:
        start, end, matches = complete(shell, code, cursor)
        worker.reply(number, 0, byte_of(code, start), byte_of(code, end), matches, [])
    elif kind == INSPECT:
        bundle = inspect(shell, code, cursor, request["detail"])
        worker.reply(number, int(bool(bundle)), 0, 0, [], mime.bundle_of(bundle))
    else:
        status, indent = is_complete(shell, code)
        worker.reply(number, status, 0, 0, [indent] if indent else [], [])


def complete(shell: RankShell, code: str, cursor: int) -> tuple[int, int, list[str]]:
    """The characters [start, end) that each of the names would replace."""
    from IPython.core.completer import provisionalcompleter, rectify_completions

    with provisionalcompleter():
        found = list(rectify_completions(code, shell.Completer.completions(code, cursor)))
    if not found:
        return cursor, cursor, []
    return found[0].start, found[0].end, list(dict.fromkeys(each.text for each in found))


def inspect(shell: RankShell, code: str, cursor: int, detail: int) -> dict[str, Any]:
    """The MIME bundle that describes the name at the cursor; empty when there is none."""
    from IPython.utils.tokenutil import token_at_cursor

    try:
        return shell.object_inspect_mime(token_at_cursor(code, cursor), detail_level=detail)
    except KeyError:
        return {}


def is_complete(shell: RankShell, code: str) -> tuple[int, str]:
    """``enum sk_is_complete``, and the indent of the next line."""
    status, spaces = shell.input_transformer_manager.check_complete(code)
    return _IS_COMPLETE.get(status, 0), " " * (spaces or 0)
