"""Modules that are imported once for all ranks: what is tried, what is left out, what stays."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

from libsk.kernel import leftovers, preload

LIMIT_S = 60

# The front end's side of it is a file; the template says how it is, and does as the test wants.
SCRIPT = """
import json, os, sys
from libsk import _core
from libsk.kernel import preload
import faulthandler
faulthandler.enable()
file, end, *names = sys.argv[1:]
def note(text):
    with open(file, "a") as out:
        out.write(text + "\\n")
_core.template_note = note
os.environ["SK_TEMPLATE_FD"] = str(os.open("/dev/null", os.O_RDWR))
keeper = os.getpid()
preload.run(names)
def children_of(pid):
    return open(f"/proc/{pid}/task/{pid}/children").read().split()
children = [children_of(keeper), children_of(os.getpid())]
note(json.dumps({"template": os.getpid(), "keeper": keeper, "children": children,
    "there": [name for name in names if name in sys.modules],
    "threads": len(os.listdir("/proc/self/task")),
    "group": os.getpgid(0) == os.getpgid(keeper),
    "variables": {n: v for n, v in os.environ.items() if n.endswith("_NUM_THREADS")},
    "seen": getattr(sys.modules.get("sees"), "seen", None)}))
sys.stdout.flush()
exec(end)
"""

GOOD = "value = 7\n"


@dataclass
class Outcome:
    """What the notes have told."""

    modules: dict[str, dict[str, Any]]
    template: dict[str, Any]
    notes: list[dict[str, Any]]
    status: int


def run(folder: Path, sources: dict[str, str], end: str = "os._exit(0)", **env: str) -> Outcome:
    """Modules of this text, imported in this order."""
    for name, source in sources.items():
        (folder / f"{name}.py").write_text(source)
    file = folder / "notes"
    variables = {**os.environ, "PYTHONPATH": str(folder), "SK_PRELOAD_LIMIT_S": "20", **env}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(file), end, *sources],
        env=variables,
        timeout=LIMIT_S,
        capture_output=True,
        text=True,
        check=False,
    )
    assert file.exists(), done.stderr
    notes = [json.loads(line) for line in file.read_text().splitlines()]
    assert "template" in notes[-1], done.stderr
    modules = {module["name"]: module for module in notes[-2]["done"]}
    return Outcome(modules, notes[-1], notes, done.returncode)


LEAVES_PID = "import pathlib; pathlib.Path(__file__).with_name('pid').write_text(str(pid))\n"

BAD = {
    "not there": ("import no_such_module_xyz", ["ModuleNotFoundError", "no_such_module_xyz"]),
    "raises": ("\nraise ValueError('on purpose')", ["ValueError: on purpose", "bad.py, line 2"]),
    "no Python": ("def f(:", ["SyntaxError"]),
    "exits": ("import sys; sys.exit(3)", ["calls sys.exit(3)"]),
    "exits hard": ("import os; os._exit(4)", ["ends the process with exit status 4"]),
    "crashes": (
        "import os, signal\nos.kill(os.getpid(), signal.SIGSEGV)",
        ["SIGSEGV", "bad.py, line 2"],
    ),
    "aborts": (
        "import os\nos.write(2, b'no device')\nos.kill(os.getpid(), 9)",
        ["SIGKILL", 'it says "no device"'],
    ),
    "ends its group": ("import os; os.killpg(0, 9)", ["ends with SIGKILL"]),
    "begins a thread": (
        "import threading, time\n"
        "threading.Thread(target=time.sleep, args=(1000,), daemon=True).start()",
        ["leaves a thread running", "No forked rank would have it", "would stay locked"],
    ),
    "begins a process": (
        "import subprocess\nchild = subprocess.Popen(['sleep', '1000'])\npid = child.pid\n"
        + LEAVES_PID,
        ["leaves a process behind", "none could wait for it"],
    ),
    "begins an orphan": (
        "import os, signal\n"
        "if os.fork() == 0:\n"
        "    os.setsid()\n"
        "    pid = os.fork()\n"
        "    if pid == 0:\n"
        "        signal.pause()\n"
        f"    {LEAVES_PID}"
        "    os._exit(0)\n"
        "os.wait()\n",
        ["leaves a process behind"],
    ),
    "forks, and both go on": ("import os; os.fork()", ["leaves a process behind"]),
    "asks": ("name = input('name? ')", ["asks for input"]),
    "reads": ("import sys; text = sys.stdin.read()", ["asks for input"]),
    "keeps a socket": (
        "import socket; pair = socket.socketpair()",
        ["leaves 2 descriptors open (socket)", "take from each other"],
    ),
    "makes a loop": (
        "import asyncio; loop = asyncio.new_event_loop()",
        ["descriptors open (eventpoll, socket)"],
    ),
    "keeps a pipe": ("import os; pipe = os.pipe()", ["leaves a descriptor open (pipe)"]),
    "keeps a file": (
        "import pathlib\n"
        "log = pathlib.Path(__file__).with_suffix('.log').open('w')\n"
        "log.write('kept')",
        ["leaves a file open (bad.log)", "one place in it"],
    ),
    "takes what is printed": (
        "import io, sys\nsys.stdout = io.StringIO()",
        ["puts something else in the place of sys.stdout, where all that cells print would go"],
    ),
    "wraps both": (
        "import io, sys\n"
        "sys.stdout = io.TextIOWrapper(sys.stdout.buffer)\n"
        "sys.stderr = io.TextIOWrapper(sys.stderr.buffer)",
        ["in the place of sys.stdout and sys.stderr"],
    ),
    "deletes one": ("import sys\ndel sys.stderr", ["in the place of sys.stderr"]),
    "fails with what is no text": (
        "import os; raise OSError(os.fsdecode(b'no data at caf\\xe9.csv'))",
        ["OSError", "no data at caf"],
    ),
    "closes all": ("import os; os.closerange(3, 1000)", ["left out"]),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_module_is_left_out_and_the_others_are_there(tmp_path: Path, case: str) -> None:
    source, words = BAD[case]
    outcome = run(tmp_path, {"before": GOOD, "bad": source, "after": GOOD})
    why = outcome.modules["bad"]["why_not"]
    assert all(word in why for word in words), why
    assert outcome.modules["before"]["why_not"] == outcome.modules["after"]["why_not"] == ""
    template = outcome.template
    assert template["there"] == ["before", "after"]
    assert template["threads"] == 1 and template["group"]
    # The keeper has the template and nothing else, and that has nobody.
    assert template["children"] == [[str(template["template"])], []]
    if (tmp_path / "pid").exists():
        pid = int((tmp_path / "pid").read_text())
        assert not Path(f"/proc/{pid}").exists() or state_of(pid) in "ZX"


def state_of(pid: int) -> str:
    """Of a process that may be gone meanwhile."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except FileNotFoundError:
        return "X"


