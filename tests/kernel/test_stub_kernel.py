"""`sk kernel` over stub ranks, driven as a notebook server drives it."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from conftest import TIMEOUT, Gate, Kernel, StartKernel, alive, descendants, kill, wait_until


def test_a_cell_on_all_ranks_reads_as_one(kernel: Kernel) -> None:
    cell = kernel.run("print hello\nprint I am {rank}\nprint bye")
    assert cell.reply["status"] == "ok"
    assert cell.text() == "    hello\n[0] I am 0\n[1] I am 1\n    bye\n"


def test_captured_descriptors_come_in_order(kernel: Kernel) -> None:
    cell = kernel.run("print 1\nc 2\nfd 3\nsh echo 4\nprint 5\nsh echo oops >&2")
    assert cell.text() == "1\n2\n3\n4\n5\n"
    assert cell.text("stderr") == "oops\n"


def test_results(kernel: Kernel) -> None:
    same = kernel.run("result 42").of("execute_result")
    assert [r["data"] for r in same] == [{"text/plain": "42"}]
    assert same[0]["execution_count"] == 1
    different = kernel.run("result {rank}").of("execute_result")
    assert [r["data"]["text/plain"] for r in different] == ["[0] 0\n[1] 1"]


def test_a_page_becomes_a_payload(kernel: Kernel) -> None:
    cell = kernel.run("page help for {rank}")
    assert cell.messages == []
    page = cell.reply["payload"][0]
    assert page["source"] == "page"
    assert page["data"]["text/plain"] == "[0] help for 0\n[1] help for 1"


def test_displays_and_updates(kernel: Kernel) -> None:
    cell = kernel.run("display text/html <b>same</b>\ndisplay image/png {rank}")
    data = [d["data"] for d in cell.of("display_data")]
    assert data[0] == {"text/html": "<b>same</b>"}
    assert [d.get("image/png") for d in data[1:]] == [None, "MA==", None, "MQ=="]
    assert data[1]["text/plain"] == "rank 0"
    shown = kernel.run("show one first\nupdate one second").of("display_data")
    assert shown[0]["data"] == {"text/plain": "second"}
    assert shown[0]["transient"] == {"display_id": "one"}


def test_metadata_of_a_display_reaches_the_notebook(kernel: Kernel) -> None:
    cell = kernel.run('meta {"text/plain":{"width":5}} same\non 1 meta {"isolated":true} other')
    same, _, other = cell.of("display_data")
    assert same["metadata"] == {"text/plain": {"width": 5}, "superkernel": {"ranks": "0,1"}}
    assert other["metadata"] == {"isolated": True, "superkernel": {"ranks": "1"}}


def test_one_error_for_all_ranks(kernel: Kernel) -> None:
    cell = kernel.run("error ValueError boom")
    assert cell.reply["status"] == "error"
    assert [e["evalue"] for e in cell.of("error")] == ["boom [ranks 0,1]"]
    assert cell.reply["ename"] == "ValueError"
    assert cell.reply["traceback"].count("ValueError: boom") == 1


def test_one_error_on_one_rank(kernel: Kernel) -> None:
    cell = kernel.run("on 1 error ValueError boom\nprint went on")
    assert len(cell.of("error")) == 1
    assert cell.of("error")[0]["evalue"] == "boom [rank 1]"
    assert cell.text() == "[0] went on\n"


def test_an_error_aborts_the_queued_cells(kernel: Kernel, gate: Gate) -> None:
    first = kernel.start(f"{gate.wait}\nerror ValueError boom")
    second = kernel.start("print not run")
    kernel.heard()  # Only what waits when the error comes is aborted.
    gate.open()
    assert kernel.finish(first).reply["status"] == "error"
    cell = kernel.finish(second)
    assert cell.reply["status"] == "aborted"
    assert cell.messages == []
    assert kernel.run("print run").text() == "run\n"


def test_output_streams_while_the_cell_runs(kernel: Kernel) -> None:
    message_id = kernel.start("print early\nsleep 60000")
    assert kernel.wait_for_stream(message_id) == "early\n"
    kernel.manager.interrupt_kernel()
    assert kernel.finish(message_id).reply["ename"] == "KeyboardInterrupt"


def test_interrupt_ends_the_cell_and_keeps_the_ranks(kernel: Kernel) -> None:
    ranks = kernel.ranks()
    for _ in range(5):
        message_id = kernel.start("print waiting\nsleep 60000")
        kernel.wait_for_stream(message_id)
        kernel.manager.interrupt_kernel()
        cell = kernel.finish(message_id)
        assert cell.reply["ename"] == "KeyboardInterrupt"
        assert len(cell.of("error")) == 1
        assert kernel.run("print fine").text() == "fine\n"
    assert kernel.ranks() == ranks


def test_an_interrupt_between_cells_is_nothing(kernel: Kernel) -> None:
    kernel.run("print one")
    client = kernel.client
    client.control_channel.send(client.session.msg("interrupt_request", {}))
    client.get_control_msg(timeout=TIMEOUT)  # So that it cannot meet the next cell.
    assert kernel.run("print two").text() == "two\n"


def test_requests_are_answered_while_a_cell_runs(kernel: Kernel) -> None:
    message_id = kernel.start("print waiting\nsleep 60000")
    kernel.wait_for_stream(message_id)
    for request in (
        kernel.client.kernel_info,
        lambda: kernel.client.complete("pri"),
        lambda: kernel.client.is_complete("x"),
        lambda: kernel.client.inspect("x"),
        lambda: kernel.client.history(hist_access_type="tail", n=1),
        kernel.client.comm_info,
    ):
        sent = request()
        reply = kernel.client.get_shell_msg(timeout=TIMEOUT)
        assert reply["parent_header"]["msg_id"] == sent
        assert reply["content"]["status"] in ("ok", "unknown")
    kernel.manager.interrupt_kernel()
    kernel.finish(message_id)


def test_questions_go_to_an_idle_rank(kernel: Kernel) -> None:
    reply = kernel.client.complete("überpri", reply=True, timeout=TIMEOUT)["content"]
    assert reply["matches"] == ["print", "printer"]
    assert (reply["cursor_start"], reply["cursor_end"]) == (0, 7)
    reply = kernel.client.inspect("x", reply=True, timeout=TIMEOUT)["content"]
    assert reply["found"] and reply["data"] == {"text/plain": "a stub"}
    kernel.client.is_complete("x")
    assert kernel.client.get_shell_msg(timeout=TIMEOUT)["content"]["status"] == "complete"


def test_history(kernel: Kernel) -> None:
    for code in ("print a", "result b", "print a"):
        kernel.run(code)
    kernel.run("print hidden", store_history=False)
    ask = kernel.client.history
    tail = ask(hist_access_type="tail", n=2, raw=True, output=True, reply=True, timeout=TIMEOUT)
    assert tail["content"]["history"] == [[1, 2, ["result b", "b"]], [1, 3, ["print a", None]]]
    found = ask(
        hist_access_type="search", pattern="*a", unique=True, n=5, reply=True, timeout=TIMEOUT
    )
    assert found["content"]["history"] == [[1, 3, "print a"]]


def test_hidden_cells_run_on_one_rank_untagged(kernel: Kernel) -> None:
    cell = kernel.run("print {rank}", store_history=False)
    assert cell.text() == "0\n"
    assert cell.reply["status"] == "ok"


def test_a_killed_rank_ends_the_cell_with_its_cause(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3)
    kernel.run("print up")
    message_id = kernel.start("print before {rank}\nsleep 60000")
    kernel.wait_for_stream(message_id)
    kill(kernel.ranks()[1])
    cell = kernel.finish(message_id)
    assert len(cell.of("error")) == 1
    assert cell.reply["ename"] == "RankDied"
    assert "rank 1: killed by signal 9 (SIGKILL)" in cell.reply["evalue"]
    assert cell.text() == "[0] before 0\n[1] before 1\n[2] before 2\n"
    assert len(kernel.ranks()) == 2
    refused = kernel.run("print on fewer")
    assert refused.text() == ""
    assert "rank 1 is dead: killed by signal 9" in refused.reply["evalue"]


def test_an_exit_names_its_code_and_last_words(kernel: Kernel) -> None:
    cell = kernel.run("on 1 sh echo going down >&2\non 1 exit 7\nsleep 60000")
    assert "rank 1: exited with code 7" in cell.reply["evalue"]
    assert cell.text("stderr") == "[1] going down\n"


def test_a_lying_rank_is_ended_and_named(kernel: Kernel) -> None:
    cell = kernel.run("on 1 lie\nsleep 60000")
    assert "rank 1: broke the protocol: frame of 2147483647 bytes" in cell.reply["evalue"]


def test_a_rank_that_cannot_start_is_told(start_kernel: StartKernel) -> None:
    kernel = start_kernel(2, env={"SK_STUB_FAIL": "1"})
    reply = kernel.run("print x").reply
    assert reply["ename"] == "RankUnavailable"
    assert "exited with code 9" in reply["evalue"]
    assert "told to fail before it joins" in reply["evalue"]


def test_a_missing_rank_program_is_told(start_kernel: StartKernel) -> None:
    reply = start_kernel(2, ["no-such-program"]).run("x").reply
    assert "could not be started: no-such-program" in reply["evalue"]
    assert "No such file or directory" in reply["evalue"]


def test_stuck_ranks_are_named_and_come_back(kernel: Kernel) -> None:
    message_id = kernel.start("print waiting\non 1 hang 6000\non 0 sleep 60000")
    kernel.wait_for_stream(message_id)
    kernel.manager.interrupt_kernel()
    cell = kernel.finish(message_id)
    assert cell.reply["ename"] == "KeyboardInterrupt"
    assert "rank 1" in cell.reply["evalue"]
    assert wait_until(lambda: kernel.run("print back").reply["status"] == "ok")


def test_shutdown_leaves_no_process(start_kernel: StartKernel) -> None:
    kernel = start_kernel(3)
    left_running = kernel.run("sh sleep 600 & echo $!").text().split()[1::2]
    below = descendants(kernel.pid) + list(map(int, left_running))
    assert len(below) == 7  # The controller, three ranks, and what they left running.
    assert all(map(alive, below))
    kernel.stop()
    assert wait_until(lambda: not any(map(alive, below)))


def test_a_restart_starts_fresh_ranks(kernel: Kernel) -> None:
    before = descendants(kernel.pid)
    kernel.manager.restart_kernel(now=False)
    kernel.wait_for_ready()
    assert kernel.run("result 1").of("execute_result")[0]["execution_count"] == 1
    assert wait_until(lambda: not any(map(alive, before)))


def test_a_killed_front_end_without_a_lease_leaves_nothing(start_kernel: StartKernel) -> None:
    kernel = start_kernel(2, env={"SK_LEASE_S": "0"})
    kernel.wait_for_stream(kernel.start("print on\nsleep 60000"))
    below = descendants(kernel.pid)
    assert len(below) == 3
    kill(kernel.pid)
    assert wait_until(lambda: not any(map(alive, below)))


def test_a_killed_controller_ends_ranks_and_kernel(kernel: Kernel) -> None:
    message_id = kernel.start("print on\nsleep 60000")
    kernel.wait_for_stream(message_id)
    below = descendants(kernel.pid)
    assert len(below) == 3
    kill(kernel.controller())
    assert kernel.finish(message_id).reply["status"] == "error"
    assert wait_until(lambda: not any(map(alive, below)))
    assert wait_until(lambda: not kernel.manager.is_alive())


def test_sigint_is_an_interrupt_too(kernel: Kernel) -> None:
    message_id = kernel.start("print waiting\nsleep 60000")
    kernel.wait_for_stream(message_id)
    kernel.manager.signal_kernel(signal.SIGINT)
    assert kernel.finish(message_id).reply["ename"] == "KeyboardInterrupt"


def test_a_flood_is_thinned_and_complete(kernel: Kernel) -> None:
    started = time.monotonic()
    cell = kernel.run("flood 9000 line of some length to fill the pipes")
    seconds = time.monotonic() - started
    expected = "".join(f"line of some length to fill the pipes {i}\n" for i in range(9000))
    assert cell.text() == expected
    assert len(cell.messages) <= 20 * seconds + 20


def test_a_display_beyond_a_frame(kernel: Kernel, tmp_path: Path) -> None:
    text = "x" * 3_000_000
    assert kernel.run(f"display text/plain {text}").of("display_data")[0]["data"] == {
        "text/plain": text
    }
