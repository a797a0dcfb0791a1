"""pandas shared among ranks: it is not left out, and works in forked ranks as in others."""

from __future__ import annotations

import importlib.util
import sys
import textwrap
from pathlib import Path

import pytest
from conftest import Kernel, StartKernel

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)
if importlib.util.find_spec("pandas") is None:
    pytest.skip(
        "pandas is not installed; in a folder of its own: pip install --target FOLDER pandas, and"
        " PYTHONPATH=FOLDER",
        allow_module_level=True,
    )

PROGRAM = [sys.executable, "-m", "libsk.kernel"]
RANKS = 3


def start(start_kernel: StartKernel, names: str) -> Kernel:
    """Ranks with pandas imported, none of which complains."""
    kernel = start_kernel(RANKS, PROGRAM, {"SK_PRELOAD": names})
    cell = kernel.run("import os, random, numpy as np, pandas as pd")
    assert cell.reply["status"] == "ok" and cell.text("stderr") == ""
    return kernel


@pytest.fixture
def shared(start_kernel: StartKernel) -> Kernel:
    """Ranks that share numpy and pandas."""
    return start(start_kernel, "numpy,pandas")


def by_rank(kernel: Kernel, code: str, expression: str) -> list[str]:
    """What an expression is on each rank, behind some code."""
    cell = kernel.run(f"{textwrap.dedent(code)}\nprint(rank, ({expression}))")
    assert cell.reply["status"] == "ok", cell.reply
    lines = [line.split("] ")[-1].split(" ", 1) for line in cell.text().splitlines()]
    assert [int(rank) for rank, _ in lines] == list(range(RANKS)), cell.text()
    return [text for _, text in lines]


def test_it_is_shared(shared: Kernel) -> None:
    table = shared.run("%sk preload").of("display_data")[0]["data"]["text/plain"]
    rows = {line.split()[0]: line.split()[-1] for line in table.splitlines()}
    assert (rows["numpy"], rows["pandas"]) == ("yes", "yes"), table
    assert f"2 of 2 shared by {RANKS} ranks" in table


def test_no_thread_and_no_file_is_left(start_kernel: StartKernel, shared: Kernel) -> None:
    count = "len(os.listdir('/proc/self/task')), len(os.listdir('/proc/self/fd'))"
    alone = start(start_kernel, "")
    assert by_rank(shared, "", count) == by_rank(alone, "", count)


FRAMES = """
import tempfile
draws = np.random.default_rng([7, rank])
frame = pd.DataFrame({"k": np.arange(1000) % 7, "v": draws.random(1000), "s": "x"})
sums = frame.groupby("k").v.sum()
assert np.allclose(sums.sum(), frame.v.sum()) and len(sums) == 7
means = frame.groupby("k").v.mean().rename("m").reset_index()
assert len(frame.merge(means, on="k")) == 1000 and len(frame.query("k == 3 and v < 2")) == 143
with tempfile.TemporaryDirectory() as folder:
    frame.to_csv(f"{folder}/f.csv", index=False)
    back = pd.read_csv(f"{folder}/f.csv")
pd.testing.assert_frame_equal(back, frame, check_dtype=False)
days = pd.date_range("2020-03-28", periods=3, freq="D", tz="Europe/Berlin")
assert [stamp.utcoffset().seconds for stamp in days] == [3600, 3600, 7200]
assert pd.Series(["a", None]).str.upper().isna().tolist() == [False, True]
"""


def test_frames_files_and_time_zones(shared: Kernel) -> None:
    assert by_rank(shared, FRAMES, "len(back) + rank") == ["1000", "1001", "1002"]
    # What one rank writes to is its own: copies on write are those of the kernel and pandas' own.
    code = "frame.loc[0, 'v'] = rank; view = frame[['v']]; view.iloc[0, 0] = -1"
    assert by_rank(shared, code, "frame.v[0]") == ["0.0", "1.0", "2.0"]


def test_forks_behind_the_import(shared: Kernel) -> None:
    code = """
    import multiprocessing, warnings
    frame = pd.DataFrame({"k": [1, 1, 2], "v": [rank, 2, 3]})
    read, write = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        child = os.fork()
    if child == 0:
        os.write(write, str(frame.groupby("k").v.sum()[1]).encode())
        os._exit(0)
    said = os.read(read, 100).decode()
    os.close(read), os.close(write)
    status = os.waitpid(child, 0)[1]
    """
    assert by_rank(shared, code, "said, status") == [f"('{2 + r}', 0)" for r in range(RANKS)]


def test_each_rank_draws_its_own(shared: Kernel) -> None:
    drawn = "pd.Series(range(10**6)).sample(3).tolist()"
    assert len(set(by_rank(shared, "", drawn))) == RANKS
    shared.run("%sk seed 5")
    seeded = by_rank(shared, "", drawn)
    assert len(set(seeded)) == RANKS
    assert by_rank(shared, "np.random.seed(5 + rank)", drawn) == seeded


def private_kib(kernel: Kernel) -> list[int]:
    """What each rank has of memory that no other process has."""
    pids = by_rank(kernel, "", "os.getpid()")
    found = []
    for pid in pids:
        rollup = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        private = [line.split() for line in rollup if line.startswith("Private_")]
        found.append(sum(int(fields[1]) for fields in private if fields[0] != "Private_Hugetlb:"))
    return found


def test_its_pages_are_shared(start_kernel: StartKernel, shared: Kernel) -> None:
    alone = start(start_kernel, "")
    assert 2 * max(private_kib(shared)) < min(private_kib(alone))
