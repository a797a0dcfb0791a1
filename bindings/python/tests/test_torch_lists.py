"""sk.adamw as an operation of torch: torch's own steps, its checks, and compiled."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import libsk as sk
import pytest
from libsk import _core, _exchange
from libsk._operand import Operand

# Graphs that another build of libsk left in the usual place call its operations as they were then.
_graphs = tempfile.TemporaryDirectory(prefix="sk-inductor-", ignore_cleanup_errors=True)
os.environ["TORCHINDUCTOR_CACHE_DIR"] = _graphs.name
torch = pytest.importorskip("torch", reason="torch is not installed; ./dev test --suite torch")
import libsk.torch  # noqa: E402 - needs torch.
from torch._dynamo.testing import CompileCounterWithBackend  # noqa: E402
from torch._subclasses.fake_tensor import FakeTensorMode  # noqa: E402

SHAPES = [(3, 5), (), (0, 4), (70, 101), (7,)]
NUMBERS = (0.9, 0.99, 1e-6, 0.1)  # beta1, beta2, eps, weight_decay


def lists(dtype: Any = torch.float64) -> list[list[Any]]:
    """params, grads, ms, vs before a first step."""
    draw = torch.Generator().manual_seed(7)
    params, grads = (
        [torch.randn(shape, generator=draw, dtype=torch.float64).to(dtype) for shape in SHAPES]
        for _ in range(2)
    )
    sums = torch.float64 if dtype == torch.float64 else torch.float32
    return [params, grads, *([torch.zeros_like(p, dtype=sums) for p in params] for _ in range(2))]


@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=str)
def test_steps_are_torchs(dtype: Any) -> None:
    params, grads, ms, vs = lists(dtype)
    wanted = [torch.nn.Parameter(p.clone()) for p in params]
    beta1, beta2, eps, decay = NUMBERS
    optimizer = torch.optim.AdamW(wanted, lr=0.0, betas=(beta1, beta2), eps=eps, weight_decay=decay)
    for step in range(1, 6):
        lr = 0.1 / step
        for p, g in zip(wanted, grads, strict=True):
            g.mul_(-0.75)
            p.grad = g.clone()
        optimizer.param_groups[0]["lr"] = lr
        optimizer.step()
        assert torch.ops.sk.adamw(params, grads, ms, vs, lr, step, *NUMBERS) is None
    for got, want in zip(params, wanted, strict=True):
        torch.testing.assert_close(got, want.detach())
    for got, want in zip(ms, wanted, strict=True):
        torch.testing.assert_close(got, optimizer.state[want]["exp_avg"])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_torchs_checks(dtype: Any) -> None:
    torch.library.opcheck(torch.ops.sk.adamw.default, (*lists(dtype), 0.1, 1, *NUMBERS))


def test_what_has_gradients_is_overwritten_where_none_are_kept() -> None:
    params, *others = lists()
    with_gradients = [torch.nn.Parameter(p.clone()) for p in params]
    versions = [p._version for p in with_gradients]
    with torch.no_grad():
        libsk.torch.adamw(with_gradients, *[[x.clone() for x in one] for one in others], 0.1, 1)
    assert all(p._version > old for p, old in zip(with_gradients, versions, strict=True))
    libsk.torch.adamw(params, *others, 0.1, 1)
    for got, want in zip(with_gradients, params, strict=True):
        assert torch.equal(got, want)


@pytest.mark.parametrize("place", range(4))
def test_what_requires_a_gradient_is_refused_and_stays(place: int) -> None:
    given = lists()
    given[place][3].requires_grad_()
    versions = [x._version for one in given for x in one]
    before = [[x.detach().clone() for x in one] for one in given]
    name = ["params", "grads", "ms", "vs"][place]
    sentence = rf"{name}\[3\] requires a gradient.*torch.no_grad\(\)"
    for lr in (0.1, torch.tensor(0.1)):
        with pytest.raises(sk.InvalidArgumentError, match=sentence):
            torch.ops.sk.adamw(*given, lr, 1)
    with pytest.raises(RuntimeError, match=sentence):
        torch.compile(torch.ops.sk.adamw, backend="eager")(*given, 0.1, 1)
    assert [x._version for one in given for x in one] == versions
    for one, other in zip(given, before, strict=True):
        assert all(torch.equal(is_, was) for is_, was in zip(one, other, strict=True))


def test_a_rate_that_requires_a_gradient_is_refused() -> None:
    rate = torch.tensor(0.1, requires_grad=True)
    with pytest.raises(sk.InvalidArgumentError, match="lr requires a gradient"):
        torch.ops.sk.adamw(*lists(), rate, 1)


def test_a_rate_may_be_a_tensor() -> None:
    got, wanted = lists(), lists()
    torch.ops.sk.adamw(*got, torch.tensor(0.1, dtype=torch.float64), 3, *NUMBERS)
    torch.ops.sk.adamw(*wanted, 0.1, 3, *NUMBERS)
    for one, other in zip(got, wanted, strict=True):
        assert all(torch.equal(is_, must) for is_, must in zip(one, other, strict=True))
    with pytest.raises(sk.InvalidArgumentError, match=r"lr is tensor\(\[.*; give a number"):
        torch.ops.sk.adamw(*got, torch.ones(2), 3)
    with FakeTensorMode() as mode:
        fake = [[mode.from_tensor(x) for x in one] for one in got]
        with pytest.raises(RuntimeError, match=r"lr has shape \(2,\); give one element"):
            torch.ops.sk.adamw(*fake, torch.ones(2), 3)
    torch.library.opcheck(torch.ops.sk.adamw.tensor, (*lists(), torch.tensor(0.1), 1, *NUMBERS))


def test_other_steps_and_rates_are_no_other_graphs() -> None:
    graphs = CompileCounterWithBackend("aot_eager")

    @torch.compile(fullgraph=True, backend=graphs)
    def step(given: list[list[Any]], lr: Any, number: int) -> None:
        torch.ops.sk.adamw(*given, lr, number, *NUMBERS)

    got, wanted = lists(), lists()
    for number in range(1, 8):
        step(got, torch.tensor(0.1 / number, dtype=torch.float64), number)
        torch.ops.sk.adamw(*wanted, 0.1 / number, number, *NUMBERS)
        if number == 2:  # Torch takes a number for a constant until it has seen another.
            known = graphs.frame_count
    assert graphs.frame_count == known
    for one, other in zip(got, wanted, strict=True):
        assert all(torch.equal(is_, must) for is_, must in zip(one, other, strict=True))


def test_a_compiled_step() -> None:
    def step(params: list[Any], grads: list[Any], ms: list[Any], vs: list[Any]) -> Any:
        torch.ops.sk.adamw(params, [2 * g for g in grads], ms, vs, 0.1, 1, *NUMBERS)
        return params[0] + 1

    made, wanted = lists(), lists()
    got = torch.compile(step, fullgraph=True)(*made)
    assert torch.equal(got, step(*wanted))
    for one, other in zip(made, wanted, strict=True):
        for is_, must in zip(one, other, strict=True):
            assert torch.equal(is_, must)


def test_what_does_not_fit() -> None:
    params, grads, ms, vs = lists()
    before = [p.clone() for p in params]
    with pytest.raises(sk.InvalidArgumentError, match="grads has 4 arrays; it must have 5"):
        torch.ops.sk.adamw(params, grads[:4], ms, vs, 0.1, 1)
    with FakeTensorMode() as mode:
        fake = [[mode.from_tensor(x) for x in one] for one in (params, grads, ms, vs)]
        assert torch.ops.sk.adamw(*fake, 0.1, 1) is None
        with pytest.raises(RuntimeError, match="grads has 4 tensors; params has 5"):
            torch.ops.sk.adamw(fake[0], fake[1][:4], *fake[2:], 0.1, 1)
    assert all(torch.equal(p, was) for p, was in zip(params, before, strict=True))


def test_a_models_parameters() -> None:
    model = torch.nn.Linear(3, 2)
    plain = [p.detach().clone() for p in model.parameters()]
    others = [[torch.ones_like(p) for p in plain] for _ in range(3)]
    again = [[x.clone() for x in one] for one in others]
    with pytest.raises(sk.InvalidArgumentError, match=r"params\[0\] requires.*torch.no_grad\(\)"):
        sk.adamw(model.parameters(), *others, 0.1, 1)
    with torch.no_grad():
        sk.adamw(model.parameters(), *others, 0.1, 1)
    sk.adamw(plain, *again, 0.1, 1)
    assert all(torch.equal(p, q) for p, q in zip(model.parameters(), plain, strict=True))


def test_a_refused_call_is_no_write() -> None:
    params, grads, ms, vs = lists()
    versions = [x._version for x in params]
    with pytest.raises(sk.InvalidArgumentError, match="step is 0"):
        sk.adamw(params, grads, ms, vs, 0.1, 0)
    assert [x._version for x in params] == versions
    sk.adamw(params, grads, ms, vs, 0.1, 1)
    assert all(x._version > old for x, old in zip(params, versions, strict=True))


def test_channels_last_is_read_where_it_lies(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = [[torch.rand(2, 3, 4, 5)] for _ in range(4)]
    last = [[x.clone(memory_format=torch.channels_last) for x in one] for one in plain]
    sk.adamw(*plain, 0.1, 1)
    monkeypatch.setattr(Operand, "bits", None)  # Through which copies go.
    with torch.no_grad():
        torch.ops.sk.adamw(*last, 0.1, 1)
    for one, other in zip(last, plain, strict=True):
        assert torch.equal(one[0], other[0])
        assert one[0].is_contiguous(memory_format=torch.channels_last)


def test_older_torchs_note_writes_one_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    count = torch._C._increment_version

    def increment_version(tensor: Any) -> None:
        if not isinstance(tensor, torch.Tensor):
            raise TypeError("a tensor is wanted")
        count((tensor,))

    params, grads, ms, vs = lists()
    versions = [x._version for x in (*params, *grads)]
    with monkeypatch.context() as patch:
        patch.setattr(torch._C, "_increment_version", increment_version)
        _core.forget_torch()
        _exchange._seen = None
        sk.adamw(params, grads, ms, vs, 0.1, 1)
    _exchange._seen = None
    assert [x._version for x in params] == [old + 1 for old in versions[: len(params)]]
    assert [x._version for x in grads] == versions[len(params) :]


def test_gradients_are_asked_for_where_a_list_imports_torch(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given = [[torch.ones(3)] for _ in range(4)]
    given[0][0].requires_grad_()

    def params() -> Any:
        monkeypatch.setitem(sys.modules, "torch", torch)
        yield from given[0]

    monkeypatch.delitem(sys.modules, "torch")
    with pytest.raises(sk.InvalidArgumentError, match=r"params\[0\] requires a gradient"):
        sk.adamw(params(), *given[1:], 0.1, 1)
    assert torch.equal(given[0][0], torch.ones(3))


RATES = {"a number": lambda: 0.1, "a tensor": lambda: torch.tensor(0.1)}


@pytest.mark.parametrize("rate", RATES)
@pytest.mark.parametrize("place", range(4))
def test_one_tensor_on_meta_is_refused(place: int, rate: str) -> None:
    given = lists()
    given[place][3] = given[place][3].to("meta")
    before = [x.clone() for one in given for x in one]
    name = ["params", "grads", "ms", "vs"][place]
    with pytest.raises(RuntimeError, match=rf"{name}\[3\] is on meta, and params\[0\] on cpu;"):
        torch.ops.sk.adamw(*given, RATES[rate](), 1)
    after = [x for one in given for x in one]
    assert all(x.is_meta or torch.equal(x, was) for x, was in zip(after, before, strict=True))


def test_a_rate_is_on_meta_where_the_lists_are() -> None:
    given = lists()
    on_meta = [[x.to("meta") for x in one] for one in given]
    assert torch.ops.sk.adamw(*on_meta, 0.1, 1) is None
    assert torch.ops.sk.adamw(*on_meta, torch.tensor(0.1, device="meta"), 1) is None
    with pytest.raises(RuntimeError, match=r"lr is on meta, and params\[0\] on cpu;"):
        torch.ops.sk.adamw(*given, torch.tensor(0.1, device="meta"), 1)
    with pytest.raises(RuntimeError, match=r"lr is on cpu, and params\[0\] on meta;"):
        torch.ops.sk.adamw(*on_meta, torch.tensor(0.1), 1)
    with FakeTensorMode():  # A rate may lie on the CPU while all else is elsewhere.
        on_gpu = [[torch.ones(3, device="cuda")] for _ in range(4)]
        assert torch.ops.sk.adamw(*on_gpu, torch.tensor(0.1), 1) is None


WRONG_RATES = {
    "None": (lambda: None, "lr is None; give a number"),
    "bool": (lambda: torch.tensor(True), "lr has dtype torch.bool; give a real number"),
    "complex": (lambda: torch.tensor(1 + 0j), "lr has dtype torch.complex64; give a real number"),
}


@pytest.mark.parametrize("kind", WRONG_RATES)
def test_a_rate_is_a_real_number(kind: str) -> None:
    make, sentence = WRONG_RATES[kind]
    given = lists()
    for mode in (torch.enable_grad, torch.no_grad, torch.inference_mode):
        with mode(), pytest.raises(sk.InvalidArgumentError, match=sentence):
            torch.ops.sk.adamw(*given, make(), 1)
    with FakeTensorMode(allow_non_fake_inputs=True) as fake:
        pretended = [[fake.from_tensor(x) for x in one] for one in given]
        with pytest.raises(sk.InvalidArgumentError, match=sentence):
            torch.ops.sk.adamw(*pretended, make(), 1)
    assert all(torch.equal(x, y) for x, y in zip(given[0], lists()[0], strict=True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_one_tensor_in_two_places_is_refused_compiled_too(backend: str) -> None:
    params, _, ms, vs = lists()
    before = [p.clone() for p in params]
    step = torch.compile(lambda *given: torch.ops.sk.adamw(*given, 0.1, 1), backend=backend)
    with pytest.raises(RuntimeError, match=r"params\[0\] and grads\[0\] overlap"):
        step(params, params, ms, vs)
    assert all(torch.equal(p, was) for p, was in zip(params, before, strict=True))
    step(params, lists()[1], ms, vs)


@pytest.mark.parametrize("call", ["torch.ops.sk.adamw", "sk.adamw", "out"])
def test_tensors_of_inference_are_overwritten_in_its_mode_alone(call: str) -> None:
    with torch.inference_mode():
        given = [[torch.ones(2, 2)] for _ in range(4)]

    def run() -> None:
        if call == "out":
            sk.rmsnorm(torch.full((2, 2), 3.0), out=given[0][0])
        else:
            (sk if call == "sk.adamw" else torch.ops.sk).adamw(*given, 0.1, 1)

    name = "out" if call == "out" else r"params\[0\]"
    with pytest.raises(sk.InvalidArgumentError, match=f"{name} was made in torch's inference mode"):
        run()
    assert torch.equal(given[0][0], torch.ones(2, 2))
    with torch.inference_mode():
        run()
    assert not torch.equal(given[0][0], torch.ones(2, 2))


PAGE = Path(__file__).resolve().parents[3] / "docs" / "pytorch.md"


def examples() -> list[str]:
    """Those about it of the page."""
    section = PAGE.read_text().partition("## AdamW\n")[2].partition("\n## ")[0]
    return re.findall(r"^```python\n(.*?)^```", section, re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("example", examples())
def test_an_example_runs_as_it_is_pasted(example: str) -> None:
    """In a process that has imported nothing."""
    command = [sys.executable, "-c", example]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr


STEPS = [3.0, torch.tensor(3), torch.tensor(3.0), torch.tensor([3.0], dtype=torch.float64)]


@pytest.mark.parametrize("step", STEPS, ids=repr)
@pytest.mark.parametrize("rate", RATES)
def test_steps_as_optimizers_count_them(step: Any, rate: str) -> None:
    wanted, *others = (lists(torch.float32) for _ in range(4))
    sk.adamw(*wanted, RATES[rate](), 3)
    sk.adamw(*others[0], RATES[rate](), step)
    torch.ops.sk.adamw(*others[1], RATES[rate](), step)
    compiled = torch.compile(lambda *given: torch.ops.sk.adamw(*given), backend="aot_eager")
    compiled(*others[2], RATES[rate](), float(step))  # Whose tensors of integers are no numbers.
    for got in others:
        for one, other in zip(got, wanted, strict=True):
            assert all(torch.equal(*pair) for pair in zip(one, other, strict=True))


@pytest.mark.parametrize("rate", RATES)
def test_a_step_that_is_not_whole_is_refused(rate: str) -> None:
    for call in (sk.adamw, torch.ops.sk.adamw):
        with pytest.raises(sk.InvalidArgumentError, match="^step is 3.5; give an integer"):
            call(*lists(), RATES[rate](), 3.5)
    for step in (True, torch.tensor(True), torch.tensor(3.5)):
        with pytest.raises(sk.InvalidArgumentError, match="^step is .*; give an integer"):
            sk.adamw(*lists(), RATES[rate](), step)
