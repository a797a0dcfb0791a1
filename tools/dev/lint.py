"""clang-tidy over every source that changed since it was last found clean.

A source counts as changed when its preprocessed dependencies, its compile command or .clang-tidy
do; what was clean is remembered in build/lint/clean.json by a hash of those.
"""

from __future__ import annotations

import hashlib
import json
import shlex
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from setup import VENV
from shell import BUILD, ROOT, jobs, output_of, say

STATE = BUILD / "lint" / "clean.json"
TIDY = VENV / "bin" / "clang-tidy"
# The compile commands are g++'s; a warning that clang does not know is none of its business.
UNKNOWN = ("--extra-arg=-Wno-unknown-warning-option",)
FILE_TIMEOUT_S = 300


@dataclass(frozen=True)
class Source:
    """One entry of compile_commands.json."""

    path: Path
    command: str
    folder: str


def read_commands(build: Path, wanted: set[Path]) -> list[Source]:
    """The wanted sources that this build compiles, each once."""
    entries = json.loads((build / "compile_commands.json").read_text())
    by_path: dict[Path, Source] = {}
    for entry in entries:
        path = Path(entry["file"])
        if path in wanted:
            by_path.setdefault(path, Source(path, entry["command"], entry["directory"]))
    return [by_path[path] for path in sorted(by_path)]


def key_of(source: Source, settings: bytes) -> str:
    """Hash of the command, the settings, and all of the repository's files that it includes."""
    words = shlex.split(source.command)
    if "ccache" in words[0]:
        words = words[1:]
    output = words.index("-o")
    del words[output : output + 2]
    listed = subprocess.run(
        [*words, "-MM", "-MF", "-"],
        cwd=source.folder,
        capture_output=True,
        text=True,
        timeout=FILE_TIMEOUT_S,
    )
    digest = hashlib.sha256(settings + source.command.encode())
    for word in listed.stdout.replace("\\\n", " ").split()[1:]:
        path = Path(source.folder, word)
        if path.is_file():
            digest.update(path.read_bytes())
    if listed.returncode != 0:
        digest.update(listed.stderr.encode())
    return digest.hexdigest()


def lint_one(build: Path, source: Source) -> str:
    """What clang-tidy says of one source; "" when it is clean."""
    done = subprocess.run(
        [str(TIDY), "-p", str(build), "--quiet", *UNKNOWN, str(source.path)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=FILE_TIMEOUT_S,
    )
    if done.returncode == 0:
        return ""
    return done.stdout.strip() or done.stderr.strip()


def lint(build: Path, files: list[Path]) -> int:
    """Prints the findings of the changed sources; 0 when there are none."""
    settings = (ROOT / ".clang-tidy").read_bytes() + output_of([TIDY, "--version"]).encode()
    sources = read_commands(build, set(files))
    clean: dict[str, str] = json.loads(STATE.read_text()) if STATE.exists() else {}
    with ThreadPoolExecutor(jobs()) as pool:
        keys = dict(zip(sources, pool.map(lambda s: key_of(s, settings), sources), strict=True))
        changed = [source for source in sources if clean.get(str(source.path)) != keys[source]]
        say(f"C++ lint: {len(changed)} of {len(sources)} sources changed")
        found = 0
        findings = pool.map(lambda s: lint_one(build, s), changed)
        for source, text in zip(changed, findings, strict=True):
            say(f"  {'found something in' if text else 'clean:'} {source.path.relative_to(ROOT)}")
            if text:
                print(text, flush=True)
                found += 1
            else:
                clean[str(source.path)] = keys[source]
                STATE.parent.mkdir(parents=True, exist_ok=True)
                STATE.write_text(json.dumps(clean, indent=1))
    return 1 if found else 0
