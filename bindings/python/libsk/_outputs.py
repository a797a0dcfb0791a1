"""Where results go: the caller's array, or a new one of the input's kind.

An output must be writable, and no two of its elements may share memory. One that is not row-major,
or not aligned to its elements, is filled by a copy at the end.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from libsk import _core, _dtypes
from libsk._arrays import (
    exports,
    has_pending_bits,
    is_numpy,
    operand,
    pending_bits,
    torch_if_of,
)
from libsk._checks import kind_of
from libsk._core import Borrowed, describe
from libsk._errors import Error, NoMemoryError, invalid
from libsk._operand import Operand, span_of
from libsk._wrapped import check_result
from libsk._writes import count_writes, counter, has_written


class Output:
    """Where one call's result goes."""

    __slots__ = ("operand", "is_new", "_target", "_result")

    def __init__(
        self, operand: Operand, target: Operand | None, result: Any, *, is_new: bool = False
    ) -> None:
        self.operand = operand
        """Memory for the call."""
        self.is_new = is_new
        """Whether it was made for the call: nobody has seen what it held before."""
        self._target = target
        self._result = result

    @property
    def given(self) -> Operand:
        """The memory that has the result in the end."""
        return self._target if self._target is not None else self.operand

    @property
    def array(self) -> Any:
        """What has the result in the end, as its user has it."""
        return self._result

    def finish(self) -> Any:
        """The array to return, once the call is done."""
        if self._target is not None:
            np.copyto(self._target.bits(), self.operand.bits())
        return self._result


class _NumberOutput(Output):
    """For an input that was a plain number: the result is one too."""

    __slots__ = ()

    def finish(self) -> Any:
        return self._result[()]


def output(
    out: Any,
    like: Any,
    code: int,
    shape: tuple[int, ...],
    source: Operand | None = None,
    what: str = "out",
) -> Output:
    """The memory for a result of this type and shape.

    ``like`` decides what a new one is: a torch tensor for a torch tensor, a number for a number,
    else a NumPy array. ``source`` is the call's input, of the same type and shape; ``what`` is what
    the caller's array is called.

    Nothing is written yet: the call itself goes into :func:`writing`.
    """
    if out is None:
        return _new(like, code, shape)
    if type(out) is np.ndarray:  # The short way for what is common.
        plain = describe(out)
        if plain is not None and plain[1:] == (shape, code, False):
            return Output(Operand(plain[0], shape, None, code, False, out), None, out)
    target = target_of(out, code, what)
    check_output(target, code, shape, what)
    if target.strides is None:
        return Output(target, None, out)
    origin = source.origin if source is not None else None
    if source is not None and origin is not None and origin.layout() == target.layout():
        return Output(source, target, out)  # In place, as where no copy is needed.
    buffer = new_array(shape, np.dtype(f"u{target.itemsize}"))
    staged = Operand(span_of(buffer), shape, None, code, False, buffer)
    return Output(staged, target, out)


# Whether a call is in place is something that ranks compare. So it must not depend on where copies
# were made, which differs where the ranks' arrays lie differently.


def gathered(source: Operand, result: Output, rank: int) -> Operand:
    """The input of an all-gather: where it is its own place in the result, that of the copy."""
    given = source.origin or source
    if result.given is result.operand or given.count == 0:
        return source
    if given.layout() != result.given.rows(rank, 1).layout():
        return source
    place = result.operand.rows(rank, 1)
    np.copyto(place.bits().reshape(given.shape), given.bits())
    return place


def scattered(source: Operand, result: Output, rank: int) -> Output:
    """The output of a reduce-scatter: where it is its own place in the input, that of the copy."""
    if source.origin is None or result.operand.count == 0:
        return result
    count = result.operand.shape[0]
    if source.origin.rows(rank * count, count).layout() != result.given.layout():
        return result
    return Output(source.rows(rank * count, count), result.given, result._result)


def target_of(out: Any, code: int, what: str = "out") -> Operand:
    """What was given as ``out``; uint16 holds bits where a result of ``code`` has them."""
    check_kind(out, what)
    return operand(out, what, "bf16" if code == _dtypes.BF16 and is_bits(out) else None)