@pytest.mark.parametrize(
    "source", ["import signal\nwhile True: signal.pause()", "while True: pass"]
)
def test_an_import_without_end_is_ended(tmp_path: Path, source: str) -> None:
    outcome = run(tmp_path, {"bad": source, "after": GOOD}, SK_PRELOAD_LIMIT_S="1")
    why = outcome.modules["bad"]["why_not"]
    assert "did not end within 1 s" in why and "bad.py, line" in why
    assert outcome.template["there"] == ["after"]


def test_an_endless_flood_is_read_and_not_kept(tmp_path: Path) -> None:
    source = "while True: print('x' * 1000)"
    outcome = run(tmp_path, {"bad": source, "after": GOOD}, SK_PRELOAD_LIMIT_S="2")
    assert "did not end" in outcome.modules["bad"]["why_not"]
    assert len(outcome.modules["bad"]["printed"]) < 1000
    # Told by the clock, not at each line.
    assert len([note for note in outcome.notes if note.get("importing") == "bad"]) < 20


def test_what_an_import_prints_is_told(tmp_path: Path) -> None:
    source = "import os, sys\nprint('one')\nsys.stdout.flush()\nos.write(2, b'two')"
    outcome = run(tmp_path, {"loud": source})
    assert outcome.modules["loud"] | {"seconds": 0, "memory_bytes": 0} == {
        "name": "loud",
        "seconds": 0,
        "memory_bytes": 0,
        "why_not": "",
        "printed": "one\ntwo",
    }


