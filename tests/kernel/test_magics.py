"""Magics that the front end does itself: the same for every language, so with stub ranks."""

from __future__ import annotations

import pytest
from conftest import TIMEOUT, Cell, Gate, Kernel, StartKernel, alive, descendants, kill, wait_until


@pytest.fixture
def four(start_kernel: StartKernel) -> Kernel:
    """A kernel of four stub ranks."""
    return start_kernel(4)


@pytest.mark.parametrize(
    ("magic", "ranks"),
    [
        ("%%on 1", [1]),
        ("%%on 0,2-3", [0, 2, 3]),
        ("%%on  3 , 0-1 # three of them", [0, 1, 3]),
        ("%%on alive", [0, 1, 2, 3]),
        ("%%on all", [0, 1, 2, 3]),
        ("%%on local", [0, 1, 2, 3]),
        ("# a comment\n\n%%rank 2", [2]),
        ("%%px", [0, 1, 2, 3]),
        ("%%px --targets 1,2", [1, 2]),
    ],
)
def test_a_cell_runs_on_the_ranks_it_names(four: Kernel, magic: str, ranks: list[int]) -> None:
    cell = four.run(f"{magic}\nprint I am {{rank}}")
    tag = len(ranks) > 1
    assert cell.text() == "".join(f"[{r}] I am {r}\n" if tag else f"I am {r}\n" for r in ranks)
    assert cell.reply["status"] == "ok"


def test_the_notebooks_host_is_a_set_of_ranks(four: Kernel) -> None:
    name = four.run("%%on 0\nsh hostname").text().strip()
    assert four.run(f"%%on host:{name}\nprint here").text() == "here\n"
    refused = four.run("%%on host:elsewhere\nprint here")
    assert f'no rank runs on host "elsewhere"; all of them run on {name}' in refused.reply["evalue"]
    assert refused.text() == ""


@pytest.mark.parametrize(
    ("cell", "words"),
    [
        ("%%on 4\nprint x", "%%on 4: rank 4 asked for, but there are ranks 0 to 3"),
        ("%%rank 9\nprint x", "%%rank 9: rank 9 asked for, but there are ranks 0 to 3"),
        ("%%on 0 2\nprint x", '%%on 0 2: "0 2" needs commas between its ranks, as in 0,2'),
        ("%%on 1,2,\nprint x", '%%on 1,2,: "1,2," has a stray comma'),
        ("%sk stack 0 2", '%sk stack: "0 2" needs commas'),
        ("%sk status x", '%sk status takes no "x"'),
        ("%%on 0-99999999999\nprint x", "but there are ranks 0 to 3"),
        (
            "%%on 3-1\nprint x",
            "write it like 0-3,5 or 0-6:2 or !0, or alive, local, host:NAME or all",
        ),
        ("%%on\nprint x", "%%on needs a set of ranks"),
        ("%%on print x", "write it like 0-3,5"),
        ("%%on -1\nprint x", '"-1" is no rank'),
        ("%%rank 1-2\nprint x", "%%on takes a set"),
        ("%%on 0\n%%on 1\nprint x", "a cell has one set of ranks"),
        ("%%onn 0\nprint x", "did you mean %%on 0?"),
        ("%sk hlep\nprint x", "%sk has no verb hlep"),
        ("%wellcome\nprint x", "did you mean %welcome?"),
    ],
)
def test_what_makes_no_sense_runs_nothing(four: Kernel, cell: str, words: str) -> None:
    done = four.run(cell)
    assert done.reply["ename"] == "UsageError"
    assert words in done.reply["evalue"]
    assert len(done.of("error")) == 1
    assert done.text() == ""
    assert four.run("print usable").text() == "usable\n"


def test_a_magic_that_fails_stops_a_run_of_all_cells(four: Kernel, gate: Gate) -> None:
    first = four.start(gate.wait)
    second = four.start("%%onn 0\nprint x")
    third = four.start("print not run")
    four.heard()
    gate.open()
    assert four.finish(first).reply["status"] == "ok"
    assert four.finish(second).reply["status"] == "error"
    assert four.finish(third).reply["status"] == "aborted"


def test_a_dead_rank_is_left_out_only_when_asked(four: Kernel) -> None:
    message_id = four.start("print up\nsleep 60000")
    four.wait_for_stream(message_id)
    kill(four.ranks()[0])
    assert four.finish(message_id).reply["ename"] == "RankDied"
    assert four.run("print x").reply["ename"] == "RankUnavailable"
    cell = four.run("%%on alive\nprint I am {rank}")
    assert cell.text() == "[1] I am 1\n[2] I am 2\n[3] I am 3\n"
    # What tools run behind the scenes goes on as well, on one rank.
    assert four.run("print {rank}", store_history=False).text() == "1\n"


