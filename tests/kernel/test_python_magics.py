"""Magics whose work is Python's: on Python ranks."""

from __future__ import annotations

import importlib.util
import socket
import sys
from pathlib import Path

import pytest
from conftest import Kernel, StartKernel

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

PROGRAM = [sys.executable, "-m", "libsk.kernel"]


@pytest.fixture
def python(start_kernel: StartKernel) -> Kernel:
    """A kernel of three Python ranks."""
    return start_kernel(3, PROGRAM)


def shown(kernel: Kernel, code: str) -> dict[str, str]:
    """The one display of a cell."""
    cell = kernel.run(code)
    assert cell.reply["status"] == "ok", cell.reply
    displays = cell.of("display_data")
    assert len(displays) == 1
    return displays[0]["data"]


def test_info(python: Kernel) -> None:
    import numpy

    data = shown(python, "%info")
    rows = {line.split()[0]: line.split(maxsplit=1)[1] for line in data["text/plain"].splitlines()}
    assert rows["ranks"] == "0-2 of 3"
    assert rows["host"] == socket.gethostname()
    assert rows["numpy"] == numpy.__version__
    assert rows["python"] == ".".join(map(str, sys.version_info[:3]))
    assert "GiB" in rows["memory"] and "×" in rows["processor"]
    assert {"GPUs", "libsk"} <= rows.keys()
    assert data["text/html"].startswith("<table>")
    # Asking took nothing into the ranks that was not there.
    assert python.run("'torch' in __import__('sys').modules").of("execute_result")[0]["data"] == {
        "text/plain": "False"
    }


def test_hostname(python: Kernel) -> None:
    assert python.run("%hostname").text() == socket.gethostname() + "\n"


@pytest.mark.parametrize("magic", ["%reset", "%reset -f", "x = 5\n%reset -f"])
def test_reset_forgets_what_is_the_users(python: Kernel, magic: str) -> None:
    python.run("import os as mine\nx = [rank]\nrank = 'overwritten'\ncomm = sk = None")
    cell = python.run(magic)
    assert cell.reply["status"] == "ok"
    assert python.run("x").reply["ename"] == "NameError"
    assert python.run("mine").reply["ename"] == "NameError"
    text = python.run(
        "print(rank, local_rank, world_size, type(comm).__name__, sk.__name__)"
    ).text()
    assert text == "".join(f"[{r}] {r} {r} 3 Comm libsk\n" for r in range(3))
    again = python.run("import numpy as np\nint(comm.allreduce(np.ones(1))[0])")
    assert again.of("execute_result")[0]["data"] == {"text/plain": "3"}


def test_numbers_go_on_after_a_reset(python: Kernel) -> None:
    python.run("1")
    python.run("%reset")
    assert python.run("7").of("execute_result")[0]["execution_count"] == 3
    assert python.run("Out").of("execute_result")[0]["data"] == {"text/plain": "{3: 7}"}


@pytest.mark.parametrize("magic", ["%info", "%sk time", "%welcome", "%hostname"])
def test_behind_code_they_say_where_they_belong(python: Kernel, magic: str) -> None:
    cell = python.run(f"x = 1\n{magic}")
    assert cell.reply["ename"] == "UsageError"
    assert "is for the first lines of a cell" in cell.reply["evalue"]


def test_cell_magics_of_python_stay(python: Kernel, tmp_path: object) -> None:
    text = python.run("%%on 1\n# measured\n%%time\nprint('on', rank)").text()
    assert text.startswith("on 1\n") and "Wall time" in text
    python.run(f"%%on 0\n%%writefile {tmp_path}/note.txt\n%%on 1\n%info")
    assert python.run(f"%%on 0\nprint(open('{tmp_path}/note.txt').read())").text() == (
        "%%on 1\n%info\n\n"
    )
    assert python.run("%%nosuch\n1").reply["ename"] == "UsageError"


def test_tracebacks_count_the_lines_of_the_cell(python: Kernel) -> None:
    cell = python.run("%%on 1\n\nx = 1\n1 / 0")
    assert cell.reply["ename"] == "ZeroDivisionError"
    assert "line 4" in "\n".join(cell.reply["traceback"])


