"""`sk status` on one of several hosts: who is here, who is not, on which link a rank waits."""

from __future__ import annotations

import json
import signal
import subprocess
from typing import Any

from hosts import BUILD, Host, Hosts
from processes import wait_until
from ranks import as_rank

SK = BUILD / "tools" / "sk" / "sk"
RANK = BUILD / "tests" / "multi" / "status_rank"


def status(host: Host) -> Any:
    """Its only communicator, or nothing."""
    answer = host.run([SK, "status", "--json"])
    jobs = json.loads(answer.stdout)["jobs"]
    return jobs[0]["communicators"][0] if jobs else {"ranks": []}


def test_a_rank_that_waits_for_another_host_names_the_link() -> None:
    with Hosts(2) as hosts:
        a, b = hosts
        places = [a, a, b]
        ranks = []
        for number, host in enumerate(places):
            env = as_rank(places, number, 28700)
            steps = ["barrier 2", "2:stop", "allreduce 1000", "free"]
            quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
            ranks.append(host.popen([RANK, *steps], env=env, **quiet))
        assert wait_until(lambda: sum("waits_for" in each for each in status(a)["ranks"]) == 2)
        here, there = status(a), status(b)
        assert [each["waits_for"] for each in here["ranks"]] == [{"rank": 2, "link": "tls"}] * 2
        assert here["elsewhere"] == [2]
        assert here["missing"] == []
        assert "Rank 2 is on other hosts: sk status says there where it stands." in here["findings"]
        assert there["id"] == here["id"]
        assert there["elsewhere"] == [0, 1]
        assert [each["state"] for each in there["ranks"]] == ["stopped"]
        ranks[2].send_signal(signal.SIGCONT)
        assert [rank.wait(60) for rank in ranks] == [0, 0, 0]
        assert status(a) == status(b) == {"ranks": []}