def test_help(four: Kernel) -> None:
    cell = four.run("%sk")
    data = cell.of("display_data")[0]["data"]
    assert set(data) == {"text/plain", "text/markdown"}
    for name in ("%%on RANKS", "%%rank N", "%welcome", "%sk"):
        assert name in data["text/plain"]
    assert cell.reply["status"] == "ok"
    about = four.run("%sk help on").of("display_data")[0]["data"]["text/plain"]
    assert about.startswith("%%on RANKS: runs the rest of the cell on these ranks.")
    assert four.run("%%on?").of("display_data")[0]["data"]["text/plain"] == about


def test_welcome_comes_before_the_rest_of_the_cell(four: Kernel) -> None:
    cell = four.run("%welcome\n%%on 0\nprint after\nprint line")
    kinds = [m["msg_type"] for m in cell.messages]
    assert kinds[0] == "display_data"
    assert cell.text() == "after\nline\n"
    data = cell.of("display_data")[0]["data"]
    assert "on 4 ranks" in data["text/markdown"]
    assert "on 4 ranks" in data["text/plain"]


def test_a_clear_by_the_code_leaves_what_magics_showed(four: Kernel) -> None:
    cell = four.run("%hostname\n%welcome\nprint before\nsleep 300\nclear\nprint after {rank}")
    kept = cell.kept()
    assert [m["msg_type"] for m in kept][:2] == ["stream", "display_data"]
    host = four.run("%hostname").text()
    assert cell.text() == host + "".join(f"[{r}] after {r}\n" for r in range(4))


def test_magics_alone_run_nothing(four: Kernel) -> None:
    for rank in four.ranks():
        kill(rank)
    assert "SuperKernel" in four.run("%welcome").of("display_data")[0]["data"]["text/plain"]
    assert four.run("%sk").reply["status"] == "ok"


def test_hostname_is_merged_as_any_output(four: Kernel) -> None:
    cell = four.run("%hostname\nprint done")
    host, rest = cell.text().split("\n", 1)
    assert host and not host.startswith("[")
    assert rest == "done\n"


def test_info_has_a_column_for_each_group_of_ranks(four: Kernel) -> None:
    cell = four.run("%info")
    assert [m["msg_type"] for m in cell.messages] == ["display_data"]
    data = cell.of("display_data")[0]["data"]
    assert data["text/plain"].splitlines() == [
        "ranks      0         1-3",
        "host       first     other",
        "processor  2 × core  2 × core",
        "GPUs       none      none",
        "stub       <1>       <1>",
    ]
    assert "<td>&lt;1&gt;</td>" in data["text/html"]
    one = four.run("%%rank 2\n%info").of("display_data")[0]["data"]["text/plain"]
    assert one.splitlines()[0] == "ranks      2 of 4"


def test_time_tells_the_slowest_rank(four: Kernel) -> None:
    assert "No cell has run" in four.run("%sk time").of("display_data")[0]["data"]["text/plain"]
    cell = four.run("on 2 sleep 1000")
    data = four.run("%sk time").of("display_data")[0]["data"]
    lines = data["text/plain"].splitlines()
    assert lines[0].split() == ["rank", "wall", "cpu"]
    assert [line.split()[0] for line in lines[1:5]] == ["0", "1", "2", "3"]
    assert lines[5].startswith("cell 2: slowest rank 2, skew ")
    assert set(data) == {"text/plain", "text/html"}
    assert cell.reply["status"] == "ok"


def test_times_are_in_the_replys_metadata(four: Kernel) -> None:
    four.client.execute("on 1 sleep 1000")
    reply = four.client.get_shell_msg(timeout=TIMEOUT)
    times = reply["metadata"]["superkernel"]
    assert times["ranks"] == [0, 1, 2, 3]
    assert times["slowest"] == 1
    assert times["wall_s"][1] >= 1.0
    assert times["skew_s"] == pytest.approx(times["wall_s"][1] - min(times["wall_s"]))
    assert all(0 <= cpu < 60 for cpu in times["cpu_s"])


def test_magics_that_fail_on_the_ranks_end_the_cell(four: Kernel) -> None:
    message_id = four.start("print up\nsleep 60000")
    four.wait_for_stream(message_id)
    kill(four.ranks()[0])
    four.finish(message_id)
    cell = four.run("%hostname\nprint not run")
    assert cell.reply["ename"] == "RankUnavailable"
    assert cell.text() == ""
    assert four.run("%%on alive\n%hostname").text().count("\n") == 1


@pytest.mark.parametrize("magic", ["%info x", "%hostname -a", "%reset --hard", "%sk time 3"])
def test_magics_refuse_arguments_that_they_do_not_have(four: Kernel, magic: str) -> None:
    cell = four.run(magic)
    assert cell.reply["ename"] == "UsageError"
    assert magic.split()[-1] in cell.reply["evalue"]


