"""lint.py: what a checkout need not lint again, by the content of all that a source reads."""

from __future__ import annotations

import subprocess
from pathlib import Path

import lint
import pytest


@pytest.fixture(autouse=True)
def nothing_is_remembered() -> None:
    for remembers in (lint.blobs_of, lint.blob_of, lint.includes_of):
        remembers.cache_clear()


def git(root: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com")
    done = subprocess.run(["git", *who, *words], cwd=root, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.fixture
def tree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of one source, of two headers that it reads, and of one that it does not."""
    root = tmp_path / "tree"
    (root / "lib").mkdir(parents=True)
    for name, text in {
        "lib/a.cc": '#include "lib/near.h"\n',
        "lib/near.h": '#include "lib/far.h"\n',
        "lib/far.h": "int far();\n",
        "lib/other.h": "int other();\n",
        "lib/CMakeLists.txt": "sk_room(a SOURCES a.cc)\n",
        ".clang-tidy": "Checks: '*'\n",
        "pins.txt": "clang-tidy==1\nother==1\n",
        "prelude.h": "\n",
        "lint.py": "\n",
        "linted.txt": "",
    }.items():
        (root / name).write_text(text)
    git(root, "init", "-q")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "all")
    (root / "linted.txt").write_text(f"# Why\n{git(root, 'rev-parse', 'HEAD')}\n")
    monkeypatch.setattr(lint, "ROOT", root)
    monkeypatch.setattr(lint, "LINTED", root / "linted.txt")
    monkeypatch.setattr(lint, "PINS", root / "pins.txt")
    monkeypatch.setattr(lint, "SELF", root / "lint.py")
    monkeypatch.setattr(lint, "CAPNP_PRELUDE", root / "prelude.h")
    monkeypatch.setattr(
        lint, "output_of", lambda words: git(root, *(str(word) for word in words[1:]))
    )
    return root


def pin(root: Path, name: str) -> None:
    pins = root / "pins.txt"
    pins.write_text(pins.read_text().replace(f"{name}==1", f"{name}==2"))


def is_clean(root: Path) -> bool:
    commit = lint.linted_commit()
    source = lint.Source(root / "lib" / "a.cc", "c++", root)
    return bool(commit) and lint.is_as_linted(commit, source)


def test_what_has_not_changed_is_clean(tree: Path) -> None:
    (tree / "lib" / "other.h").write_text("int another();\n")
    pin(tree, "other")
    assert is_clean(tree)


def test_another_linter_finds_other_things(tree: Path) -> None:
    pin(tree, "clang-tidy")
    assert not is_clean(tree)


@pytest.mark.parametrize(
    "name",
    [
        *("lib/a.cc", "lib/near.h", "lib/far.h", "lib/CMakeLists.txt"),
        *(".clang-tidy", "prelude.h", "lint.py"),
    ],
)
def test_what_has_changed_is_not(tree: Path, name: str) -> None:
    with (tree / name).open("a") as file:
        file.write("\n")
    assert not is_clean(tree)


def test_settings_that_are_gone_were_others(tree: Path) -> None:
    (tree / ".clang-tidy").unlink()
    git(tree, "rm", "-q", "--cached", ".clang-tidy")
    assert not is_clean(tree)


def test_without_the_commit_nothing_is(tree: Path) -> None:
    (tree / "linted.txt").write_text("# Why\n" + "1" * 40 + "\n")
    assert not is_clean(tree)