def check_kind(out: Any, what: str) -> None:
    """Whether this has memory that may be written."""
    if not is_numpy(out) and not exports(out):
        raise invalid(f"{what} is {kind_of(out)}; give an array that can be written")
    if exports(out) and has_pending_bits(out):
        raise pending_bits(what, "a tensor of plain elements")
    check_mode(out, what)


def check_mode(out: Any, what: str) -> None:
    """Tensors of torch's inference mode have no versions, so they are written inside of it alone,
    as torch does."""
    torch = torch_if_of(out)
    if torch is not None and out.is_inference() and not torch.is_inference_mode_enabled():
        raise invalid(
            f"{what} was made in torch's inference mode, and is not to be overwritten outside of"
            " it: give a clone()"
        )


def is_bits(array: Any) -> bool:
    """Whether this is NumPy's uint16, which may hold the bits of bf16."""
    return is_numpy(array) and array.dtype == np.uint16


def check_output(target: Operand, code: int, shape: tuple[int, ...], what: str = "out") -> None:
    """Whether a result of this type and shape may be written there."""
    if target.code != code:
        names = _dtypes.NAMES
        raise invalid(f"{what} has dtype {names[target.code]}; it must have {names[code]}")
    if target.shape != shape:
        raise invalid(f"{what} has shape {target.shape}; it must have {shape}")
    if target.read_only:
        if type(target.owner) is Borrowed and target.owner.is_copy:
            raise invalid(f"{what} exports a copy of itself through DLPack, which nobody else sees")
        raise read_only(what)
    if target.strides is not None and target.overlaps_itself():
        raise invalid(
            f"{what} has strides of {target.strides} bytes for shape {shape}, by which elements"
            " share memory; give an array in which each has its own"
        )


def read_only(what: str) -> Error:
    """Where a result should go."""
    return invalid(f"{what} is read-only; give an array that can be written")


def versioned(arrays: Iterable[Any]) -> list[Any]:
    """Those of torch's that have versions, which tensors of its inference mode have not."""
    return [x for x in arrays if torch_if_of(x) is not None and not x.is_inference()]


def note_writes(arrays: Iterable[Any]) -> None:
    """Tells torch that tensors are written, as its own operations in place do: a gradient that
    needs what was there before then fails instead of being wrong."""
    if tensors := versioned(arrays):
        count_writes(torch_if_of(tensors[0]), tensors)


_NO_WRITES = _core.Writes([], len, True, has_written)


def writing(*results: Output) -> _core.Writes:
    """Around the call that writes results, of which torch hears: not of one that was refused, and
    so wrote nothing, but of one that failed on its way."""
    arrays = [x.array for x in results if not x.is_new and type(x.array) is not np.ndarray]
    tensors = versioned(arrays) if arrays else arrays
    if not tensors:
        return _NO_WRITES
    try:
        return _core.Writes(tensors, *counter(torch_if_of(tensors[0])), has_written)
    except AttributeError:  # Of torch before it could be told.
        return _NO_WRITES


def _new(like: Any, code: int, shape: tuple[int, ...]) -> Output:
    torch = torch_if_of(like)
    if torch is not None:
        dtype = getattr(torch, _dtypes.TORCH_NAMES[code])
        tensor = torch.empty(shape, dtype=dtype, device="cpu")  # Whatever torch's default is.
        check_result(torch, tensor)
        memory = operand(tensor, "out")
        check_output(memory, code, shape)
        return Output(memory, None, tensor, is_new=True)
    is_bf16 = code == _dtypes.BF16
    array = new_array(
        shape, np.dtype(np.uint16) if is_bf16 and is_bits(like) else _dtypes.to_numpy(code)
    )
    plain = describe(array)
    span = span_of(array) if plain is None else plain[0]
    memory = Operand(span, shape, None, code, False, array)
    is_number = shape == () and (isinstance(like, np.generic) or not hasattr(like, "shape"))
    return (_NumberOutput if is_number else Output)(memory, None, array, is_new=True)


def new_array(shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray:
    """As ``numpy.empty``; a shape that no memory has is refused."""
    try:
        return np.empty(shape, dtype)
    except ValueError as error:
        raise invalid(f"shape is {shape}, which no memory has: {error}") from error
    except MemoryError as error:
        raise NoMemoryError(f"shape is {shape}: {error}", 40, "SK_ERR_NO_MEMORY") from error
