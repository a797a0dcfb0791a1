"""Random faults at random moments of random cells, on four ranks (SK_FAULT_SCRIPTS: how many).

Whatever happens: a cell ends; of each rank the lines that it printed are shown once, in order and
without a gap, all of them where the rank lived; ranks that died come back by `%sk revive`; at the
end no process is left. SK_FAULT_SEED replays from one script on.
"""

from __future__ import annotations

import os
import random
import re
import signal

from conftest import Cell, Kernel, StartKernel, alive, descendants, wait_until

RANKS = 4
LINES = 30
SCRIPTS = int(os.environ.get("SK_FAULT_SCRIPTS", "6"))
SEED = int(os.environ.get("SK_FAULT_SEED", "1"))
LINE = re.compile(r"^(?:\[ *([\d,-]+)\] | *)(?:r(\d) )?line (\d+)$")


def ranks_in(text: str) -> list[int]:
    ranks: list[int] = []
    for item in text.split(","):
        first, _, last = item.partition("-")
        ranks += range(int(first), int(last or first) + 1)
    return ranks


def shown_by_rank(cell: Cell) -> dict[int, list[int]]:
    """The numbers of the lines that each rank has on the page."""
    shown: dict[int, list[int]] = {rank: [] for rank in range(RANKS)}
    for line in cell.text().splitlines():
        match = LINE.match(line)
        if match is None:
            continue
        everybody = range(RANKS)
        for rank in ranks_in(match[1]) if match[1] else everybody:
            shown[rank].append(int(match[3]))
    return shown


def script(rng: random.Random) -> str:
    """A cell: lines of all ranks alike or each its own, with pauses and floods.

    Written to descriptors, as Python's print() does: of sk_worker_stream() a killed rank loses what
    is younger than 20 ms, as its header says.
    """
    lines = []
    for number in range(LINES):
        own = rng.random() < 0.4
        kind = rng.choice(["fd", "c"])
        lines.append(f"{kind} {'r{rank} ' if own else ''}line {number}")
        if rng.random() < 0.3:
            lines.append(f"sleep {rng.choice([1, 5, 20])}")
    if rng.random() < 0.2:
        lines.append(f"on {rng.randrange(RANKS)} flood 3000 noise")
    if rng.random() < 0.3:
        lines.append(f"on {rng.randrange(RANKS)} hang 60000")
    if rng.random() < 0.5:
        lines.append("sleep 60000")
    return "\n".join(lines)


def fault(kernel: Kernel, rng: random.Random) -> int | None:
    """Does one; the rank that it kills, if it does."""
    ranks = kernel.ranks()
    victim = rng.randrange(len(ranks))
    kind = rng.choice(["kill", "stop", "term", "interrupt", "nothing"])
    if kind == "kill":
        os.kill(ranks[victim], signal.SIGKILL)
    elif kind == "term":
        os.kill(ranks[victim], signal.SIGTERM)
    elif kind == "stop":
        os.kill(ranks[victim], signal.SIGSTOP)
        if rng.random() < 0.7:
            os.kill(ranks[victim], signal.SIGCONT)
    elif kind == "interrupt":
        kernel.manager.interrupt_kernel()
    return victim if kind in ("kill", "term", "stop") else None


def check_page(cell: Cell, failed: bool) -> None:
    for rank, numbers in shown_by_rank(cell).items():
        assert numbers == list(range(len(numbers))), (rank, numbers, cell.text())
        assert failed or len(numbers) == LINES, (rank, numbers, cell.reply)


def bring_back(kernel: Kernel) -> None:
    """All ranks can run cells again."""

    def works() -> bool:
        kernel.run("%sk revive")
        reply = kernel.run("print back")
        return reply.reply["status"] == "ok" and reply.text() == "back\n"

    assert wait_until(works)


def test_random_fault_scripts(start_kernel: StartKernel) -> None:
    kernel = start_kernel(RANKS)
    kernel.run("print up")
    processes: set[int] = set()
    for seed in range(SEED, SEED + SCRIPTS):
        rng = random.Random(seed)
        message_id = kernel.start(script(rng))
        kernel.wait_for_stream(message_id)
        processes |= set(descendants(kernel.pid))
        fault(kernel, rng)
        kernel.manager.interrupt_kernel()  # Else half of them sleep for a minute.
        cell = kernel.finish(message_id)
        check_page(cell, failed=cell.reply["status"] != "ok")
        bring_back(kernel)
    processes |= set(descendants(kernel.pid))
    kernel.stop()
    assert wait_until(lambda: not any(map(alive, processes)))
