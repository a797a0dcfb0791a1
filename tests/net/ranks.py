"""Ranks of comm_probe in several hosts: started, watched line by line, and ended."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import threading
import time
from collections.abc import Sequence
from typing import Any

from hosts import BUILD, ENV, Host
from processes import wait_until

PROBE = BUILD / "tests" / "net" / "comm_probe"
SECRET = "0123456789abcdef"
MANY = 1_000_000  # Rounds: more than any test waits for.
SMALL = 4099  # Numbers at most, where links are slow.
LIMIT_S = 120.0
SEED = int(os.environ.get("SK_TEST_SEED", str(random.SystemRandom().randrange(1 << 30))))

_ports = itertools.count(29400)


def as_rank(places: Sequence[Host], rank: int, port: int) -> dict[str, str]:
    """The environment of one of a world's ranks, of which each place has one."""
    return {
        **ENV,
        "SK_BOOTSTRAP": "env",
        "SK_JOB_SECRET": SECRET,
        "RANK": str(rank),
        "WORLD_SIZE": str(len(places)),
        "LOCAL_WORLD_SIZE": str(list(places).count(places[rank])),
        "MASTER_ADDR": places[0].ip4,
        "MASTER_PORT": str(port),
    }


class Rank:
    """One rank, and the lines that it has printed, with the times at which they came.

    What it says on stderr is among them, unless it goes to a file of the host.
    """

    def __init__(self, host: Host, env: dict[str, str], *, stderr: str = "") -> None:
        self.host = host
        self.lines: list[str] = []
        self.last_at = 0.0
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
        limited = ["sh", "-c", 'ulimit $ULIMIT; exec "$0"'] if "ULIMIT" in env else []
        if stderr:
            limited = ["sh", "-c", f'exec "$0" 2>{stderr}']
        self.program = host.popen([*limited, PROBE], env=env, **options)
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.program.stdout is not None
        for line in self.program.stdout:
            self.last_at = time.monotonic()
            self.lines.append(line.strip())

    @property
    def said(self) -> str:
        """Its verdict; "" as long as it has none."""
        return next((line for line in self.lines if line.startswith(("SK_", "a sum"))), "")

    def begun(self) -> bool:
        return "begun" in self.lines or self.said != ""

    def stop(self) -> None:
        self.program.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        self.program.send_signal(signal.SIGCONT)


class Ranks(list[Rank]):
    """A world of ranks, one in each of `places`; a dictionary of `each` is for that rank alone."""

    def __init__(
        self,
        places: Sequence[Host],
        *,
        master: str = "",
        each: dict[int, dict[str, object]] | None = None,
        later: Sequence[int] = (),
        **probe: object,
    ) -> None:
        super().__init__()
        self._places = places
        self._each = each or {}
        self.master_port = next(_ports)
        self._all = {name: str(value) for name, value in probe.items()}
        if master:
            self._all["MASTER_ADDR"] = master
        for rank in range(len(places) - len(later)):
            self.start(rank)

    def start(self, rank: int) -> None:
        """The next one; the constructor has left out those that come `later`."""
        env = as_rank(self._places, rank, self.master_port) | self._all
        env |= {name: str(value) for name, value in self._each.get(rank, {}).items()}
        self.append(Rank(self._places[rank], env))

    def begin(self) -> Ranks:
        """Returns when all have summed once."""
        assert wait_until(lambda: all(rank.begun() for rank in self), LIMIT_S), self.lines()
        assert not any(rank.said for rank in self), self.lines()
        return self

    def lines(self) -> list[list[str]]:
        return [rank.lines for rank in self]

    def said(self, *but: int, within: float = LIMIT_S) -> list[str]:
        """What all say at the end, but for some, of whom nothing is asked."""
        asked = [rank for number, rank in enumerate(self) if number not in but]
        start = time.monotonic()
        assert wait_until(lambda: all(rank.said for rank in asked), within), self.lines()
        took = [f"{rank.last_at - start:.2f}" for rank in asked]
        said = [rank.said for rank in asked]
        print(f"said after {' '.join(took)} s:", *said, sep="\n  ")
        return said
