"""Threads and random numbers of libraries that were loaded before the rank was there."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import numpy as np
import pytest

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

from libsk.kernel import seeds, thread_counts

# How many threads NumPy's BLAS has: by itself, or imported for one thread and told afterwards.
COUNT = """
import ctypes, os, sys
from pathlib import Path
from libsk.kernel import thread_counts
if sys.argv[1] == "shared":
    before = thread_counts.hold()
    import numpy
    assert len(os.listdir("/proc/self/task")) == 1
    thread_counts.release(before)
    thread_counts.remember()
    thread_counts.apply()
import numpy
lines = Path("/proc/self/maps").read_text().splitlines()
for path in {line.split()[-1] for line in lines if "openblas" in line}:
    library = ctypes.CDLL(path)
    for own in ("", "scipy_"):
        for bits in ("", "64_"):
            if hasattr(library, f"{own}openblas_get_num_threads{bits}"):
                print(getattr(library, f"{own}openblas_get_num_threads{bits}")())
"""


@pytest.fixture(autouse=True)
def _no_seed_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "_chosen", None)


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"OMP_NUM_THREADS": "1"},
        {"OMP_NUM_THREADS": "2"},
        {"OMP_NUM_THREADS": "2,1"},
        {"OMP_NUM_THREADS": "64"},
        {"OMP_NUM_THREADS": "none"},
        {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "2"},
    ],
)
def test_numpys_blas_has_the_threads_that_it_would_have(variables: dict[str, str]) -> None:
    counts = [
        subprocess.run(
            [sys.executable, "-c", COUNT, how],
            env={"PATH": "/usr/bin:/bin", **variables},
            capture_output=True,
            text=True,
            timeout=60,
            check=True,
        ).stdout
        for how in ("alone", "shared")
    ]
    if not counts[0]:
        pytest.skip("this NumPy has another BLAS than OpenBLAS")
    assert counts[1] == counts[0]


def test_what_a_module_has_set_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", {"OMP_NUM_THREADS": "3", "OTHER": "1"})
    before = thread_counts.hold()
    assert os.environ["MKL_NUM_THREADS"] == "1"
    os.environ["OPENBLAS_NUM_THREADS"] = "7"
    thread_counts.release(before)
    assert os.environ == {"OMP_NUM_THREADS": "3", "OTHER": "1", "OPENBLAS_NUM_THREADS": "7"}


def test_a_seed_is_another_on_each_rank_and_comes_again() -> None:
    np.random.seed(1)  # It is imported at its first use.
    drawn = []
    for rank in (0, 1, 0):
        seeds.choose(7, rank)
        drawn.append((random.random(), np.random.rand()))
    assert drawn[0] == drawn[2] != drawn[1]
    random.seed(8)
    np.random.seed(8)
    assert drawn[1] == (random.random(), np.random.rand())


def test_what_is_imported_later_begins_with_it() -> None:
    seeds.patch(np.random)  # No seed was chosen: nothing happens.
    np.random.seed(3)
    expected = np.random.rand()
    np.random.seed(3)
    seeds.patch(np.random)
    assert np.random.rand() == expected
    seeds.choose(20, 2)
    seeds.patch(np.random)
    first = np.random.rand()
    np.random.seed(22)
    assert np.random.rand() == first


def test_a_fork_draws_anew() -> None:
    np.random.seed(5)
    first = np.random.rand()
    np.random.seed(5)
    seeds.renew()
    assert np.random.rand() != first


@pytest.mark.parametrize("seed", [-1, seeds.SEED_MAX + 1])
def test_a_wrong_seed_gets_a_sentence(seed: int) -> None:
    with pytest.raises(ValueError, match=f"%sk seed is {seed}; it must be a number from 0 to"):
        seeds.choose(seed, 0)


def test_the_highest_seed_of_the_highest_rank_is_one_for_numpy() -> None:
    seeds.choose(seeds.SEED_MAX, 4095)
