"""An interrupt's traceback is written without taking long files apart."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

ultratb = pytest.importorskip("IPython.core.ultratb", reason="the kernel needs IPython")

from libsk.kernel import tracebacks  # noqa: E402


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
