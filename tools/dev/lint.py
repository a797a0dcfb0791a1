"""clang-tidy over every source that changed since it was last found clean.

A source counts as changed when it, a header of ours that it includes, its compile command or the
settings do; what was clean is remembered in build/lint/clean.json by a hash of those. A checkout
that has no such file, CI's above all, begins with the commit that linted.txt names: everything was
clean there. Where Git does not have that commit, everything counts as changed.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from setup import VENV
from shell import BUILD, ROOT, jobs, output_of, say

STATE = BUILD / "lint" / "clean.json"
PINS = ROOT / "requirements" / "pins.txt"
PINNED = ("clang-tidy==", "nanobind==")  # The linter, and what sources include.
LINTED = Path(__file__).with_name("linted.txt")
SELF = Path(__file__).resolve()
TIDY = VENV / "bin" / "clang-tidy"
# The compile commands are g++'s: what it warns of it has said, and clang may not know.
G_PLUS_PLUS = ("-Wno-unknown-warning-option", "-Wno-deprecated-declarations")
CAPNP_PRELUDE = Path(__file__).with_name("lint_capnp.h")
FILE_TIMEOUT_S = 300
INCLUDE = re.compile(rb'^\s*#\s*include\s*[<"]([^">]+)[">]', re.MULTILINE)


@dataclass(frozen=True)
class Source:
    """One entry of a compile_commands.json, and the folder that this lies in."""

    path: Path
    command: str
    build: Path


def read_commands(builds: list[Path], wanted: set[Path]) -> list[Source]:
    """The wanted sources that these builds compile, each once."""
    by_path: dict[Path, Source] = {}
    for build in builds:
        for entry in json.loads((build / "compile_commands.json").read_text()):
            path = Path(entry["file"]).resolve()
            if path in wanted:
                by_path.setdefault(path, Source(path, entry["command"], build))
    return [by_path[path] for path in sorted(by_path)]


@cache
def includes_of(path: Path) -> tuple[Path, ...]:
    """The files of this repository that `path` names in its #include lines.

    A schema stands for the header that is generated from it.
    """
    found = []
    for raw in INCLUDE.findall(path.read_bytes()):
        name = raw.decode().removesuffix(".h") if raw.endswith(b".capnp.h") else raw.decode()
        for folder in (path.parent, ROOT, ROOT / "include"):
            file = (folder / name).resolve()
            if file.is_file() and file.is_relative_to(ROOT):
                found.append(file)
                break
    return tuple(found)


def files_of(source: Path) -> list[Path]:
    """`source` and all of this repository's files that its compilation reads."""
    seen = {source}
    waiting = [source]
    while waiting:
        for file in includes_of(waiting.pop()):
            if file not in seen:
                seen.add(file)
                waiting.append(file)
    return sorted(seen)


def settings() -> bytes:
    """All that decides what is found, beside the sources."""
    listed = output_of(["git", "ls-files", "--cached", "--others", "*.clang-tidy"]).splitlines()
    parts = [*(ROOT / name for name in sorted(listed)), CAPNP_PRELUDE, Path(__file__)]
    return output_of([TIDY, "--version"]).encode() + b"".join(p.read_bytes() for p in parts)


def key_of(source: Source, rules: bytes) -> str:
    """Changes when anything does that could change the findings."""
    digest = hashlib.sha256(rules + source.command.encode())
    for file in files_of(source.path):
        digest.update(str(file).encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()


@cache
def blobs_of(tree: str) -> dict[str, str]:
    """The name of each file's content in a commit, by its path in the repository."""
    out = {}
    for line in output_of(["git", "ls-tree", "-r", "-z", tree]).split("\0"):
        about, tab, name = line.partition("\t")
        if tab:
            out[name] = about.split()[2]
    return out


@cache
def blob_of(path: Path) -> str:
    """As Git would name the content that a file has now."""
    raw = path.read_bytes()
    return hashlib.sha1(b"blob %d\0" % len(raw) + raw, usedforsecurity=False).hexdigest()


def is_as_in(commit: str, path: Path) -> bool:
    """Whether a file has the content that it had there."""
    return blobs_of(commit).get(str(path.relative_to(ROOT))) == blob_of(path)


def pinned(text: str) -> list[str]:
    """The pins that can change what is found."""
    return [line for line in text.splitlines() if line.startswith(PINNED)]


def linted_commit() -> str:
    """Where all was found clean by the settings of now; "" where that cannot be told."""
    commit = LINTED.read_text().split()[-1]
    known = subprocess.run(
        ["git", "cat-file", "-e", f"{commit}^{{commit}}"], cwd=ROOT, capture_output=True
    )
    if known.returncode != 0:
        return ""
    listed = output_of(["git", "ls-files", "--cached", "--others", "*.clang-tidy"]).splitlines()
    if sorted(listed) != sorted(name for name in blobs_of(commit) if name.endswith(".clang-tidy")):
        return ""
    settings_files = [*(ROOT / name for name in listed), CAPNP_PRELUDE, SELF]
    then = output_of(["git", "show", f"{commit}:{PINS.relative_to(ROOT)}"])
    same = all(is_as_in(commit, path) for path in settings_files)
    return commit if same and pinned(then) == pinned(PINS.read_text()) else ""


def is_as_linted(commit: str, source: Source) -> bool:
    """Whether nothing of ours that its compilation reads, or its folder says of it, has changed."""
    lists = source.path.with_name("CMakeLists.txt")
    read = [*files_of(source.path), *([lists] if lists.exists() else [])]
    return all(is_as_in(commit, path) for path in read)


def lint_one(source: Source) -> str:
    """What clang-tidy says of one source; "" when it is clean."""
    extra = list(G_PLUS_PLUS)
    if b"#include <capnp/" in source.path.read_bytes():
        extra += ["-include", str(CAPNP_PRELUDE)]
    arguments = [f"--extra-arg={argument}" for argument in extra]
    done = subprocess.run(
        [str(TIDY), "-p", str(source.build), "--quiet", *arguments, str(source.path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=FILE_TIMEOUT_S,
    )
    if done.returncode == 0:
        return ""
    return done.stdout.strip() or done.stderr.strip()


def lint(builds: list[Path], files: list[Path]) -> int:
    """Prints the findings of the changed sources; 0 when there are none."""
    rules = settings()
    sources = read_commands(builds, set(files))
    clean: dict[str, str] = json.loads(STATE.read_text()) if STATE.exists() else {}
    keys = {source: key_of(source, rules) for source in sources}
    changed = [source for source in sources if clean.get(str(source.path)) != keys[source]]
    if not STATE.exists() and (commit := linted_commit()):
        same = {source for source in changed if is_as_linted(commit, source)}
        say(f"C++ lint: {len(same)} sources are as in {commit[:12]}, where all was clean")
        clean |= {str(source.path): keys[source] for source in same}
        changed = [source for source in changed if source not in same]
    say(f"C++ lint: {len(changed)} of {len(sources)} sources changed")
    found = 0
    with ThreadPoolExecutor(jobs()) as pool:
        findings = pool.map(lint_one, changed)
        for source, text in zip(changed, findings, strict=True):
            say(f"  {'found something in' if text else 'clean:'} {source.path.relative_to(ROOT)}")
            if text:
                print(text, flush=True)
                found += 1
            else:
                clean[str(source.path)] = keys[source]
                STATE.parent.mkdir(parents=True, exist_ok=True)
                STATE.write_text(json.dumps(clean, indent=1))
    say(f"C++ lint: {found} of {len(changed)} sources with findings")
    return 1 if found else 0
