"""The extension module: the C ABI on addresses. Private; use the package's classes."""

from collections.abc import Callable, Sequence
from io import FileIO
from typing import Any, overload

Span = tuple[int, int]
Matrix = tuple[Span, int, int, int, int]
Bundle = Sequence[tuple[str, bytes]]

def version() -> int: ...
def status_name(status: int) -> str: ...

class Context:
    def __init__(self, log_level: int, log: Callable[[int, str, str], None] | None) -> None: ...

def call_alone(
    context: Context,
    op: int,
    size: int,
    tensors: list[tuple[int, str, tuple[Span, int, int, int, int]]],
    numbers: list[tuple[int, float]],
    integers: list[tuple[int, int, int]],
    lists: list[tuple[int, list[tuple[str, Matrix]]]] = ...,
) -> None: ...
def check_tile(
    context: Context,
    op: int,
    size: int,
    tensors: list[tuple[int, str, tuple[Span, int, int, int, int]]],
    numbers: list[tuple[int, float]],
    integers: list[tuple[int, int, int]],
    timeout_ms: int,
) -> None: ...
def describe_operations() -> str: ...
def register_tile(
    context: Context,
    name: str,
    version: int,
    summary: str,
    effect: str,
    over: int,
    serial: bool,
    replace: bool,
    tile_rows: int,
    regions: list[tuple[int, str, str, str, str]],
    numbers: list[tuple[int, str, str, str]],
    function: int,
    user: int,
) -> int: ...

class TileFunction:
    def __init__(
        self,
        name: str,
        call: Callable[
            [tuple[int, ...], tuple[tuple[int, int, int, int], ...], tuple[float, ...]], None
        ],
        regions: int,
        floats: list[bool],
    ) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def user(self) -> int: ...
    def take_raised(self) -> BaseException | None: ...

def inside_tile() -> str | None: ...
def leave_tile(context: Context, op: int) -> None: ...
def describe_tile(context: Context, name: str) -> str: ...

class Comm:
    def query(self) -> dict[str, int]: ...
    def is_over(self) -> bool: ...
    def set_admit(self, admit: Callable[[str], None]) -> None: ...
    def free(self) -> None: ...
    def abort(self, reason: str) -> None: ...
    def synchronize(self, stream: int, timeout_ms: int) -> None: ...
    def alloc(self, bytes: int) -> int: ...
    def free_memory(self, address: int, forget: Callable[[], None]) -> None: ...

def forget_array(
    root: Any, held: list[Any], most_of_root: int, most_of_item: int, state: tuple[Any, ...]
) -> tuple[int, int]: ...

class Lease:
    def __init__(self, comm: Comm) -> None: ...

def create(
    context: Context,
    bootstrap: int,
    rank: int,
    world_size: int,
    name: str | None,
    timeout_ms: int,
    flags: int,
    workers: int,
    symmetric_bytes_max: int,
    device_type: int,
    device_id: int,
    cancel: Cancel | None,
) -> Comm: ...

class Cancel:
    def request(self) -> None: ...

class Packed:
    def __init__(self, comm: Comm, b: Matrix, flags: int) -> None: ...

class VectorOp:
    def __init__(
        self,
        op: int,
        name: str,
        bytes: int,
        input: tuple[int, int],
        output: tuple[int, int],
        value_at: int,
        own_at: int,
        value: int,
        by_number: bool = False,
    ) -> None: ...
    # The whole call, or None where an argument is not of the common kind.
    def run(self, comm: Comm, x: Any, out: Any, value: Any) -> Any: ...
    def call(
        self,
        comm: Comm,
        input: Span,
        output: Span,
        count: int,
        dtype: int,
        number: int,
        rest: tuple[list[tuple[int, float]], list[tuple[int, int, int]]] | None,
        stream: int,
        timeout_ms: int,
    ) -> None: ...
    @overload
    def keep(self, comm: Comm) -> Ready: ...
    @overload
    def keep(
        self,
        comm: Comm,
        input: Span,
        output: Span,
        count: int,
        dtype: int,
        number: int,
        rest: tuple[list[tuple[int, float]], list[tuple[int, int, int]]] | None,
    ) -> Ready: ...
    def meet(self, comm: Comm, stream: int, timeout_ms: int) -> None: ...

class MatrixOp:
    def __init__(
        self,
        op: int,
        name: str,
        bytes: int,
        operands: list[tuple[int, int, str]],
        flags: list[int],
        by_number: bool = False,
    ) -> None: ...
    def call(
        self,
        comm: Comm,
        given: list[Matrix | Packed],
        flags: int,
        stream: int,
        timeout_ms: int,
    ) -> None: ...
    def keep(self, comm: Comm, given: list[Matrix | Packed], flags: int) -> Ready: ...