def plain(cell: Cell) -> str:
    """The text of a cell's one display."""
    assert cell.reply["status"] == "ok", cell.reply
    assert len(cell.of("display_data")) == 1
    return cell.of("display_data")[0]["data"]["text/plain"]


def test_a_dead_rank_comes_back(four: Kernel) -> None:
    kill(four.ranks()[2])
    assert wait_until(lambda: "dead" in plain(four.run("%sk status")))
    refused = four.run("print x")
    assert "%sk revive" in refused.reply["evalue"] and "%%on alive" in refused.reply["evalue"]
    assert plain(four.run("%sk revive 2")).startswith("Starting rank 2 again")
    assert four.run("print {rank}").text() == "".join(f"[{r}] {r}\n" for r in range(4))
    rows = plain(four.run("%sk status")).splitlines()
    assert rows[0].split() == ["ranks", "state", "host", "memory", "revived"]
    assert [row.split()[:2] for row in rows[1:]] == [[str(rank), "idle"] for rank in range(4)]
    nothing = four.run("%sk revive")
    assert nothing.reply["ename"] == "SessionError"
    assert four.run("%sk revive 9").reply["status"] == "error"
    assert four.run("%sk revive x").reply["ename"] == "UsageError"


def test_revive_and_go_on_in_one_cell(four: Kernel) -> None:
    kill(four.ranks()[0])
    assert wait_until(lambda: "dead" in plain(four.run("%sk status")))
    assert four.run("%sk revive\nprint all").text() == "all\n"


def test_looking_does_not_wait_for_the_cell_that_runs(four: Kernel) -> None:
    running = four.start("print on\non 1 spin 60000\non 0,2,3 sleep 60000")
    four.wait_for_stream(running)
    assert "busy" in four.aside("%sk status")
    assert "[rank 1]" in four.aside("%sk stack 1")
    assert "[ranks 0-3]" in four.aside("%sk stack")
    waiting = four.start("%sk stack\nprint later")  # With code it takes its turn.
    bad = four.start("%sk stack 9")
    reply = four.client.get_shell_msg(timeout=TIMEOUT)
    assert reply["parent_header"]["msg_id"] == bad
    assert reply["content"]["status"] == "error"
    four.manager.interrupt_kernel()
    assert four.finish(running).reply["ename"] == "KeyboardInterrupt"
    assert four.finish(waiting).reply["status"] == "aborted"


def test_shutdown_ends_the_ranks_and_reconnect_starts_new_ones(four: Kernel) -> None:
    below = descendants(four.pid)
    assert len(below) == 5
    assert "All ranks have ended" in four.run("%shutdown").text()
    assert not any(map(alive, below))
    refused = four.run("print x")
    assert refused.reply["ename"] == "SessionError"
    assert "%reconnect starts new ones" in refused.reply["evalue"]
    assert "%reconnect" in four.run("%shutdown").text()
    four.manager.interrupt_kernel()
    reply = four.client.complete("pri", reply=True, timeout=TIMEOUT)["content"]
    assert reply["matches"] == []
    assert "SuperKernel" in four.run("%welcome").of("display_data")[0]["data"]["text/plain"]
    cell = four.run("%reconnect\nprint back")
    assert cell.text() == "Starting 4 ranks.\nback\n"
    assert len(descendants(four.pid)) == 5
    assert "nothing to do" in four.run("%reconnect").text()
    four.stop()
    assert wait_until(lambda: not any(map(alive, below)))


def test_a_kernel_without_ranks_ends_as_any_other(four: Kernel) -> None:
    four.run("%shutdown")
    pid = four.pid
    four.stop()
    assert wait_until(lambda: not alive(pid))


def test_silent_magics_show_nothing(four: Kernel) -> None:
    assert four.run("%welcome", silent=True).messages == []


def test_magics_are_inspected(four: Kernel) -> None:
    for code, words in (
        ("%sk", "%sk revive"),
        ("%sk log 1", "%sk log [CELL"),
        ("%%on 1\nprint x", "runs the rest of the cell on these ranks"),
    ):
        reply = four.client.inspect(code, 3, reply=True, timeout=TIMEOUT)["content"]
        assert reply["found"] and words in reply["data"]["text/plain"], code


def test_magics_are_completed(four: Kernel) -> None:
    reply = four.client.complete("%%on 1\n%wel", reply=True, timeout=TIMEOUT)["content"]
    assert "%welcome" in reply["matches"]
    assert (reply["cursor_start"], reply["cursor_end"]) == (7, 11)
    reply = four.client.complete("%%o", reply=True, timeout=TIMEOUT)["content"]
    assert reply["matches"].count("%%on") == 1
    reply = four.client.complete("%sk zzz", reply=True, timeout=TIMEOUT)["content"]
    assert reply["matches"] == []
