"""Kinds of torch's tensors, and the two ways by which calls read them: by DLPack's exchange API,
without Python, and the long way, which old releases of torch have alone."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from libsk import _core, _exchange, _tensors

torch = pytest.importorskip("torch", reason="torch is not installed; ./dev test --suite torch")
if not hasattr(torch.Tensor, "__dlpack_c_exchange_api__"):
    pytest.skip("this torch has no DLPack exchange API", allow_module_level=True)

FLOATS = [torch.float32, torch.float64, torch.bfloat16, torch.float16]


@contextmanager
def hidden() -> Iterator[None]:
    """Torch as it was before it had the API."""
    with pytest.MonkeyPatch.context() as patch:
        for module in (_exchange, _tensors):
            patch.setattr(module, "know_torch", lambda: None)
        _core.forget_torch()
        try:
            yield
        finally:
            patch.undo()
            patch.setattr(_exchange, "_seen", None)
            _exchange.know_torch()


class Sub(torch.Tensor):
    """A class of its own."""


# ---- kinds of tensors: one is made anew for each way ----


def plain_at(x: Any, place: int) -> Any:
    """A copy that begins so many bytes behind a multiple of 64."""
    memory = bytearray(x.numel() * x.element_size() + 128)
    start = -np.frombuffer(memory, np.uint8).ctypes.data % 64 + place
    made = torch.frombuffer(memory, dtype=x.dtype, count=x.numel(), offset=start).reshape(x.shape)
    return made.copy_(x)


def with_gaps(x: Any) -> Any:
    return torch.stack([x, x], -1)[..., 0]


def negated(x: Any) -> Any:
    return torch._neg_view(-x)


def imaginary(x: Any) -> Any:
    return torch.complex(torch.zeros_like(x), -x).conj().imag


def requiring(x: Any) -> Any:
    return x.requires_grad_()


def of_inference(x: Any) -> Any:
    with torch.inference_mode():
        return x.clone()


def functional(x: Any) -> Any:
    return torch._to_functional_tensor(x)


PLAIN: dict[str, Callable[[Any], Any]] = {
    "itself": lambda x: x,
    "detached": lambda x: x.clone().requires_grad_().detach(),
    "a view": lambda x: torch.stack([x, x])[1],
    "of one more": lambda x: x[None].expand(1, *x.shape).squeeze(0),
}
"""The short way has these."""
TURNED: dict[str, Callable[[Any], Any]] = {
    "transposed": lambda x: x.T.contiguous().T if x.dim() == 2 else x,
    "channels_last": lambda x: (
        x.contiguous(memory_format=torch.channels_last) if x.dim() == 4 else x
    ),
}
OTHER: dict[str, Callable[[Any], Any]] = {
    "with gaps": with_gaps,
    "of one element": lambda x: x.flatten()[0].expand(x.shape) if x.numel() else x,
    "unaligned": lambda x: plain_at(x, 1) if x.numel() else x,
    "negated": negated,
    "a lazy copy": lambda x: torch._lazy_clone(x),
    "requires a gradient": requiring,
    "a result": lambda x: requiring(x) * 1,
    "a parameter": lambda x: torch.nn.Parameter(x, requires_grad=False),
    "a parameter with a gradient": lambda x: torch.nn.Parameter(x),
    "a class": lambda x: x.as_subclass(Sub),
    "of inference": of_inference,
    "functional": functional,
    "zeros without memory": lambda x: torch._efficientzerotensor(x.shape, dtype=x.dtype),
    "on meta": lambda x: x.to("meta"),
    "sparse": lambda x: x.to_sparse() if x.dim() else x,
    "of mkldnn": lambda x: (
        x.to_mkldnn() if x.dtype == torch.float32 and x.dim() and x.numel() else x
    ),
    "of another type": lambda x: x.to(torch.float64 if x.dtype != torch.float64 else torch.half),
    "i64": lambda x: x.to(torch.int64),
    "i16": lambda x: x.to(torch.int16),
    "u8": lambda x: x.to(torch.uint8),
    "bool": lambda x: x.to(torch.bool),
    "complex": lambda x: x.to(torch.complex64),
    "a conjugate": lambda x: x.to(torch.complex64).conj(),
    "of another shape": lambda x: x.reshape(-1)[:1],
    "with one more": lambda x: x[None],
    "NumPy's": lambda x: x.to(torch.float32).numpy(),
    "a list": lambda x: x.tolist(),
    "nothing": lambda x: None,
}
KINDS = {**PLAIN, **TURNED, **OTHER}


def held(x: Any) -> Any:
    """What a tensor holds, its kind, and how often it was written."""
    if isinstance(x, tuple | list):
        return [held(each) for each in x]
    if isinstance(x, np.ndarray):
        return x.dtype.str, x.shape, x.tobytes()
    if not isinstance(x, torch.Tensor):
        return repr(x)
    about = type(x), x.dtype, tuple(x.shape), x.requires_grad
    about += ("none",) if x.is_inference() else (x._version,)
    if x.is_meta or torch._is_functional_tensor(x):
        return about
    bits = x.detach().resolve_conj().resolve_neg()
    bits = bits.to_dense() if bits.layout != torch.strided or bits.is_mkldnn else bits
    flat = torch.empty(bits.numel(), dtype=bits.dtype).copy_(bits.reshape(-1))
    return *about, flat.view(torch.uint8).tolist()


def outcome(call: Callable[..., Any], *given: Any) -> Any:
    """What comes back, and what is left of what was given."""
    try:
        done = held(call(*given))
    except Exception as error:  # noqa: BLE001 - torch has sentences of its own.
        done = type(error), re.sub("0x[0-9a-f]+", "somewhere", str(error).split("\n")[0])
    return done, held(list(given))


def refuse(*_: Any) -> None:
    """Stands for the long way where that is not gone."""
    raise AssertionError("the long way")
