"""Modules that ranks share: imported once, in the template that ranks are forked from.

An import cannot be undone, so each is tried in a process of its own, forked from one that has
imported the good ones so far (:mod:`libsk.kernel.trial`). The process that the controller has
started stays as it was, and keeps watch::

    controller - keeper (this file) - base, which has imported numpy
                                        `- candidate, which imports torch

A candidate that leaves nothing behind which a fork would break is the next base, and the base
before it ends; what it leaves falls to the keeper, a subreaper meanwhile. Any other candidate is
killed, and the base goes on with the next name: a bad module costs no other one a second import,
and what it has begun ends with it. From the last base the ranks are forked.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import select
import signal
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any, NoReturn

from libsk import _core
from libsk.kernel import leftovers, thread_counts, trial

VARIABLE = "SK_PRELOAD"
"""Names with commas between them."""
LIMIT_VARIABLE = "SK_PRELOAD_LIMIT_S"
"""How long one import may take."""

_LIMIT_S = 120.0
_TELL_S = 1.0
"""How often the front end hears of an import. It is the template's sign of life as well."""
_END_S = 5.0
"""From the last that is heard of a process to its end."""
_WHERE_S = 0.5
"""What a module that hangs is given to write down where it is."""
_PRINTED_MAX = 4096
_SHOWN_MAX = 200
_NOTE_MAX = 60_000
_PR_SET_CHILD_SUBREAPER = 36


@dataclass
class Module:
    """What became of one name."""

    name: str
    seconds: float = 0.0
    memory_bytes: int = 0
    why_not: str = ""
    """The sentence that says why it is left out; ``""``: it is shared."""
    printed: str = ""


class Nobody:
    """In the place of a rank's worker while there is no rank."""

    def __getattr__(self, name: str) -> NoReturn:
        raise RuntimeError("a module that is imported for all ranks can display nothing")


def wanted() -> list[str]:
    """The names, in their order, each once."""
    names = map(str.strip, os.environ.get(VARIABLE, "").split(","))
    return [name for name in dict.fromkeys(names) if name]


def run(names: list[str]) -> None:
    """In the template. Returns in the process that takes its place; this one ends when that
    does."""
    before = thread_counts.hold()
    base = trial.begin()
    if base is not None:
        _keep(base, names)
    thread_counts.release(before)
    thread_counts.remember()


def _keep(base: trial.Process, names: list[str]) -> NoReturn:
    _be_subreaper(True)
    began = time.monotonic()
    modules = []
    for number, name in enumerate(names, 1):
        about = {"importing": name, "number": number, "count": len(names)}
        module, base = _try(base, name, about)
        modules.append(module)
    _tell({"done": _as_note(modules), "seconds": time.monotonic() - began})
    # From here on orphans are the controller's: ranks are.
    _be_subreaper(False)
    base.order({"serve": True})
    base.close()
    os.close(int(os.environ["SK_TEMPLATE_FD"]))
    _end_as(os.waitpid(base.pid, 0)[1])


def _be_subreaper(on: bool) -> None:
    if ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, int(on), 0, 0, 0) != 0:
        raise OSError("prctl(PR_SET_CHILD_SUBREAPER) failed")


def _tell(what: dict[str, Any]) -> None:
    """What a module says may have what is no text: names of files, above all."""
    text = json.dumps(what, ensure_ascii=False)
    _core.template_note(text.encode("utf-8", "replace").decode())


def _as_note(modules: list[Module]) -> list[dict[str, Any]]:
    """What is told of them, no longer than a note may be."""
    told = [asdict(module) for module in modules]
    for name, length in (
        ("printed", _SHOWN_MAX),
        ("printed", 0),
        ("why_not", 400),
        ("why_not", 60),
    ):
        for each in told:
            each[name] = _shown(each[name], length)
        if len(json.dumps(told, ensure_ascii=False).encode("utf-8", "replace")) < _NOTE_MAX:
            break
    return told


def _shown(text: str, length: int) -> str:
    return text if len(text) <= length else text[:length].rstrip() + " …" * bool(length)


def _end_as(status: int) -> NoReturn:
    """As the process did that served in the place of this one."""
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        with contextlib.suppress(OSError):  # SIGKILL has no handler.
            signal.signal(number, signal.SIG_DFL)
        os.kill(os.getpid(), number)
    os._exit(os.waitstatus_to_exitcode(status))


# ---- one module ----------------------------------------------------------------------------------


