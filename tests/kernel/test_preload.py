"""Modules that ranks share: once imported, bad ones left out and told, chosen in a notebook."""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import pytest
from conftest import Cell, Kernel, StartKernel, kill, wait_until

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)

PROGRAM = [sys.executable, "-m", "libsk.kernel"]
COUNTED = """
import os, pathlib
with pathlib.Path(__file__).with_name("imports").open("a") as file:
    file.write(f"{os.getpid()}\\n")
value = 7
"""
BAD = {
    "absent": "import no_such_module_xyz",
    "leaver": "import sys; sys.exit(3)",
    "crasher": "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
    "hanger": "import signal\nwhile True: signal.pause()",
    "threader": "import threading, time\n"
    "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
    "parent": "import subprocess; child = subprocess.Popen(['sleep', '1000'])",
    "asker": "name = input('name? ')",
    "shower": "from IPython.display import display; display(1)",
}


def write(folder: Path, **sources: str) -> None:
    """Modules that ranks find, as they are where the notebook is."""
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)


def imports(folder: Path) -> int:
    """How often `counted` was imported."""
    return len((folder / "imports").read_text().splitlines())


def children_of(pid: int) -> list[int]:
    return list(map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()))


def told(cell: Cell) -> str:
    assert cell.reply["status"] == "ok", cell.reply
    return cell.text("stderr")


def lines_of(kernel: Kernel, expression: str) -> list[str]:
    """Of an expression, by rank."""
    cell = kernel.run(f"print(rank, {expression})")
    assert cell.reply["status"] == "ok", cell.reply
    lines = [line.split("] ")[-1].split(" ", 1) for line in cell.text().splitlines()]
    return [text for _, text in sorted(lines, key=lambda line: int(line[0]))]


def ranks_of(kernel: Kernel) -> list[int]:
    """As they know themselves: what was forked has the template's variables in /proc."""
    return [int(pid) for pid in lines_of(kernel, "__import__('os').getpid()")]


def test_a_module_is_imported_once_for_all_ranks(start_kernel: StartKernel, tmp_path: Path) -> None:
    write(tmp_path, counted=COUNTED)
    kernel = start_kernel(3, PROGRAM, {"SK_PRELOAD": "counted"})
    assert kernel.run("import counted; print(counted.value)").text() == "7\n"
    assert imports(tmp_path) == 1
    # What is shared is the process and not the name.
    assert kernel.run("print('counted' in globals())").text() == "True\n"
    kernel.run("%reset")
    assert kernel.run("counted").reply["ename"] == "NameError"
    # The controller has the ranks and the keeper, and that the template.
    ranks = ranks_of(kernel)
    (keeper,) = set(children_of(kernel.controller())) - set(ranks)
    assert len(ranks) == 3 and len(children_of(keeper)) == 1


def test_without_it_each_rank_imports(start_kernel: StartKernel, tmp_path: Path) -> None:
    write(tmp_path, counted=COUNTED)
    kernel = start_kernel(3, PROGRAM, {"SK_PRELOAD": ""})
    kernel.run("import counted")
    assert imports(tmp_path) == 3
    assert "Nothing is preloaded." in kernel.run("%sk preload").text()


