"""What a trace says of a GPU's work, on the host's clock."""

from __future__ import annotations

import json
import time

import libsk as sk
import pytest
import torch
from conftest import DEVICE, Ranks

pytestmark = pytest.mark.gpu


def test_times_lie_where_the_host_saw_them(ranks: Ranks) -> None:
    def body(comm: sk.Comm) -> dict:
        x = torch.ones(1 << 22, device=DEVICE)
        a = torch.ones(1024, 512, device=DEVICE, dtype=torch.bfloat16)
        b = torch.ones(512, 768, device=DEVICE, dtype=torch.bfloat16)
        for _ in range(2):  # Plans are made ready before.
            comm.allreduce(x, out=x)
            comm.allreduce_gemm(a, b)
        comm.synchronize()
        before = time.monotonic_ns() / 1e3
        with comm.trace() as trace:
            comm.allreduce(x, out=x)
            comm.allreduce_gemm(a, b)
            comm.synchronize()
            after = time.monotonic_ns() / 1e3
        told = json.loads(trace.json)
        assert told["dropped"] == 0
        error = told["clock"]["error_ns"] / 1e3
        step = told["clock"]["step_ns"] / 1e3
        events = trace.events
        assert events
        for event in events:
            assert event["pid"] == comm.rank
            assert before - error <= event["ts"]
            assert event["ts"] + event["dur"] <= after + error
            assert event["dur"] >= 0
        products = [event for event in events if event["name"].startswith("gemm")]
        assert {event["args"]["epilogue"] for event in products} == {"partial", "reduce"}
        by_worker: dict[int, list] = {}
        for event in events:
            if event["name"] != "wait":
                by_worker.setdefault(event["tid"], []).append(event)
        for mine in by_worker.values():  # Work on a task ends before the next one's.
            ends = [event["ts"] + event["dur"] for event in sorted(mine, key=lambda e: e["ts"])]
            assert all(a <= b + step for a, b in zip(ends, ends[1:], strict=False))
        return {"clock": told["clock"], "events": len(events), "workers": len(by_worker)}

    for found in ranks(2, body):
        print(found)
