"""What nobody should send, and machines that have too little: a sentence, the kernel goes on."""

from __future__ import annotations

import importlib.util
import sys

import pytest
from conftest import TIMEOUT, Kernel, StartKernel

MIB = 1 << 20


def limited(*limits: str) -> list[str]:
    """The front of a command line: under ulimit(1)."""
    return ["sh", "-c", "".join(f"ulimit {each}; " for each in limits) + 'exec "$@"', "sh"]


@pytest.mark.parametrize("size", [50 * MIB, 63 * MIB])
def test_a_cell_of_fifty_megabytes(kernel: Kernel, size: int) -> None:
    cell = kernel.run(f"# {'x' * size}\nprint done")
    assert cell.text() == "done\n"


def test_a_cell_beyond_the_limit_is_refused(kernel: Kernel) -> None:
    cell = kernel.run("#" * (64 * MIB + 1))
    assert cell.reply["status"] == "error"
    assert f"{64 * MIB + 1} bytes of code; the limit is {64 * MIB}" in cell.reply["evalue"]
    assert kernel.run("print on").text() == "on\n"


def test_python_takes_a_cell_of_fifty_megabytes(start_kernel: StartKernel) -> None:
    if importlib.util.find_spec("libsk") is None:
        pytest.skip("the package libsk is not installed in this Python")
    python = start_kernel(1, [sys.executable, "-m", "libsk.kernel"])
    cell = python.run(f"text = '{'é' * (25 * MIB)}'\nlen(text)")
    assert cell.of("execute_result")[0]["data"] == {"text/plain": str(25 * MIB)}


@pytest.mark.parametrize("code", ["print caf\udce9", "\udcff\udcfe", "%%on \udc80\nprint x"])
def test_code_that_is_not_utf8_is_refused(kernel: Kernel, code: str) -> None:
    # The client sends a lone surrogate as the byte that it stands for.
    cell = kernel.run(code)
    assert cell.reply["status"] == "error"
    assert "is no JSON text of UTF-8" in cell.reply["evalue"]
    assert "ill-formed UTF-8 byte" in cell.reply["evalue"]
    assert [e["ename"] for e in cell.of("error")] == ["MessageError"]
    assert kernel.run("print café").text() == "café\n"


def test_other_requests_that_are_not_utf8_are_answered(kernel: Kernel) -> None:
    for ask in (kernel.client.complete, kernel.client.inspect, kernel.client.is_complete):
        sent = ask("pri\udcff")
        reply = kernel.client.get_shell_msg(timeout=TIMEOUT)
        assert reply["parent_header"]["msg_id"] == sent
        assert reply["content"]["status"] == "error"
    assert kernel.run("print on").text() == "on\n"


@pytest.mark.parametrize("code", ["print a\0b", "\0", "print \ufeff x", "print \U0001f600"])
def test_odd_characters_are_text(kernel: Kernel, code: str) -> None:
    kernel.run(code)
    assert kernel.run("print on").text() == "on\n"


def test_too_few_descriptors_for_another_rank(start_kernel: StartKernel) -> None:
    kernel = start_kernel(48, wrapper=limited("-n 160"))
    reply = kernel.run("print x").reply
    assert reply["ename"] == "RankUnavailable"
    assert "could not be started: " in reply["evalue"]
    assert "Too many open files" in reply["evalue"]
    # Those that could be started are there for whoever wants them.
    assert kernel.run("%%on 0-1\nprint here").text() == "here\n"
    assert kernel.run("%%on alive\nprint these").text() == "these\n"


def test_too_few_descriptors_for_any(start_kernel: StartKernel) -> None:
    kernel = start_kernel(2, wrapper=limited("-n 64"))
    reply = kernel.run("print x").reply
    assert reply["ename"] == "SessionError"
    assert "Too many open files; %reconnect tries again" in reply["evalue"]
    assert kernel.manager.is_alive()


def test_no_memory_for_the_ranks(start_kernel: StartKernel) -> None:
    # Enough for front end and controller, too little for a rank: its loader fails.
    program = ["sh", "-c", 'ulimit -v 2000; exec "$@"', "sh", "/bin/cat"]
    kernel = start_kernel(2, program)
    reply = kernel.run("print x").reply
    assert reply["ename"] == "RankUnavailable"
    assert "exited with code" in reply["evalue"] or "killed by signal" in reply["evalue"]
    assert kernel.run("%sk").reply["status"] == "ok"
