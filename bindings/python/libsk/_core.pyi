"""The extension module: the C ABI on addresses. Private; use the package's classes."""

from collections.abc import Callable, Sequence
from io import FileIO
from typing import Any

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
    integers: list[tuple[int, int]],
) -> None: ...
def check_tile(
    context: Context,
    op: int,
    size: int,
    tensors: list[tuple[int, str, tuple[Span, int, int, int, int]]],
    numbers: list[tuple[int, float]],
    integers: list[tuple[int, int]],
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
    tile_rows: int,
    regions: list[tuple[int, str, str, str, str]],
    numbers: list[tuple[int, str, str, str]],
    function: int,
    user: int,
) -> int: ...
def unregister_tile(context: Context, op: int) -> None: ...
def describe_tile(context: Context, name: str) -> str: ...

class Comm:
    def query(self) -> dict[str, int]: ...
    def is_over(self) -> bool: ...
    def set_admit(self, admit: Callable[[str], None]) -> None: ...
    def free(self) -> None: ...
    def abort(self, reason: str) -> None: ...
    def allreduce(
        self,
        input: Span,
        output: Span,
        count: int,
        dtype: int,
        op: int,
        stream: int,
        timeout_ms: int,
    ) -> None: ...
    def allgather(
        self, input: Span, output: Span, count: int, dtype: int, stream: int, timeout_ms: int
    ) -> None: ...
    def reduce_scatter(
        self,
        input: Span,
        output: Span,
        count: int,
        dtype: int,
        op: int,
        stream: int,
        timeout_ms: int,
    ) -> None: ...
    def broadcast(
        self,
        input: Span,
        output: Span,
        count: int,
        dtype: int,
        root: int,
        stream: int,
        timeout_ms: int,
    ) -> None: ...
    def barrier(self, stream: int, timeout_ms: int) -> None: ...
    def send(
        self, input: Span, count: int, dtype: int, peer: int, stream: int, timeout_ms: int
    ) -> None: ...
    def recv(
        self, output: Span, count: int, dtype: int, peer: int, stream: int, timeout_ms: int
    ) -> None: ...
    def synchronize(self, stream: int, timeout_ms: int) -> None: ...
    def alloc(self, bytes: int) -> int: ...
    def free_memory(self, address: int) -> None: ...

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

class Plan:
    def __init__(
        self,
        comm: Comm,
        kind: int,
        dtype: int,
        out_dtype: int,
        op: int,
        root: int,
        peer: int,
        flags: int,
        count: int,
        m: int,
        n: int,
        k: int,
    ) -> None: ...
    def run(
        self, input: Span, weights: Packed | None, output: Span, stream: int, timeout_ms: int
    ) -> None: ...
    def dump(self) -> str: ...

def allreduce_gemm(
    comm: Comm,
    a: Matrix,
    b: Matrix | None,
    packed: Packed | None,
    c: Matrix,
    flags: int,
    stream: int,
    timeout_ms: int,
) -> None: ...
def allgather_gemm(
    comm: Comm,
    a: Matrix,
    b: Matrix | None,
    packed: Packed | None,
    c: Matrix,
    flags: int,
    stream: int,
    timeout_ms: int,
) -> None: ...
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
def describe(array: Any) -> tuple[Span, tuple[int, ...], int, bool] | None: ...
def lend(
    address: int,
    shape: Sequence[int],
    dtype: tuple[int, int],
    device: tuple[int, int],
    owner: Any,
    versioned: bool,
) -> Any: ...

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