def test_each_import_is_told_as_it_begins(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"a1": GOOD, "a2": "from time import sleep; sleep(2.6)"})
    told = [(note["importing"], note["number"], note["count"]) for note in outcome.notes[:-2]]
    assert told[0] == ("a1", 1, 2)
    assert told.count(("a2", 2, 2)) >= 3  # About every second.
    assert outcome.modules["a2"]["seconds"] >= 2.5  # By another clock than sleep()'s.


def test_what_it_costs_is_told(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"large": "kept = bytes(range(256)) * (20 << 12)"})
    assert 18 << 20 < outcome.modules["large"]["memory_bytes"] < 40 << 20


def test_imports_see_one_thread_and_the_template_what_was_set(tmp_path: Path) -> None:
    source = "import os\nseen = {n: v for n, v in os.environ.items() if n.endswith('_NUM_THREADS')}"
    outcome = run(tmp_path, {"sees": source}, OMP_NUM_THREADS="5", MKL_NUM_THREADS="6")
    assert set(outcome.template["seen"].values()) == {"1"}
    assert {"OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"} <= outcome.template["seen"].keys()
    assert outcome.template["variables"] == {"OMP_NUM_THREADS": "5", "MKL_NUM_THREADS": "6"}


@pytest.mark.parametrize(
    ("end", "status"), [("os._exit(5)", 5), ("os.kill(os.getpid(), 15)", -signal.SIGTERM)]
)
def test_the_keeper_ends_as_the_template_does(tmp_path: Path, end: str, status: int) -> None:
    assert run(tmp_path, {"good": GOOD}, end).status == status


def test_a_killed_keeper_takes_the_template_with_it(tmp_path: Path) -> None:
    outcome = run(tmp_path, {"good": GOOD}, "os.kill(keeper, 9); import signal; signal.pause()")
    assert outcome.status == -signal.SIGKILL
    until = time.monotonic() + LIMIT_S
    while state_of(outcome.template["template"]) not in "ZX":
        assert time.monotonic() < until
        time.sleep(0.01)  # tidy: allow sleep: a bounded poll, of what has no descriptor


def test_an_open_gpu_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leftovers, "GPU_FILES", (str(tmp_path / "nvidia"),))
    with (tmp_path / "nvidia0").open("w"), (tmp_path / "null").open("w"):
        left = leftovers.of(os.getpid(), but=0)
        assert leftovers.of(os.getpid(), but=os.getpid()).gpu_files == []
    assert left.gpu_files == [str(tmp_path / "nvidia0")]
    said = leftovers.sentence("torchish", left)
    assert "torchish is left out" in said and "nvidia0" in said and "would fail" in said
    assert leftovers.sentence("torchish", leftovers.Left()) == ""


def test_a_note_is_no_longer_than_it_may_be() -> None:
    modules = [preload.Module(f"m{i}", why_not="é" * 900, printed="\x00" * 4096) for i in range(64)]
    told = preload._as_note(modules)
    assert len(json.dumps(told, ensure_ascii=False).encode()) < 65_536
    assert [each["name"] for each in told] == [f"m{i}" for i in range(64)]
    short = preload._as_note([preload.Module("m", why_not="w" * 900, printed="p" * 90)])
    assert (len(short[0]["why_not"]), len(short[0]["printed"])) == (900, 90)


def test_names_are_taken_once_each(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SK_PRELOAD", "a, b,a,,c.d")
    assert preload.wanted() == ["a", "b", "c.d"]
