"""Plans that are made of text."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import libsk as sk
import numpy as np
import pytest

Ranks = Callable[..., list[Any]]


@pytest.fixture
def alone() -> Iterator[sk.Comm]:
    with sk.Comm(bootstrap="threads", rank=0, world_size=1, name="plan text") as comm:
        yield comm


KINDS: dict[str, dict[str, Any]] = {
    "barrier": {},
    "allreduce": {"dtype": "f64", "count": 24, "op": "max"},
    "allgather": {"dtype": "f64", "count": 24},
    "reduce_scatter": {"dtype": "f64", "count": 12},
    "broadcast": {"dtype": "f64", "count": 24, "root": 1},
    "send_recv": {"dtype": "f64", "count": 24, "root": 1, "peer": 0},
    "allreduce_gemm": {"dtype": "f64", "m": 4, "n": 3, "k": 6},
    "allgather_gemm": {"dtype": "f64", "m": 4, "n": 3, "k": 6},
}


@pytest.mark.parametrize("kind", KINDS)
def test_a_plan_of_its_text(ranks: Ranks, kind: str) -> None:
    def body(comm: sk.Comm) -> None:
        made = comm.plan(kind, **KINDS[kind])
        read = comm.parse_plan(made.dump())
        assert (read.kind, read.dump(), repr(read)) == (kind, made.dump(), repr(made))
        x = np.arange(24.0).reshape(4, 6) * (1 + comm.rank)
        weights = comm.pack(np.arange(18.0).reshape(6, 3)) if "gemm" in kind else None

        def run(plan: sk.Plan) -> Any:
            if kind == "barrier":
                return plan.run()
            if kind == "send_recv":
                out = None if comm.rank == 1 else np.zeros(24)
                plan.run(x if comm.rank == 1 else None, out)
                return out
            return plan.run(x, weights=weights)

        want, got = run(made), run(read)
        assert np.array_equal(got, want) if want is not None else got is None
        if kind not in ("barrier", "send_recv"):
            with pytest.raises(sk.InvalidArgumentError, match="the plan is for"):
                read.run(x[1:], weights=weights)

    ranks(2, body)


def test_texts_that_are_no_plan_here(alone: sk.Comm, ranks: Ranks) -> None:
    text = alone.plan("allreduce", count=4).dump()
    other = ranks(2, lambda comm: comm.plan("allreduce", count=4).dump())[0]
    for wrong, sentence in {
        "": "line 1",
        "no plan": "line 1, column 1: expected",
        text.replace(" count=4", " count=-4"): "count is -4",
        text.replace(" count=4", " count=5"): "has 16 bytes, not 20",
        text[: len(text) // 2]: "line",
        other: "world_size=2, this communicator runs plans with 1",
    }.items():
        with pytest.raises(sk.InvalidArgumentError, match=sentence):
            alone.parse_plan(wrong)
    assert alone.parse_plan(text).run(np.ones(4, np.float32)).tolist() == [1.0] * 4


def changed(text: str) -> dict[str, str]:
    """Of the text of a plan of several words, other ways to write it, and some that are none."""
    head, op, rest = text.split("\n", 2)
    first, kind, *words = op.split(" ")
    return {
        "as it is": text,
        "two spaces": f"{head}\n{'  '.join(op.split(' '))}\n{rest}",
        "indented": f"{head}\n  {op}\n{rest}",
        "with spaces at its end": f"{head}\n{op}  \n{rest}",
        "with tabs": "\n".join([head, "\t".join([first, kind, *words]), rest]),
        "with a comment": f"{head}\n# op kind=barrier\n{op}\n{rest}",
        "with an empty line": f"{head}\n\n{op}\n{rest}",
        "in another order": "\n".join([head, " ".join([first, kind, *words[::-1]]), rest]),
        "with its kind last": "\n".join([head, " ".join([first, *words, kind]), rest]),
        "with carriage returns": text.replace("\n", "\r\n"),
    }


@pytest.mark.parametrize("kind", ["barrier", "allreduce", "allreduce_gemm"])
def test_what_is_a_plan_can_be_parsed(alone: sk.Comm, kind: str) -> None:
    """Two readers of one text would differ somewhere."""
    made = alone.plan(kind, **{k: v for k, v in KINDS[kind].items() if k != "root"})
    good = set()
    for what, text in changed(made.dump()).items():
        try:
            sk.check_plan(text)
        except sk.InvalidArgumentError as error:
            with pytest.raises(sk.InvalidArgumentError) as refused:
                alone.parse_plan(text)
            assert str(refused.value) == str(error), what
            continue
        good.add(what)
        read = alone.parse_plan(text)
        assert (read.kind, read.dump(), repr(read)) == (kind, made.dump(), repr(made)), what
        if kind == "allreduce":
            assert read.run(np.arange(24.0)).tolist() == list(range(24))
    assert good >= {"as it is", "two spaces", "indented"}


def test_a_plan_that_arguments_cannot_make(alone: sk.Comm) -> None:
    """Of a local operation, which plans of Python's are not of."""
    text = "sk-plan 3\nop kind=rmsnorm m=1"
    with pytest.raises(sk.Error, match="line 2"):
        alone.parse_plan(text)