def test_bad_modules_are_told_once_and_the_rest_is_shared(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    write(tmp_path, counted=COUNTED, loud="print('hello')", **BAD)
    names = ",".join(["loud", *BAD, "counted"])
    kernel = start_kernel(2, PROGRAM, {"SK_PRELOAD": names, "SK_PRELOAD_LIMIT_S": "2"})
    said = told(kernel.run("import counted"))
    for name in BAD:
        assert f"preload: {name} is left out: its import " in said
    assert said.count("\n") == len(BAD) + 1
    assert [said.index(name) for name in BAD] == sorted(said.index(name) for name in BAD)
    assert "preload: loud printed, when it was imported for all ranks: hello" in said
    assert "No module named 'no_such_module_xyz' (" in said
    assert "did not end within 2 s" in said and "would stay locked" in said
    assert imports(tmp_path) == 1
    assert told(kernel.run("print(1)")) == ""
    table = kernel.run("%sk preload")
    text = table.of("display_data")[0]["data"]["text/plain"]
    rows = {line.split()[0]: line.split() for line in text.splitlines()}
    assert rows["counted"][-1] == "yes" and rows["threader"][-1] == "no"
    assert f"2 of {len(BAD) + 2} shared by 2 ranks" in text
    assert "hanger is left out" in table.text()
    # They are whole: a barrier needs both.
    assert kernel.run("comm.barrier(); print('both')").text() == "both\n"


def test_a_start_that_takes_long_says_what_it_does(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    write(tmp_path, slow="from time import sleep; sleep(5)")
    kernel = start_kernel(2, PROGRAM, {"SK_PRELOAD": "slow"})
    cell = kernel.run("print('up')")
    shown = [
        message["content"]["data"]["text/plain"]
        for message in cell.messages
        if message["msg_type"] in ("display_data", "update_display_data")
    ]
    assert shown and all("importing slow (1 of 1)" in line for line in shown)
    # What is kept of the cell is its own.
    assert [message["msg_type"] for message in cell.kept()] == ["stream"]
    assert cell.text() == "up\n"


def test_a_revived_rank_shares_too(start_kernel: StartKernel, tmp_path: Path) -> None:
    write(tmp_path, counted=COUNTED)
    kernel = start_kernel(2, PROGRAM, {"SK_PRELOAD": "counted"})
    kernel.run("import counted")
    kill(ranks_of(kernel)[1])
    assert wait_until(lambda: len(children_of(kernel.controller())) == 2)
    kernel.run("%sk revive")
    assert kernel.run("import counted; print(counted.value)").text() == "7\n"
    assert imports(tmp_path) == 1


def test_a_choice_holds_from_the_next_start_on(start_kernel: StartKernel, tmp_path: Path) -> None:
    write(tmp_path, counted=COUNTED, other="value = 8")
    kernel = start_kernel(2, PROGRAM)
    said = kernel.run("%sk preload counted, other").text()
    assert said.startswith("Preloaded from the next start on: counted, other (restart the kernel")
    assert "Preloaded from the next start on: counted, other (" in kernel.run("%sk preload").text()
    assert not (tmp_path / "imports").exists()
    cell = kernel.run("%shutdown\n%reconnect\nimport counted, other; print(other.value)")
    assert cell.text().endswith("Starting 2 ranks.\n8\n")
    assert imports(tmp_path) == 1
    assert "that is preloaded already" in kernel.run("%sk preload counted other").text()


def test_a_choice_outlives_a_restart_and_ends_with_the_kernel(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    write(tmp_path, counted=COUNTED)
    kernel = start_kernel(2, PROGRAM)
    kernel.run("%sk preload counted")
    runtime = Path(kernel.manager.connection_file).parent
    kept = list(runtime.glob("sk-preload-*"))
    kernel.manager.restart_kernel(now=False)
    kernel.wait_for_ready()
    assert kernel.run("import counted; print(counted.value)").text() == "7\n"
    assert imports(tmp_path) == 1
    assert "Preloaded from the next start on: nothing (" in kernel.run("%sk preload none").text()
    pid = kernel.pid
    kernel.stop()
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())
    ours = [path for path in kept if path.exists() and path.stat().st_uid == os.getuid()]
    assert len(kept) >= 1 and len(ours) == len(kept) - 1


@pytest.mark.parametrize(
    ("typed", "words"),
    [
        ("%sk preload 3d", '%sk preload has "3d", which is no name of a module'),
        ("%sk preload a..b", '"a..b"'),
        ("%sk preload import json", '"import"'),
        ("%sk preload none json", "none stands alone"),
        ("%sk preload " + ",".join(f"m{i}" for i in range(65)), "at most 64"),
        ("%sk seed", "needs a number from 0 to 4294963199"),
        ("%sk seed -1", '"-1"'),
        ("%sk seed 4294963200", '"4294963200"'),
        ("%sk seed 1 2", '"1 2"'),
    ],
)
def test_wrong_words_get_a_sentence(kernel: Kernel, typed: str, words: str) -> None:
    reply = kernel.run(typed).reply
    assert reply["ename"] == "UsageError"
    assert words in reply["evalue"]


@pytest.mark.parametrize("names", ["numpy;torch", "none,json", "import json"])
def test_a_wrong_variable_is_said_and_shares_nothing(start_kernel: StartKernel, names: str) -> None:
    kernel = start_kernel(2, PROGRAM, {"SK_PRELOAD": names})
    said = told(kernel.run("print(1)"))
    assert (
        said.startswith("preload: nothing is preloaded: SK_PRELOAD has ") and said.count("\n") == 1
    )
    assert told(kernel.run("print(1)")) == ""
    kernel.run("%sk preload json")
    kernel.run("%shutdown")
    kernel.run("%reconnect")
    assert kernel.run("print(2)").text() == "2\n"
    assert "1 of 1 shared by 2 ranks" in str(kernel.run("%sk preload").of("display_data"))


def test_ranks_that_are_not_forked_share_nothing_and_say_so(start_kernel: StartKernel) -> None:
    kernel = start_kernel(2, PROGRAM, {"SK_PRELOAD": "json", "SK_TEMPLATE": "0"})
    assert "preload: nothing is preloaded: only ranks of Python" in told(kernel.run("print(1)"))
    assert "SK_TEMPLATE" in kernel.run("%sk preload").text()


def test_random_numbers_differ_and_come_again(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3, PROGRAM, {"SK_PRELOAD": "numpy.random"})
    kernel.run("import random, numpy as np")
    drawn = "(random.random(), float(np.random.rand()))"
    first = lines_of(kernel, drawn)
    assert len(set(first)) == 3
    kernel.run("%sk seed 7")
    seeded = lines_of(kernel, drawn)
    assert len(set(seeded)) == 3
    assert lines_of(kernel, drawn) != seeded
    kernel.run("%sk seed 7")
    assert lines_of(kernel, drawn) == seeded
    kernel.run("random.seed(7 + rank); np.random.seed(7 + rank)")
    assert lines_of(kernel, drawn) == seeded


def test_a_seed_holds_for_what_is_imported_later(start_kernel: StartKernel) -> None:
    kernel = start_kernel(2, PROGRAM)
    kernel.run("%sk seed 20\nimport numpy as np")
    seeded = lines_of(kernel, "float(np.random.rand())")
    kernel.run("np.random.seed(20 + rank)")
    assert lines_of(kernel, "float(np.random.rand())") == seeded


THREADS = """
import ctypes, numpy
from pathlib import Path
def blas_threads():
    maps = Path("/proc/self/maps").read_text().splitlines()
    for path in sorted({line.split()[-1] for line in maps if "openblas" in line}):
        library = ctypes.CDLL(path)
        for name in ("scipy_openblas_get_num_threads64_", "openblas_get_num_threads"):
            if hasattr(library, name):
                return getattr(library, name)()
"""


@pytest.mark.parametrize("threads", ["1", "2"])
def test_blas_has_the_threads_of_a_rank_that_imports_by_itself(
    start_kernel: StartKernel, threads: str
) -> None:
    alone, shared = (
        start_kernel(2, PROGRAM, {"OMP_NUM_THREADS": threads, "SK_PRELOAD": names})
        for names in ("", "numpy")
    )
    found = []
    for kernel in (alone, shared):
        kernel.run(THREADS)
        found.append(lines_of(kernel, "blas_threads()"))
    assert found[0] == found[1]
    product = "import numpy as np; print(int((np.ones((300, 300)) @ np.ones((300, 300))).sum()))"
    assert shared.run(product).text() == "27000000\n"


def test_what_modules_tell_the_shell_is_known_to_ranks(start_kernel: StartKernel) -> None:
    pytest.importorskip("ipywidgets")
    kernel = start_kernel(2, PROGRAM, {"SK_PRELOAD": "ipywidgets"})
    cell = kernel.run("import comm, ipywidgets; print(sorted(comm.get_comm_manager().targets))")
    assert cell.text() == "['jupyter.widget', 'jupyter.widget.control']\n"
    assert kernel.run("slider = ipywidgets.IntSlider(3); print(slider.value)").text() == "3\n"


def test_a_picture_is_drawn_as_ever(start_kernel: StartKernel) -> None:
    pytest.importorskip("matplotlib")
    kernel = start_kernel(2, PROGRAM, {"SK_PRELOAD": "matplotlib.pyplot"})
    cell = kernel.run("import matplotlib.pyplot as plt; plt.plot([1, 2])")
    assert any("image/png" in shown["data"] for shown in cell.of("display_data"))
