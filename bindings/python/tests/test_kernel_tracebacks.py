"""An interrupt's traceback is written without taking long files apart; what an error follows from
is told by the types of its chain."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import libsk
import pytest

ultratb = pytest.importorskip("IPython.core.ultratb", reason="the kernel needs IPython")

from libsk.kernel import loop, tracebacks  # noqa: E402


def _text(kind: type[BaseException], path: Path) -> str:
    """The traceback of such an error out of the file."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    formatter = ultratb.VerboseTB(theme_name="nocolor", include_vars=False)
    try:
        module.wait(kind)
    except (KeyboardInterrupt, ValueError):
        with tracebacks.quick(kind):
            return "\n".join(formatter.structured_traceback(*sys.exc_info()))
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize(("kind", "apart"), [(KeyboardInterrupt, False), (ValueError, True)])
def test_long_files_are_left_as_they_are(
    kind: type[BaseException], apart: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"long_{kind.__name__}.py"
    filler = "".join(f"x{i} = {i}\n" for i in range(3000))
    path.write_text(filler + "def wait(kind):\n    raise kind('here')\n")
    parsed: list[bool] = []
    parse = ast.parse

    def watching(source: object, *args: object, **options: object) -> object:
        parsed.append(str(source).count("\n") > 3000)
        return parse(source, *args, **options)  # type: ignore[call-overload]

    monkeypatch.setattr(ast, "parse", watching)
    text = _text(kind, path)
    assert any(parsed) == apart
    assert "-> 3002     raise kind('here')" in text
    assert "in wait(kind)" in text
    if not apart:  # What comes after it is as ever.
        assert "-> 3002" in _text(ValueError, path)
        assert any(parsed)


def _raised(code: str) -> BaseException:
    """What leaves the code, in which each name of ``libsk`` is known."""
    try:
        exec(code, vars(libsk).copy())
    except BaseException as error:  # noqa: BLE001 - an interrupt, too.
        return error
    raise AssertionError("nothing was raised")


_LOST = "raise PeerLostError('rank 2', 20, 'SK_ERR_PEER_LOST')"


_IN_GROUPS = (
    "lost, stems = PeerLostError('rank 2', 20, 'SK_ERR_PEER_LOST'), OSError()\n"
    "stems.__cause__ = lost\n"
)


@pytest.mark.parametrize(
    ("code", "flags"),
    [
        (_LOST, loop.CONSEQUENCE),
        (f"try: {_LOST}\nexcept Exception as e: raise RuntimeError('x') from e", loop.CONSEQUENCE),
        (f"try: {_LOST}\nexcept Exception: {{}}['x']", loop.CONSEQUENCE),
        (f"try: {_LOST}\nexcept Exception: raise RuntimeError from None", loop.CONSEQUENCE),
        (
            f"try:\n    try: {_LOST}\n    except Exception as e: raise OSError from e\n"
            "except Exception: 1 / 0",
            loop.CONSEQUENCE,
        ),
        (f"{_IN_GROUPS}raise ExceptionGroup('g', [lost, lost])", loop.CONSEQUENCE),
        (f"{_IN_GROUPS}raise ExceptionGroup('g', [ExceptionGroup('h', [lost])])", loop.CONSEQUENCE),
        (f"{_IN_GROUPS}raise ExceptionGroup('g', [stems, lost])", loop.CONSEQUENCE),
        (
            f"{_IN_GROUPS}try: raise ExceptionGroup('g', [lost])\n"
            "except Exception as e: raise OSError from e",
            loop.CONSEQUENCE,
        ),
        (f"{_IN_GROUPS}raise ExceptionGroup('g', [lost, ValueError()])", 0),
        (f"{_IN_GROUPS}raise ExceptionGroup('g', [ValueError()])", 0),
        (
            f"{_IN_GROUPS}g = ExceptionGroup('g', [ValueError(), lost])\n"
            "g.exceptions[0].__context__ = g\nraise g",
            0,
        ),
        (f"try: {_LOST}\nexcept Exception: raise KeyboardInterrupt", loop.INTERRUPT),
        (f"try: {_LOST}\nexcept Exception: pass\nraise ValueError", 0),
        ("try: 1 / 0\nexcept Exception as e: raise RuntimeError from e", 0),
        ("a, b = OSError(), ValueError()\na.__cause__, b.__cause__ = b, a\nraise a", 0),
    ],
)
def test_what_follows_from_a_communicators_error_is_a_consequence(code: str, flags: int) -> None:
    if "ExceptionGroup" in code and sys.version_info < (3, 11):
        pytest.skip("groups of exceptions came with Python 3.11")
    assert loop._flags_of(_raised(code)) == flags


@pytest.mark.skipif(sys.version_info < (3, 11), reason="groups came with Python 3.11")
def test_groups_within_groups_are_looked_at_within_bounds() -> None:
    deep = (
        "g = PeerLostError('rank 2', 20, 'x')\nfor _ in range(5000): g = ExceptionGroup('g', [g])\n"
    )
    assert loop._flags_of(_raised(deep + "raise g")) == 0
    wide = (
        "g = ExceptionGroup('g', [PeerLostError('rank 2', 20, 'x') for _ in range(5000)])\nraise g"
    )
    assert loop._flags_of(_raised(wide)) == loop.CONSEQUENCE


def test_no_code_of_an_error_runs_when_its_mark_is_looked_for() -> None:
    error = _raised(
        f"class Hostile(Exception):\n"
        "    __class__ = __cause__ = __context__ = property(lambda self: 1 / 0)\n"
        f"try: {_LOST}\nexcept Exception: raise Hostile"
    )
    assert loop._flags_of(error) == loop.CONSEQUENCE