def test_a_command_runs_on_every_rank(python: Kernel) -> None:
    assert python.run("!echo hello").text() == "hello\n"
    text = python.run("!echo I am $RANK").text()
    assert text == "".join(f"[{r}] I am {r}\n" for r in range(3))


def test_a_commands_exit_status_is_told(python: Kernel) -> None:
    cell = python.run("!exit 3")
    assert cell.reply["status"] == "ok"
    assert cell.text("stderr") == "exit status 3\n"
    cell = python.run("!test $RANK = 1")
    assert cell.text("stderr") == "[0,2] exit status 1\n"
    assert python.run("_exit_code").of("execute_result")[0]["data"]["text/plain"] == (
        "[0,2] 1\n[  1] 0"
    )
    assert python.run("!kill -9 $$").text("stderr") == "killed by SIGKILL\n"


def test_an_interrupted_command_ends_everywhere(python: Kernel) -> None:
    message_id = python.start("!echo on; sleep 60; echo not reached")
    python.wait_for_stream(message_id)
    python.manager.interrupt_kernel()
    cell = python.finish(message_id)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert "not reached" not in cell.text()
    assert python.run("!echo next").text() == "next\n"


def test_time_counts_threads_and_children(python: Kernel) -> None:
    code = (
        "import threading, time\n"
        "if rank == 1:\n"
        "    until = time.process_time() + 0.3\n"
        "    while time.process_time() < until: pass\n"
        "if rank == 2: threading.Event().wait(0.3)"
    )
    python.client.execute(code)
    times = python.client.get_shell_msg(timeout=60)["metadata"]["superkernel"]
    assert times["cpu_s"][1] >= 0.3
    assert times["cpu_s"][2] < 0.3 <= times["wall_s"][2]


REGISTER = (
    "from IPython.core.magic import register_cell_magic, register_line_magic\n"
    "@register_cell_magic\n"
    "def onn(line, cell):\n"
    "    print('cell', line, cell.strip())\n"
    "@register_line_magic\n"
    "def inf(line):\n"
    "    print('line', line)"
)


def test_magics_that_users_register_run_though_they_are_near_ours(python: Kernel) -> None:
    assert python.run("%inf x").reply["evalue"] == "there is no magic %inf; did you mean %info x?"
    assert python.run(REGISTER).reply["status"] == "ok"
    assert python.run("%%onn 0\nx").text() == "cell 0 x\n"
    assert python.run("\n# why\n%inf a\nprint('code')").text() == "line a\ncode\n"
    assert "line b" in python.run("%%on 1\n%inf b").text()
    assert python.run("%hostname\n%inf c").text() == f"{socket.gethostname()}\nline c\n"
    # The next slip is one all the same.
    assert python.run("%%oon 0\nx").reply["evalue"].endswith("did you mean %%on 0?")


def test_magics_of_an_extension_run_though_they_are_near_ours(
    python: Kernel, tmp_path: Path
) -> None:
    (tmp_path / "near.py").write_text(
        "def load_ipython_extension(shell):\n"
        "    shell.register_magic_function(lambda line: print('mine', line), 'line', 'welcom')\n"
    )
    python.run(f"import sys; sys.path.insert(0, {str(tmp_path)!r})")
    assert python.run("%load_ext near").reply["status"] == "ok"
    assert python.run("%welcom back").text() == "mine back\n"


def test_a_magic_that_some_ranks_have_runs_on_those(python: Kernel) -> None:
    python.run("%%on 1\n" + REGISTER)
    assert "line a" in python.run("%%on 1\n%inf a").text()
    cell = python.run("%inf a")
    assert cell.reply["evalue"] == "there is no magic %inf; did you mean %info a?"
    assert cell.text() == "" and len(cell.of("error")) == 1


def test_a_slip_is_refused_before_anything_is_done(python: Kernel) -> None:
    python.run("x = 5")
    for cell in ("%reset\n%hostnme", "%reset\n%%onn 0\nx = 6"):
        assert "did you mean %" in python.run(cell).reply["evalue"]
    assert python.run("print(x)").text() == "5\n"