class ListOp:
    def __init__(
        self,
        op: int,
        bytes: int,
        length_at: int,
        lists: list[tuple[int, str, bool]],
        numbers: list[tuple[int, int, int]],
    ) -> None: ...
    # Whether it was the whole call; False where an argument is not of the common kind.
    def run(
        self, context: Context, given: tuple[Any, ...], values: tuple[Any, ...], negative: bool
    ) -> bool: ...

class Ready:
    def run(self, timeout_ms: int) -> None: ...
    def close(self) -> None: ...

class Plan:
    @overload
    def __init__(
        self,
        comm: Comm,
        fields: dict[str, int],
        read: tuple[str, str, int],
        written: tuple[str, str, int],
    ) -> None: ...
    @overload
    def __init__(
        self,
        comm: Comm,
        text: str,
        read: Callable[[str], tuple[dict[str, int], tuple[str, str, int], tuple[str, str, int]]],
    ) -> None: ...
    def run(
        self, input: Span, weights: Packed | None, output: Span, stream: int, timeout_ms: int
    ) -> None: ...
    def try_run(self, x: Any, out: Any) -> Any: ...
    def dump(self) -> str: ...

def plan_check(text: str) -> None: ...
def trace_start(comm: Comm, event_count_max: int) -> None: ...
def trace_stop(comm: Comm) -> None: ...
def trace_dump(comm: Comm) -> str: ...

class Topo:
    def dump(self) -> str: ...
    def summary(self) -> dict[str, int]: ...

def host_facts() -> str: ...
def topo_discover() -> Topo: ...
def topo_parse(text: str) -> Topo: ...
def topo_synthetic(spec: str) -> Topo: ...
def know_numpy(array_class: type, empty: Callable[..., Any]) -> None: ...
def know_torch(
    tensor: type,
    parameter: type,
    exchange: Any,
    dtypes: Sequence[Any],
    is_grad_enabled: Callable[[], bool],
    is_inference_mode: Callable[[], bool],
    forward_mode: Any,
    empty: Callable[..., Any],
    cpu: Any,
    note: Callable[[list[Any]], None],
    has_written: Callable[[BaseException], bool],
) -> bool: ...
def forget_torch() -> None: ...
def describe(array: Any) -> tuple[Span, tuple[int, ...], int, bool] | None: ...
def lend(
    address: int,
    shape: Sequence[int],
    dtype: tuple[int, int],
    device: tuple[int, int],
    owner: Any,
    versioned: bool,
) -> Any: ...

class Lies:
    def __init__(self, x: Any, address: int) -> None: ...
    @property
    def is_known(self) -> bool: ...
    def as_before(self) -> bool: ...

class Writes:
    def __init__(
        self,
        tensors: list[Any],
        count: Callable[[Any], Any],
        takes_lists: bool,
        has_written: Callable[[BaseException], bool],
    ) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None: ...

class Borrowed:
    def __init__(self, capsule: Any) -> None: ...
    @property
    def address(self) -> int: ...
    @property
    def shape(self) -> tuple[int, ...]: ...
    @property
    def strides(self) -> tuple[int, ...] | None: ...
    @property
    def dtype(self) -> tuple[int, int, int]: ...
    @property
    def device(self) -> tuple[int, int]: ...
    @property
    def read_only(self) -> bool: ...
    @property
    def is_copy(self) -> bool: ...

def to_wire(text: str) -> bytes: ...
def write_in_order(file: FileIO, data: memoryview) -> int: ...
def worker_template() -> list[bytes] | None: ...
def template_note(text: str) -> None: ...

class Worker:
    def __init__(
        self,
        language: str,
        flags: int,
        stack_signal: int = 0,
        language_signal: int = 0,
        language_fd: int = 0,
    ) -> None: ...
    def next(self, timeout_ms: int) -> dict[str, Any] | None: ...
    def stream(self, which: int, text: str) -> None: ...
    def display(
        self, kind: int, bundle: Bundle, display_id: str | None, metadata: str | None = None
    ) -> None: ...
    def error(self, ename: str, evalue: str, traceback: Sequence[str], flags: int) -> None: ...
    def code_ended(self) -> None: ...
    def threads(self, count: int) -> None: ...
    def restore_descriptors(self, flush: Callable[[], None]) -> list[int]: ...
    def output_cell(self, cell: int) -> None: ...
    def done(self, status: int) -> None: ...
    def reply(
        self,
        id: int,
        answer: int,
        start: int,
        end: int,
        strings: Sequence[str],
        bundle: Bundle,
    ) -> None: ...
    def group(self) -> tuple[int, int, int, int, int]: ...
    def regroup(self, epoch: int, timeout_ms: int) -> None: ...
    def cell_reply(self, json: str) -> None: ...
    def input(self, prompt: str, password: bool) -> tuple[int, str]: ...
    def comm(
        self,
        kind: int,
        comm: str,
        target: str,
        data: str,
        metadata: str,
        buffers: Sequence[bytes],
    ) -> None: ...
    def snapshot(self, root: str, names: Sequence[tuple[str, str]]) -> None: ...
    def cancelled(self) -> bool: ...
    def leave(self) -> None: ...
