"""A fuzzer of layouts: random operands through every call, in a heap that is checked.

    python fuzz_layouts.py [--seconds 10] [--seed N [--case K --ranks W]]

Operands, and arrays that libsk makes, end at pages that no one may touch (guarded.py): a byte read
or written beyond faults in the call that does it. What NumPy and Python allocate by themselves is
watched by glibc's checks of malloc (as far as this machine has libc_malloc_debug) and by
PYTHONMALLOC=debug. AddressSanitizer would see less: only what is compiled with it, so all of libsk
and not NumPy's copies; and a page faults for vector loops and system calls alike.

Half of the rounds run on ranks that are threads; each result is compared with an oracle's. The
others are worlds of one with one argument that is wrong: libsk refuses it in a sentence and changes
nothing, or does what was asked.
"""

from __future__ import annotations

import argparse
import faulthandler
import os
import subprocess
import sys
import tempfile
import threading
import time
import traceback
from pathlib import Path
from typing import Any

sys.path.append(str(Path(__file__).resolve().parents[3] / "tools" / "dev"))
import heap

_POOL_BYTES = 1 << 23  # Operands and a result of four ranks, the largest of 40,000 elements.
_ROUND = 40  # Cases of one communicator.


class Failure(Exception):
    """A case that went wrong."""


def run_case(comm: Any, case: Any, pool: Any) -> None:
    """One case on one rank, and all that must hold after it."""
    import numpy as np
    from fuzz_cases import Operands, call, values_of
    from oracle import DTYPES

    mine = Operands(case, case.rng(2, comm.rank), pool)
    try:
        done = call(comm, case, mine)
        if done is not None:
            got, out, wanted = done
            dtype = case.out_dtype or case.dtype
            if out is not None:
                assert got is out, "the result is not the array that was given"
            elif np.asarray(got).dtype != np.uint16:
                assert np.asarray(got).dtype == DTYPES[dtype], f"dtype {np.asarray(got).dtype}"
            numbers = values_of(got)
            assert numbers.shape == wanted.shape, f"shape {numbers.shape}"
            assert np.array_equal(numbers, wanted), f"got {numbers}, wanted {wanted}"
        mine.check()
    except BaseException as error:
        raise Failure(f"rank {comm.rank}: {case}\n{mine.described}") from error


def run_ranks(seed: int, first: int, cases: int, world_size: int, note: Any) -> None:
    """A round of cases on ranks that are threads."""
    import libsk as sk
    from fuzz_cases import draw

    failures: list[BaseException] = []

    def rank_main(rank: int) -> None:
        config = {"bootstrap": "threads", "name": f"fuzz-{seed}-{first}", "timeout": 60.0}
        with sk.Comm(rank=rank, world_size=world_size, **config) as comm:
            try:
                pool = comm.empty(_POOL_BYTES // 8, "i64").view("u1")
                for index in range(first, first + cases):
                    note(f"--seed {seed} --case {index} --ranks {world_size}")
                    run_case(comm, draw(seed, index, world_size), pool)
                    if world_size == 1:
                        from fuzz_wrong import run_wrong

                        run_wrong(comm, seed, index)
            except BaseException as error:  # noqa: BLE001 - handed to the main thread.
                failures.append(error)
                comm.abort("a case failed")

    threads = [threading.Thread(target=rank_main, args=(rank,)) for rank in range(world_size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(300)
        if thread.is_alive():
            faulthandler.dump_traceback()
            raise Failure(f"a rank hangs: --seed {seed} --case {first} --ranks {world_size}")
    if failures:
        failures.sort(key=lambda error: not isinstance(error, Failure))
        raise failures[0]


def plant(bug: str) -> None:
    """A mistake that was once made: a result of bf16 bits into f32 gets half its room.

    With "size" its span says so, and with "span" nothing but the memory itself.
    """
    from libsk import _dtypes, _outputs

    make = _outputs._new

    def make_half(like: Any, code: int, shape: tuple[int, ...]) -> Any:
        if code != _dtypes.F32 or not _outputs.is_bits(like):
            return make(like, code, shape)
        made = make(like, _dtypes.BF16, shape)
        address, size = made.operand.span
        made.operand.span = (address, size if bug == "size" else 2 * size)
        return made

    _outputs._new = make_half


def fuzz(options: argparse.Namespace) -> None:
    """In the checked heap: rounds until the time is over."""
    import fuzz_wrong  # noqa: F401 - all of NumPy that it needs, before one of its names changes.
    import guarded
    import numpy as np

    np.empty = guarded.empty  # Also what libsk makes for results.
    if options.plant:
        plant(options.plant)
    faulthandler.enable()
    place = os.open(options.place, os.O_WRONLY)

    def note(text: str) -> None:
        os.pwrite(place, text.ljust(80).encode(), 0)

    if options.case is not None:
        run_ranks(options.seed, options.case, 1, options.ranks, note)
        print("0 failures in that case", flush=True)
        return
    end = time.monotonic() + options.seconds
    index = rounds = 0
    while rounds < 4 or time.monotonic() < end:
        run_ranks(options.seed, index, _ROUND, (1, 2, 1, 3, 1, 4)[rounds % 6], note)
        index += _ROUND
        rounds += 1
    print(f"0 failures in {index} cases of seed {options.seed}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description="Random layouts through libsk's Python calls.")
    parser.add_argument("--seconds", type=float, default=10.0)
    parser.add_argument("--seed", type=int, default=int.from_bytes(os.urandom(4), "little"))
    parser.add_argument("--case", type=int)
    parser.add_argument("--ranks", type=int, default=1)
    parser.add_argument("--plant", choices=("size", "span"), help="a bug that must be found")
    parser.add_argument("--place", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.place:
        try:
            fuzz(options)
        except Failure:
            traceback.print_exc()
            return 1
        return 0
    env = {**os.environ, **heap.environment()}
    print(f"seed {options.seed}; heap: {env[heap.NAME]}", flush=True)
    with tempfile.NamedTemporaryFile() as place:
        own = [sys.executable, str(Path(__file__).resolve()), "--place", place.name]
        given = [f"--seconds={options.seconds}", f"--seed={options.seed}"]
        given += [f"--plant={options.plant}"] if options.plant else []
        if options.case is not None:
            given += [f"--case={options.case}", f"--ranks={options.ranks}"]
        status = subprocess.run([*own, *given], env=env).returncode
        if status != 0:
            print(f"status {status} in: {place.read().decode().strip()}", flush=True)
    return 1 if status else 0


if __name__ == "__main__":
    sys.exit(main())
