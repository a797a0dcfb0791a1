"""The session half of ``sk/exec.h`` through ctypes: asks ranks to run cells."""

from __future__ import annotations

import ctypes
import json
import os
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any

import libsk

_STRINGS = ctypes.POINTER(ctypes.c_char_p)


class _Config(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("ranks", ctypes.c_int32),
        ("argv", _STRINGS),
        ("env", _STRINGS),
        ("cwd", ctypes.c_char_p),
        ("sk_path", ctypes.c_char_p),
        ("start_timeout_ms", ctypes.c_int64),
        ("lease_ms", ctypes.c_int64),
        ("flags", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class _Mime(ctypes.Structure):
    _fields_ = [("type", ctypes.c_char_p), ("data", ctypes.c_void_p), ("bytes", ctypes.c_uint64)]


class _Event(ctypes.Structure):
    _fields_ = [
        ("struct_size", ctypes.c_uint32),
        ("kind", ctypes.c_int32),
        ("seq", ctypes.c_uint64),
        ("cell", ctypes.c_uint64),
        ("request", ctypes.c_uint64),
        ("ranks", ctypes.c_char_p),
        ("all_ranks", ctypes.c_int32),
        ("status", ctypes.c_int32),
        ("stream", ctypes.c_int32),
        ("display", ctypes.c_int32),
        ("text", ctypes.c_void_p),
        ("text_bytes", ctypes.c_uint64),
        ("ename", ctypes.c_char_p),
        ("evalue", ctypes.c_char_p),
        ("traceback", _STRINGS),
        ("traceback_count", ctypes.c_uint64),
        ("mimes", ctypes.POINTER(_Mime)),
        ("mime_count", ctypes.c_uint64),
        ("display_id", ctypes.c_char_p),
        ("answer", ctypes.c_int32),
        ("reserved", ctypes.c_int32),
        ("start", ctypes.c_uint64),
        ("end", ctypes.c_uint64),
        ("strings", _STRINGS),
        ("string_count", ctypes.c_uint64),
        ("metadata", ctypes.c_char_p),
        ("times", ctypes.c_void_p),
        ("time_count", ctypes.c_uint64),
        ("comm", ctypes.c_char_p),
        ("target", ctypes.c_char_p),
        ("total", ctypes.c_uint64),
    ]


_STREAM, _DISPLAY, _ERROR, _DONE, _REPLY = 4, 5, 6, 7, 8
_CELL_START = 3


@dataclass
class Cell:
    """What one cell gave."""

    out: str = ""
    err: str = ""
    displays: list[tuple[str, dict[str, bytes]]] = field(default_factory=list)
    ename: str = ""
    evalue: str = ""
    traceback: str = ""
    status: int = 0


def _strings(values: list[str]) -> ctypes.Array[ctypes.c_char_p]:
    return (ctypes.c_char_p * (len(values) + 1))(*[value.encode() for value in values], None)


def _heap() -> dict[str, str]:
    """Ranks without glibc's checking heap, where the tests have it.

    Its lock is not made for fork(): a child of a cell that is forked while another thread frees
    would wait for ever.
    """
    if "libc_malloc_debug" not in os.environ.get("LD_PRELOAD", ""):
        return {}
    return {"LD_PRELOAD": "", "GLIBC_TUNABLES": "glibc.malloc.perturb=165"}


class Session:
    """Ranks of this interpreter's kernel, until the end of ``with``."""

    def __init__(
        self, ranks: int, environment: Mapping[str, str] | None = None, *, forked: bool = True
    ) -> None:
        package = Path(libsk.__file__).parent
        self._lib = ctypes.CDLL(str(package / "libsk.so.0"))
        self._lib.sk_last_error.restype = ctypes.c_char_p
        program = os.environ.get("SK_PROGRAM", str(package / "bin" / "sk"))
        self._keep = [
            _strings([sys.executable, "-m", "libsk.kernel"]),
            _strings(
                [f"{name}={value}" for name, value in {**_heap(), **(environment or {})}.items()]
            ),
        ]
        config = _Config(ctypes.sizeof(_Config), ranks, self._keep[0], self._keep[1])
        config.sk_path = program.encode()
        # SK_SESSION_TEMPLATE and _NOTEBOOK, as `sk kernel` sets them.
        config.flags = int(forked) | 2
        self._session = ctypes.c_void_p()
        self._check(self._lib.sk_session_open(ctypes.byref(config), ctypes.byref(self._session)))

    def _check(self, status: int) -> None:
        assert status == 0, (status, self._lib.sk_last_error())

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._check(self._lib.sk_session_close(self._session))

    def start(self, code: str, ranks: str | None = None) -> int:
        """Queues a cell; its number."""
        cell = ctypes.c_uint64()
        text = code.encode()
        self._check(
            self._lib.sk_exec(
                self._session,
                ranks.encode() if ranks else None,
                text,
                ctypes.c_uint64(len(text)),
                None,
                ctypes.byref(cell),
            )
        )
        return cell.value

    def interrupt(self) -> None:
        self._check(self._lib.sk_session_interrupt(self._session))

    def ask(self, what: str, ranks: str | None = None, limit_s: float = 60.0) -> tuple[int, str]:
        """``sk_session_status()`` and its kin: the answer's status and text."""
        request = ctypes.c_uint64()
        arguments = [ranks.encode() if ranks else None] if what != "status" else []
        call = getattr(self._lib, f"sk_session_{what}")
        self._check(call(self._session, *arguments, ctypes.byref(request)))
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            event = self._poll(100)
            if event.kind == _REPLY and event.request == request.value:
                return event.status, ctypes.string_at(event.text, event.text_bytes).decode()
        raise AssertionError(f"no answer to {what}")

    def question(self, kind: int, code: str, cursor: int, limit_s: float = 60.0) -> int:
        """``sk_session_ask()``: whether something was found."""
        request = ctypes.c_uint64()
        text = code.encode()
        self._check(
            self._lib.sk_session_ask(
                self._session,
                kind,
                text,
                ctypes.c_uint64(len(text)),
                ctypes.c_uint64(cursor),
                0,
                ctypes.byref(request),
            )
        )
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            event = self._poll(100)
            if event.kind == _REPLY and event.request == request.value:
                assert event.status == 0, event.status
                return int(event.answer)
        raise AssertionError("no answer")

    def states(self) -> list[dict[str, Any]]:
        """What ``sk_session_status()`` says of the ranks."""
        ranks: list[dict[str, Any]] = json.loads(self.ask("status")[1])["ranks"]
        return ranks

    def _poll(self, timeout_ms: int) -> _Event:
        event = _Event(ctypes.sizeof(_Event))
        limit = ctypes.c_int64(timeout_ms)
        self._check(self._lib.sk_session_poll(self._session, limit, ctypes.byref(event)))
        return event

    def wait_started(self, number: int, limit_s: float = 60.0) -> None:
        """Until the cell has printed something."""
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            event = self._poll(100)
            if event.cell == number and event.kind == _STREAM:
                return
        raise AssertionError("the cell printed nothing")

    def collect(self, number: int, limit_s: float = 60.0) -> Cell:
        """The events of a cell, to its end."""
        cell = Cell()
        deadline = time.monotonic() + limit_s
        while time.monotonic() < deadline:
            event = self._poll(100)
            if event.cell != number:
                continue
            if event.kind == _STREAM:
                text = ctypes.string_at(event.text, event.text_bytes).decode()
                if event.stream == 1:
                    cell.out += text
                else:
                    cell.err += text
            elif event.kind == _DISPLAY:
                bundle = {}
                for mime in event.mimes[: event.mime_count]:
                    bundle[mime.type.decode()] = ctypes.string_at(mime.data, mime.bytes)
                if event.display in (4, 5):
                    cell.out, cell.err, cell.displays = "", "", []
                else:
                    cell.displays.append((event.ranks.decode(), bundle))
            elif event.kind == _ERROR:
                cell.ename, cell.evalue = event.ename.decode(), event.evalue.decode()
                lines = event.traceback[: event.traceback_count]
                cell.traceback = "\n".join(line.decode() for line in lines)
            elif event.kind == _DONE:
                cell.status = event.status
                return cell
        raise AssertionError(f"the cell does not end: {cell}")

    def run(self, code: str, ranks: str | None = None) -> Cell:
        """Runs a cell to its end."""
        return self.collect(self.start(code, ranks))