def _try(base: trial.Process, name: str, about: dict[str, Any]) -> tuple[Module, trial.Process]:
    """What became of the module, and the base from then on."""
    module = Module(name)
    before = leftovers.own_memory(base.pid)
    candidate = base.fork(name)
    began = time.monotonic()
    limit = _limit_s()

    def tell() -> None:
        _tell({**about, "seconds": time.monotonic() - began})

    report, module.printed = _await(candidate, began + limit, tell)
    module.seconds = time.monotonic() - began
    if report is None and module.seconds >= limit and not candidate.has_ended():
        module.why_not = _hangs(name, limit, candidate.where(_WHERE_S))
    elif report is None and not candidate.has_ended(_END_S):
        module.why_not = f"{name} is left out: its import closes what it has not opened"
    elif report is not None:
        left = leftovers.of(candidate.pid, but=base.pid, link=candidate.link_name)
        module.why_not = _fails(name, report) or leftovers.sentence(name, left)
        module.memory_bytes = max(0, leftovers.own_memory(candidate.pid) - before)
    if report is not None and not module.why_not:
        base.replace_by(candidate)
        return module, candidate
    descendants = leftovers.descendants(candidate.pid)
    status = base.end(candidate)
    leftovers.end(descendants, but=base.pid)
    module.why_not = module.why_not or _died(name, status, module.printed)
    return module, base


def _limit_s() -> float:
    try:
        limit = float(os.environ.get(LIMIT_VARIABLE, ""))
    except ValueError:
        return _LIMIT_S
    return limit if 0 < limit <= 86_400 else _LIMIT_S


def _await(
    candidate: trial.Process, until: float, tell: Callable[[], None]
) -> tuple[dict[str, Any] | None, str]:
    """The candidate's report and what it has printed; None where it has ended or time is up."""
    printed = bytearray()
    report: dict[str, Any] | None = None
    tell_at = time.monotonic()
    poll = select.poll()
    for fd in (candidate.link.fileno(), candidate.pidfd, candidate.output):
        poll.register(fd, select.POLLIN)
    while report is None:
        now = time.monotonic()
        if now >= until:
            break
        if now >= tell_at:
            tell()
            tell_at = now + _TELL_S
        ready = dict(poll.poll(1000 * max(0.0, min(until, tell_at) - now)))
        if candidate.output in ready and not _take(candidate.output, printed):
            poll.unregister(candidate.output)
        if candidate.link.fileno() in ready:
            report = candidate.answer()
            if report is None:  # Closed, by its end or by itself.
                break
        elif candidate.pidfd in ready:
            break
    while _take(candidate.output, printed):
        continue
    return report, printed.decode("utf-8", "replace").strip()


def _take(output: int, printed: bytearray) -> bool:
    """Reads what is there; of a flood the beginning is kept. False: nothing is, or it is over."""
    try:
        text = os.read(output, 65_536)
    except BlockingIOError:
        return False
    printed += text[: _PRINTED_MAX - len(printed)]
    return bool(text)


# ---- sentences -----------------------------------------------------------------------------------


def _fails(name: str, report: dict[str, Any]) -> str:
    error, exits, place = report["error"], report["exits"], report["place"]
    if report["asks"]:
        return f"{name} is left out: its import asks for input, and only a cell can be given any"
    if exits is not None:
        return f"{name} is left out: its import calls sys.exit({exits}){place}"
    if error:
        return f"{name} is left out: its import fails with {error}{place}"
    replaced = " and ".join(f"sys.{each}" for each in report["replaced"])
    if not replaced:
        return ""
    return (
        f"{name} is left out: its import puts something else in the place of {replaced}, where all "
        "that cells print would go. Each rank that needs it imports it by itself"
    )


def _hangs(name: str, limit: float, place: str) -> str:
    return (
        f"{name} is left out: its import did not end within {limit:g} s{place}; {LIMIT_VARIABLE} "
        "gives it longer"
    )


def _died(name: str, status: int, printed: str) -> str:
    if not os.WIFSIGNALED(status):
        code = os.waitstatus_to_exitcode(status)
        return f"{name} is left out: its import ends the process with exit status {code}"
    try:
        how = signal.Signals(os.WTERMSIG(status)).name
    except ValueError:
        how = f"signal {os.WTERMSIG(status)}"
    words = printed.partition("Fatal Python error: ")[0].strip()[-_SHOWN_MAX:]
    said = f'; it says "{words}"' if words else ""
    return f"{name} is left out: its import ends with {how}{trial.place_in(printed)}{said}"
