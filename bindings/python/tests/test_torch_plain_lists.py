"""Lists of tensors that a call reads by DLPack's exchange API: what comes out is what the long way
gives, or the call is left to that."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable
from typing import Any

import libsk as sk
import numpy as np
import pytest
from libsk import _exchange, _ops
from libsk._context import default_context
from libsk._local import LocalFunction
from plain_tensors import FLOATS, KINDS, OTHER, PLAIN, TURNED, hidden, outcome, refuse, torch

pytest.importorskip("libsk.torch")
forward_ad = torch.autograd.forward_ad

NUMBERS = (0.125, 3, 0.8, 0.9, 1e-3, 0.5)


@pytest.fixture(autouse=True)
def _known() -> None:
    _exchange.know_torch()


def shape_of(draw: random.Random) -> tuple[int, ...]:
    shapes = [(5,), (3, 4), (2, 3, 4, 5), (2, 3, 1, 1), (), (0, 3), (1, 7), (1,), (4, 1, 3)]
    return draw.choice(shapes)


def lists_of(seed: int) -> tuple[Any, ...]:
    """params, grads, ms, vs and numbers, of which few are wrong; the same for a seed."""
    draw = random.Random(seed)
    numbers = torch.Generator().manual_seed(seed)
    dtype = draw.choice(FLOATS)
    sums = torch.float64 if dtype == torch.float64 else torch.float32
    lists: list[list[Any]] = [[], [], [], []]
    wrong = draw.choice([0, 0, 1, 2])
    for _ in range(draw.randrange(4)):
        shape = shape_of(draw)
        turned = draw.choice(list({**PLAIN, **TURNED}))
        for place, kind in enumerate((dtype, draw.choice([dtype, torch.float32]), sums, sums)):
            x = torch.rand(shape, generator=numbers, dtype=torch.float64).to(kind)
            lists[place].append(KINDS[turned](x))
    also = draw.random()
    if also < 0.05 and lists[0]:
        lists[draw.randrange(4)].pop()
    elif also < 0.1 and lists[0]:
        lists[draw.randrange(1, 4)][0] = lists[0][draw.randrange(len(lists[0]))]
    elif also < 0.15 and lists[0]:
        lists[2][0] = lists[0][0].flatten()[1:]
    for _ in range(wrong):
        one = draw.choice(lists)
        at = draw.randrange(len(one)) if one else 0
        if one and isinstance(one[at], torch.Tensor):
            kind = one[at].dtype if one[at].dtype in FLOATS else torch.float32
            plain = torch.rand(tuple(one[at].shape), generator=numbers).to(kind)
            one[at] = OTHER[draw.choice(list(OTHER))](plain)
    if draw.random() < 0.05:
        lists = [tuple(one) for one in lists]  # type: ignore[misc]
    values: list[Any] = list(NUMBERS)
    if draw.random() < 0.15:
        values[draw.randrange(6)] = draw.choice([-1, 0, float("nan"), 2.5, True, 2**70, 1])
    elif draw.random() < 0.1:
        values[0] = draw.choice([np.float64(0.5), np.float32(0.5), torch.tensor(0.5)])
    return (*lists, *values)


@pytest.mark.parametrize("call", ["sk", "torch"])
@pytest.mark.parametrize("mode", ["enable_grad", "no_grad", "inference_mode"])
def test_lists_by_both_ways(call: str, mode: str) -> None:
    function = sk.adamw if call == "sk" else torch.ops.sk.adamw
    first = random.randrange(10**6)
    for seed in range(first, first + 60):
        try:
            with getattr(torch, mode)():
                got = outcome(function, *lists_of(seed))
                with hidden():
                    wanted = outcome(function, *lists_of(seed))
        except Exception as error:
            raise AssertionError(f"{mode}, seed {seed}") from error
        assert got == wanted, f"{mode}, seed {seed}"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("place", range(4))
@pytest.mark.parametrize("mode", ["enable_grad", "no_grad"])
def test_each_kind_in_each_list(kind: str, place: int, mode: str) -> None:
    def given() -> list[list[Any]]:
        draw = torch.Generator().manual_seed(3)
        lists = [[torch.rand(shape, generator=draw) for shape in ((3,), (2, 5))] for _ in range(4)]
        lists[place][1] = KINDS[kind](lists[place][1])
        return lists

    for function in (sk.adamw, torch.ops.sk.adamw):
        with getattr(torch, mode)():
            if kind in ("a list", "nothing", "NumPy's") and function is not sk.adamw:
                continue
            got = outcome(function, *given(), *NUMBERS)
            with hidden():
                wanted = outcome(function, *given(), *NUMBERS)
        assert got == wanted


@pytest.fixture
def _no_long_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(LocalFunction, "long_way", refuse)
    for name in ("check_gradients", "overwritten"):  # Further steps of torch's dispatcher.
        monkeypatch.setattr(f"libsk._torch_lists._OnLists.{name}", refuse)


LISTS: dict[str, Callable[[], list[list[Any]]]] = {
    **{
        name: lambda make=make: [[make(torch.rand(4, 5)), make(torch.rand(7))] for _ in range(4)]
        for name, make in PLAIN.items()
    },
    **{
        name: lambda make=make: [
            [make(torch.rand(2, 3)), make(torch.rand(2, 3, 4, 5))] for _ in range(4)
        ]
        for name, make in TURNED.items()
    },
    "parameters": lambda: [
        [torch.nn.Parameter(torch.rand(5))],
        *[[torch.rand(5)] for _ in range(3)],
    ],
    "NumPy's": lambda: [[np.ones((3, 4), np.float32)] for _ in range(4)],
    "mixed": lambda: [[np.ones(3, np.float32), torch.rand(2)] for _ in range(4)],
    "none": lambda: [[] for _ in range(4)],
    "bf16": lambda: [
        [torch.ones(3, dtype=torch.bfloat16)],
        [torch.ones(3, dtype=torch.bfloat16)],
        *[[torch.ones(3)] for _ in range(2)],
    ],
    "of other steps of one element": lambda: [
        [torch.rand(1, 4, 1).as_strided((1, 4, 1), (7 + i, 1, 9))] for i in range(4)
    ],
    "empty": lambda: [[torch.rand(0, 4).T] for _ in range(4)],
    "numbers": lambda: [[torch.rand(())] for _ in range(4)],
    "of many dimensions": lambda: [[torch.rand([1, 2] * 6)] for _ in range(4)],
}


@pytest.mark.usefixtures("_no_long_way")
@pytest.mark.parametrize("kind", LISTS)
def test_lists_that_are_plain_go_the_short_way(kind: str) -> None:
    with torch.no_grad():
        sk.adamw(*LISTS[kind](), *NUMBERS)
        sk.adamw(*LISTS[kind](), np.float64(0.5), 1)
        if kind not in ("none", "mixed", "NumPy's"):  # Torch has nothing to see in those.
            torch.ops.sk.adamw(*LISTS[kind](), *NUMBERS)
            torch.ops.sk.adamw(*LISTS[kind](), torch.tensor(0.5), 1)
    with torch.inference_mode():
        sk.adamw(*LISTS[kind](), *NUMBERS)


@pytest.mark.usefixtures("_no_long_way")
def test_versions_move_once() -> None:
    for function in (sk.adamw, torch.ops.sk.adamw, torch.ops.sk.adamw.default):
        given = [[torch.rand(3), torch.rand(2)] for _ in range(4)]
        before = [[x._version for x in one] for one in given]
        function(*given, *NUMBERS)
        moved = [
            [x._version - was for x, was in zip(one, old, strict=True)]
            for one, old in zip(given, before, strict=True)
        ]
        assert moved == [[1, 1], [0, 0], [1, 1], [1, 1]]


@pytest.mark.usefixtures("_no_long_way")
def test_tensors_are_let_go_of() -> None:
    given = [[torch.rand(3), torch.rand(2)] for _ in range(4)]
    before = [[sys.getrefcount(x) for x in one] for one in given]
    for _ in range(50):
        sk.adamw(*given, *NUMBERS)
        torch.ops.sk.adamw(*given, *NUMBERS)
        assert not _ops._adamw.quick_lists.run(
            default_context(), (*given[:3], [None, None]), NUMBERS
        )
    assert [[sys.getrefcount(x) for x in one] for one in given] == before


class Seen(torch.utils._python_dispatch.TorchDispatchMode):
    """What is dispatched to it."""

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(
        self, function: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        self.names.append(str(function))
        return function(*args, **(kwargs or {}))


def test_a_mode_of_torchs_sees_the_call() -> None:
    given = [[torch.rand(3)] for _ in range(4)]
    with Seen() as seen:
        torch.ops.sk.adamw(*given, *NUMBERS)
    assert "sk.adamw.default" in seen.names


def test_forward_mode_is_left_to_the_long_way() -> None:
    given = [[torch.rand(3)] for _ in range(4)]
    with forward_ad.dual_level():
        given[1][0] = forward_ad.make_dual(given[1][0], torch.ones(3))
        with pytest.raises(sk.InvalidArgumentError, match=r"grads\[0\] has a tangent"):
            sk.adamw(*given, *NUMBERS)
        with pytest.raises(sk.InvalidArgumentError, match="x has a tangent"):
            sk.rmsnorm(given[1][0])


def test_torchs_transforms_are_left_to_the_long_way() -> None:
    def step(x: Any) -> Any:
        sk.adamw([x], *[[torch.ones(3)] for _ in range(3)], *NUMBERS)
        return x

    for whole in (torch.func.vmap(step), torch.func.grad(lambda x: step(x).sum())):
        shape = (2, 3) if whole.__name__ != "<lambda>" else (3,)
        got = outcome(whole, torch.ones(shape))
        with hidden():
            assert got == outcome(whole, torch.ones(shape))


def test_quick_calls_say_when_they_are_not() -> None:
    quick = _ops._adamw.quick_lists
    assert quick is not None
    given = tuple([torch.rand(3)] for _ in range(4))
    assert quick.run(default_context(), given, NUMBERS)
    with hidden():
        assert not quick.run(default_context(), given, NUMBERS)
    assert quick.run(default_context(), given, NUMBERS)
    assert not quick.run(default_context(), given[:3], NUMBERS)
    assert not quick.run(default_context(), given, NUMBERS[:5])
