"""`%sk tag`, `%sk log` and `%sk show`, with stub ranks."""

from __future__ import annotations

import base64
from pathlib import Path

import pytest
from conftest import Cell, Kernel, StartKernel


@pytest.fixture
def three(start_kernel: StartKernel) -> Kernel:
    """A kernel of three stub ranks."""
    return start_kernel(3)


def text(cell: Cell) -> str:
    """What a cell printed; it did not fail."""
    assert cell.reply["status"] == "ok", cell.reply
    return cell.text()


def test_tags(three: Kernel) -> None:
    code = "print same\nprint I am {rank}"
    by_set = "    same\n[0] I am 0\n[1] I am 1\n[2] I am 2\n"
    assert text(three.run(code)) == by_set
    assert text(three.run("%sk tag")) == "Lines are tagged by: set\n"
    assert text(three.run(f"%sk tag spec\n{code}")) == "".join(
        f"[rank {r:4d}] same\n[rank {r:4d}] I am {r}\n" for r in range(3)
    )
    assert text(three.run("%sk tag")) == "Lines are tagged by: spec\n"
    three.run("%sk tag none")
    assert text(three.run(code)) == "same\nI am 0\nI am 1\nI am 2\n"
    host = three.run("%%on 0\n%sk tag none\nsh hostname").text().strip()
    tagged = text(three.run(f"%sk tag host\n{code}"))
    gutter = " " * len(f"[{host} 0] ")
    assert tagged == f"{gutter}same\n" + "".join(f"[{host} {r}] I am {r}\n" for r in range(3))
    assert text(three.run(f"%sk tag set\n{code}")) == by_set


def test_a_tag_outlives_the_ranks(three: Kernel) -> None:
    three.run("%sk tag spec")
    three.run("%shutdown")
    three.run("%reconnect")
    assert text(three.run("print x")) == "".join(f"[rank {r:4d}] x\n" for r in range(3))


@pytest.mark.parametrize("words", ["all", "spec none", "SPEC"])
def test_unknown_tags_change_nothing(three: Kernel, words: str) -> None:
    cell = three.run(f"%sk tag {words}\nprint x")
    assert cell.reply["ename"] == "UsageError"
    assert "none, set, spec and host" in cell.reply["evalue"]
    assert text(three.run("print x")) == "x\n"


def test_the_log_has_what_was_printed(three: Kernel) -> None:
    three.run("print same\nprint I am {rank}")
    three.run("print other")
    assert text(three.run("%sk log 1")) == "    same\n[0] I am 0\n[1] I am 1\n[2] I am 2\n"
    assert text(three.run("%sk log 1 2")) == "same\nI am 2\n"
    assert text(three.run("%sk log 1 0,1")) == "    same\n[0] I am 0\n[1] I am 1\n"
    # Magics alone are no cell to look at.
    assert text(three.run("%sk log")) == "other\n"


@pytest.mark.acceptance(8)
def test_a_file_gets_every_byte(three: Kernel, tmp_path: Path) -> None:
    three.run("on 1 flood 200000 a line of some length from a rank that says very much of it")
    expected = "".join(
        f"a line of some length from a rank that says very much of it {i}\n" for i in range(200000)
    )
    told = text(three.run("%sk log 1 1 > all.txt"))
    assert told == f"{len(expected)} bytes are in all.txt\n"
    assert (tmp_path / "all.txt").read_text() == expected
    shown = text(three.run("%sk log 1 1"))
    assert "more bytes: `%sk log 1 1 > FILE` writes all of them" in shown
    assert expected.startswith(shown[: 1 << 19])


@pytest.mark.parametrize(
    ("magic", "words"),
    [
        ("%sk log 99", "99"),
        ("%sk log 1 7", "7"),
        ("%sk log one", '"one" is no number of a cell'),
        ("%sk log 1 >", "> needs a file"),
        ("%sk log 1 > no/such/folder", "cannot write no/such/folder"),
        ("%sk log 1 > /dev/full", "cannot write /dev/full"),
        ("%sk show", "needs a rank"),
        ("%sk show 0-2", '"0-2" is no rank'),
        ("%sk show 0 x", "no number of a cell"),
        ("%sk show 2", "%sk show: rank 2 displayed nothing in that cell"),
        ("%sk show 9", "%sk show: rank 9 asked for, but there are ranks 0 to 2"),
        ("%sk log 999", "%sk log: no cell that is kept has the number 999"),
        ("%sk log 1 9", "%sk log: rank 9 asked for, but there are ranks 0 to 2"),
        ("%sk log 1 0 1", '%sk log: "0 1" needs commas'),
    ],
)
def test_what_is_not_there_gets_a_sentence(three: Kernel, magic: str, words: str) -> None:
    assert "no cell has run" in three.run("%sk log").reply["evalue"]
    three.run("print x")
    three.run("print y")
    cell = three.run(magic.replace(" 1", " 2", 1) if magic.startswith("%sk log 1") else magic)
    assert cell.reply["status"] == "error"
    assert words in cell.reply["evalue"]
    assert text(three.run("print on")) == "on\n"


def test_show_gives_a_ranks_own_displays(three: Kernel) -> None:
    three.run("display image/png {rank}\ndisplay text/html <b>same</b>\nresult {rank}")
    data = [d["data"] for d in three.run("%sk show 2").of("display_data")]
    assert data[0] == {"image/png": base64.b64encode(b"2").decode()}
    assert {"text/html": "<b>same</b>"} in data
    assert {"text/plain": "2"} in data
    assert len(data) == 3
    three.run("print between")
    again = [d["data"] for d in three.run("%sk show 1 1").of("display_data")]
    assert again[0] == {"image/png": base64.b64encode(b"1").decode()}
