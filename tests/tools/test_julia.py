"""./dev: which Julia it takes, and what it says where it can have none."""

from __future__ import annotations

import subprocess
from pathlib import Path

import debian
import julia
import pytest
import test as suites
from shell import DevError


def program(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)
    return path


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """No Julia anywhere: nothing was installed, and the PATH is a folder of this test."""
    monkeypatch.setattr(julia, "HOME", tmp_path / "julia")
    monkeypatch.setattr(julia, "WRAPPER", tmp_path / "julia" / "bin" / "julia")
    monkeypatch.setenv("PATH", str(tmp_path / "path"))
    return tmp_path


def test_one_that_dies_of_an_exception_is_none(home: Path) -> None:
    assert julia.find() is None
    program(home / "path" / "julia", "kill -SEGV $$")
    assert julia.find() is None


def test_one_that_works_is_taken_from_the_path(home: Path) -> None:
    found = program(home / "path" / "julia", "exit 0")
    assert julia.find() == found
    assert julia.install() == found


def test_where_there_is_no_apt_a_sentence_says_what_to_do(home: Path) -> None:
    with pytest.raises(DevError, match="install Julia 1.5 or later by hand"):
        julia.install()


def test_a_folder_that_ld_preload_cannot_name_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program(home / "path" / "apt-get", "exit 1")
    monkeypatch.setattr(julia, "HOME", home / "with space" / "julia")
    with pytest.raises(DevError, match="space or a colon"):
        julia.install()


def test_the_mirror_is_the_one_of_everything(home: Path) -> None:
    lines = (
        "mirror:/debian-security bookworm-security main",
        "mirror:/tools nodistro main",
        "mirror:/debian bookworm-updates main",
        "mirror:/debian bookworm main",
    )
    program(home / "path" / "apt-get", "\n".join(f"echo {line}" for line in lines))
    assert debian.mirror() == "mirror:/debian"


def test_the_wrapper_puts_the_library_before_what_was_there(home: Path) -> None:
    julia._write_wrapper(Path("/some where/libunwind.so.8"))
    text = julia.WRAPPER.read_text().replace("/usr/bin/julia", "/usr/bin/printenv LD_PRELOAD #")
    julia.WRAPPER.write_text(text.replace("/some where/", "/"))
    done = subprocess.run(
        [julia.WRAPPER], capture_output=True, text=True, env={"LD_PRELOAD": ""}, timeout=60
    )
    assert done.stdout.strip() == "/libunwind.so.8"


def test_without_it_a_whole_run_leaves_its_suite_out_and_says_so(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert "julia" not in [each.name for each in suites.present_suites(None, may_install=False)]
    assert "left out: julia" in capsys.readouterr().out
    with pytest.raises(DevError, match="needs Julia.*--install"):
        suites.present_suites("julia", may_install=False)
    asked = suites.present_suites("julia", may_install=True)
    assert [each.name for each in asked] == ["julia"]


def test_with_it_the_suite_is_part_of_a_whole_run(home: Path) -> None:
    program(home / "path" / "julia", "exit 0")
    assert "julia" in [each.name for each in suites.present_suites(None, may_install=False)]
