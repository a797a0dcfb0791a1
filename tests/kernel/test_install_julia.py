"""`sk install --language julia`, with programs that pretend to be Julia: no Julia is needed."""

from __future__ import annotations

import json
import os
import pty
import subprocess
from pathlib import Path

import pytest
from conftest import BUILD, ROOT, SK

GOOD = "printf '1.9.0\\n/nowhere/sys.so\\n'"


class Command:
    """Runs `sk install` with such a program, as a user with an empty home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.folder = home / ".local/share/jupyter/kernels/superkernel-julia"

    def __call__(self, script: str | None, *more: str, fails: int = 0, **env: str) -> str:
        program = self.home / "julia"
        if script is not None:
            program.write_text(f"#!/bin/sh\n{script}\n")
            program.chmod(0o755)
        base = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        base["SK_LIBRARY"] = str(BUILD / "libsk.so.0")
        command = [str(SK), "install", "--language", "julia", "--julia", str(program), *more]
        done = subprocess.run(
            command, capture_output=True, text=True, timeout=120, env={**base, **env}
        )
        assert done.returncode == fails, done.stdout + done.stderr
        return done.stderr if fails else done.stdout


@pytest.fixture
def install(tmp_path: Path) -> Command:
    """In a home of its own."""
    return Command(tmp_path)


def test_the_kernelspec_has_the_ranks_sources(install: Command) -> None:
    assert install(GOOD, "--no-image", "--ranks", "3") == (
        f"Installed the kernelspec in {install.folder}\n"
    )
    spec = json.loads((install.folder / "kernel.json").read_text())
    argv = spec["argv"]
    assert spec["language"] == "julia" and spec["display_name"] == "SuperKernel (Julia)"
    assert argv[argv.index("--language-version") + 1] == "1.9.0"
    assert argv[argv.index("--") + 1 :] == [
        str(install.home / "julia"),
        str(install.folder / "rank" / "rank.jl"),
        str(BUILD / "libsk.so.0"),
    ]
    rank, sources = install.folder / "rank", ROOT / "bindings" / "julia"
    for made, source in ((rank, sources / "kernel"), (rank / "LibSK" / "src", sources / "src")):
        for file in source.rglob("*.jl"):
            assert (made / file.relative_to(source)).read_bytes() == file.read_bytes(), file
    assert (rank / "LibSK" / "Project.toml").exists()
    listed = subprocess.run(
        [str(SK), "list", "--user"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(install.home), "PATH": "/usr/bin:/bin"},
    )
    assert f"superkernel-julia  3      {install.home / 'julia'}" in listed.stdout


@pytest.mark.parametrize(
    ("script", "sentence"),
    [
        ("echo 1.4.2; exit 3", "is Julia 1.4.2; 1.5 or later is needed"),
        ("echo Markdown; exit 4", "has no package Markdown, which belongs to Julia's own"),
        (f"{GOOD}; kill -SEGV $$", "a libunwind that it was not built for"),
        (f"{GOOD}; exit 139", "a libunwind that it was not built for"),
        ("echo no such option >&2; exit 1", "did not say its version: no such option"),
        ("true", "did not say its version"),
        (None, "is not there or no program; install Julia 1.5 or later"),
    ],
)
def test_a_julia_that_will_not_do_gets_a_sentence(
    install: Command, script: str | None, sentence: str
) -> None:
    assert sentence in install(script, fails=1)
    assert not install.folder.exists()


def test_without_the_library(install: Command) -> None:
    said = install(GOOD, fails=1, SK_LIBRARY=str(install.home / "none.so"))
    assert f"libsk.so.0 cannot be read at {install.home / 'none.so'}" in said


def test_an_image_that_cannot_be_made_is_told(install: Command) -> None:
    said = install(f'case "$*" in *output-o*) echo no room >&2; exit 1;; esac; {GOOD}')
    assert (
        "There is no system image, so ranks start slower: julia --output-o failed: no room" in said
    )
    assert "-J" not in json.loads((install.folder / "kernel.json").read_text())["argv"]


# Instead of writing an image: steps as make_image.jl tells them, among other lines.
TELLS = (
    "printf 'a cell printed this\\nstep: running first cells\\n1\\nstep: writing native code\\n'"
)
TRIES = f'case "$*" in *output-o*) {TELLS}; %s; exit 1;; esac; {GOOD}'


def test_what_an_image_waits_for_is_told(install: Command) -> None:
    lines = install(TRIES % "true").splitlines()
    assert lines[0].startswith("Making a system image")
    assert [line.split(maxsplit=1)[1] for line in lines[1:4]] == [
        "starting julia",
        "running first cells",
        "writing native code",
    ]
    assert all(line.split()[0].startswith("0:") for line in lines[1:4])
    assert lines[4].startswith("There is no system image")


def test_a_terminal_sees_how_long_it_has_taken(install: Command) -> None:
    ours, theirs = pty.openpty()
    # It ends once the terminal was told of its third second.
    gate = install.home / "gate"
    install(GOOD, "--no-image")
    program = install.home / "julia"
    program.write_text(f"#!/bin/sh\n{TRIES % f'read x < {gate}'}\n")
    os.mkfifo(gate)
    child = subprocess.Popen(
        [str(SK), "install", "--language", "julia", "--julia", str(program)],
        stdout=theirs,
        env={
            "HOME": str(install.home),
            "PATH": "/usr/bin:/bin",
            "SK_LIBRARY": str(BUILD / "libsk.so.0"),
        },
    )
    os.close(theirs)
    said = b""
    while b"0:03 writing native code" not in said:
        said += os.read(ours, 4096)
    gate.write_text("\n")
    while b"Installed the kernelspec" not in said:
        said += os.read(ours, 4096)
    assert child.wait(timeout=60) == 0
    os.close(ours)
    # Each in the place of the one before, and nothing of them stays.
    assert said.count(b"\r\x1b[K0:0") >= 4
    assert b"\r\x1b[KThere is no system image" in said


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--language", "rust"], '--language is "rust"; python and julia are allowed'),
        (["--julia", "x"], "--julia is for --language julia, not python"),
        (["--language", "julia", "--python", "x"], "--python is for --language python, not julia"),
        (["--no-image"], "--no-image is for --language julia, not python"),
    ],
)
def test_options_of_the_other_language(arguments: list[str], sentence: str) -> None:
    done = subprocess.run(
        [str(SK), "install", *arguments], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and sentence in done.stderr
