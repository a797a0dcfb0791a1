"""clang-tidy over every source that changed since it was last found clean.

A source counts as changed when it, a header of ours that it includes, its compile command or the
settings do; what was clean is remembered in build/lint/clean.json by a hash of those.
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
