"""A traceback whose tables are remembered reads as one whose tables are made."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

# Two tracebacks as a rank formats them: the first fills the tables, the second is read from them.
_SCRIPT = """
import sys
from IPython.core.interactiveshell import InteractiveShell
if sys.argv[1] == "remembering":
    from libsk.kernel import memos
    memos.install()
shell = InteractiveShell.instance()
shell.showtraceback = lambda *_, **__: sys.stdout.writelines(
    shell.InteractiveTB.structured_traceback(*sys.exc_info(), tb_offset=1)
)
for cell in ("def f(x):\\n    for i in range(3):\\n        yield [x, '1'] / i\\nlist(f(2.5))",) * 2:
    shell.run_cell(cell)
if sys.argv[1] == "remembering":
    import stack_data, pygments.lexer, pygments.formatters.terminal256 as terminal
    functions = (
        stack_data.style_with_executing_node,
        pygments.lexer.regex_opt,
        terminal.Terminal256Formatter._closest_color,
    )
    assert all(hasattr(each, "__wrapped__") for each in functions), functions
"""


def _tracebacks(how: str) -> str:
    env = {**os.environ, "IPYTHONDIR": os.devnull}
    argv = [sys.executable, "-c", _SCRIPT, how]
    done = subprocess.run(argv, capture_output=True, text=True, env=env, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_text_is_what_it_was() -> None:
    text = _tracebacks("remembering")
    assert text.count("TypeError") >= 2 and "\x1b[" in text
    assert text == _tracebacks("as it is")
