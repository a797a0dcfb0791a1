"""One visit to a kernel: started, asked, measured, ended. Each returns lines of JSON."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

from measure.launch import LaunchError

from notebook import processes
from notebook.client import Cell, Kernel
from notebook.kernels import Candidate, ours, stub

Lines = list[dict[str, Any]]
MB = 1 << 20
SLEEP = "import time\nprint('begun')\ntime.sleep(60)"


def _expect(cell: Cell, status: str, text: str) -> None:
    if cell.reply.get("status") != status or text not in cell.text:
        raise LaunchError(f"a cell ended as {cell.reply} with {cell.text[:200]!r}")


def start_and_print(candidate: Candidate, scratch: Path, prints: int) -> Lines:
    """Seconds to the first finished cell, milliseconds of the next ones, memory of the ranks; where
    ranks connect to each other after their start, also milliseconds of cells after that."""
    languages = {"stub": "print 1", "julia": "println(1)"}
    code = languages.get(candidate.name.split("-")[0], "print(1)")
    code = candidate.cell(code)
    with candidate.open(scratch) as kernel:
        first = kernel.first(candidate.prepare or code)
        if candidate.prepare:
            _expect(first, "ok", "")
            _expect(kernel.run(code), "ok", "1")
        else:
            _expect(first, "ok", "1\n")
        start = time.perf_counter() - kernel.started if candidate.prepare else first.seconds
        cells = [kernel.run(code) for _ in range(prints)]
        later = _connected(kernel, code, prints) if candidate.name.startswith("libsk") else []
        for cell in cells + later:
            _expect(cell, "ok", "1")
        line = {
            "start_s": [start],
            "print_ms": [1000 * cell.seconds for cell in cells],
            "connected_ms": [1000 * cell.seconds for cell in later],
        }
        return [{"case": "cells", **line, **_memory(candidate, kernel)}]


def _connected(kernel: Kernel, code: str, prints: int) -> list[Cell]:
    _expect(kernel.run("comm.barrier()"), "ok", "")
    return [kernel.run(code) for _ in range(prints)]


def _memory(candidate: Candidate, kernel: Kernel) -> dict[str, list[float]]:
    """PSS per rank: of the rank processes and the template, by the number of ranks."""
    pids = [kernel.process.pid, *processes.descendants(kernel.process.pid)]
    sk = [pid for pid in pids if re.search(r"/sk (kernel|controller)", processes.command(pid))]
    ranks = [pid for pid in pids if pid not in sk]
    return {"pss_mb_per_rank": [sum(map(processes.pss_mb, ranks)) / candidate.ranks]}


def controller_memory(scratch: Path, ranks: int) -> Lines:
    """RSS of the controller with many stub ranks, after cells that print alike and apart."""
    with stub(ranks).open(scratch) as kernel:
        start = kernel.first("print up").seconds
        _expect(kernel.run("print {rank}"), "ok", str(ranks - 1))
        pids = list(processes.descendants(kernel.process.pid))
        controllers = [pid for pid in pids if " controller" in processes.command(pid)]
        return [
            {
                "case": "controller",
                "ranks": ranks,
                "start_s": [start],
                "print_ms": [1000 * kernel.run("print 1").seconds for _ in range(10)],
                "rss_mb": [processes.rss_mb(pid) for pid in controllers],
            }
        ]


def _output(kernel: Kernel, case: str, code: str, **about: Any) -> dict[str, Any]:
    cell = kernel.run(code)
    _expect(cell, "ok", "")
    shown = len(cell.text.encode())
    return {
        "case": case,
        **about,
        "seconds": [cell.seconds],
        "messages": [len(cell.messages)],
        # Servers count over windows of seconds: less than one says nothing.
        "messages_per_s": [len(cell.messages) / max(1.0, cell.seconds)],
        "shown_bytes": [shown],
        "wire_bytes": [sum(cell.sizes)],
        "wire_over_shown": [sum(cell.sizes) / max(1, shown)],
    }


def flood(scratch: Path, ranks: int, lines: int) -> Lines:
    """Each rank prints that many lines, first alike on all, then each its own."""
    alike = f"for i in range({lines}): print('step', i, 'loss', i / 7)"
    apart = f"for i in range({lines}): print('step', i, 'loss', i / 7 + rank)"
    with ours(ranks).open(scratch) as kernel:
        _expect(kernel.first("print(1)"), "ok", "1")
        return [
            _output(kernel, "lines alike", alike, ranks=ranks, lines=lines),
            _output(kernel, "lines apart", apart, ranks=ranks, lines=lines),
        ]


def volume(scratch: Path, ranks: int, megabytes: tuple[int, ...]) -> Lines:
    """Each rank prints so many MB, alike on all ranks."""
    found = []
    with ours(ranks).open(scratch) as kernel:
        _expect(kernel.first("print(1)"), "ok", "1")
        for size in megabytes:
            code = f"for i in range({size * MB // 64}): print(f'{{i:08d}} ' + 54 * 'x')"
            found.append(_output(kernel, f"{size} MB", code, ranks=ranks, mb=size))
    return found


def _begin_sleep(kernel: Kernel) -> str:
    number = kernel.start_cell(SLEEP)
    kernel.wait_for_text(number)
    return number


def interrupts(scratch: Path, ranks: int, times: int) -> Lines:
    """Milliseconds from the interrupt to the end of a cell that sleeps on all ranks."""
    taken = []
    with ours(ranks).open(scratch) as kernel:
        kernel.first("print(1)")
        for _ in range(times):
            number = _begin_sleep(kernel)
            since = time.perf_counter()
            kernel.interrupt()
            cell = kernel.finish(number, since)
            _expect(cell, "error", "")
            taken.append(1000 * cell.seconds)
            _expect(kernel.run("print(rank)"), "ok", f"[{ranks - 1}] {ranks - 1}")
    return [{"case": "interrupt", "ranks": ranks, "ms": taken}]


def deaths(scratch: Path, ranks: int, times: int) -> Lines:
    """Milliseconds from a rank's SIGKILL in a cell to the cell's end with an error."""
    taken = []
    for turn in range(times):
        with ours(ranks).open(scratch) as kernel:
            text = kernel.first("import os\nprint('pid', os.getpid())").text
            pids = [int(word) for word in re.findall(r"pid (\d+)", text)]
            number = _begin_sleep(kernel)
            since = time.perf_counter()
            os.kill(pids[turn % len(pids)], signal.SIGKILL)
            cell = kernel.finish(number, since)
            _expect(cell, "error", "")
            taken.append(1000 * cell.seconds)
    return [{"case": "death", "ranks": ranks, "ms": taken}]
