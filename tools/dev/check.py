"""./dev check: what can be judged without running the product."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path

import lint
from builder import configure, configure_binding
from setup import VENV, setup
from shell import ROOT, output_of, run

CPP = (".c", ".cc", ".cpp", ".h")
TOOLS = ROOT / "tools"


def tracked(*suffixes: str) -> list[Path]:
    """Files of the repository (also new ones that git does not ignore) with such an ending."""
    names = output_of(["git", "ls-files", "--cached", "--others", "--exclude-standard"])
    paths = [ROOT / name for name in names.splitlines() if name.endswith(suffixes)]
    return [path for path in paths if path.is_file()]


def check_cpp_format(fix: bool) -> int:
    """clang-format, the style of .clang-format."""
    options = ["-i"] if fix else ["--dry-run", "-Werror"]
    return run(["clang-format", *options, *tracked(*CPP)], "C++ format", stream=True, may_fail=True)


def check_python(fix: bool) -> int:
    """ruff's linter and formatter, set up in ruff.toml."""
    ruff = VENV / "bin" / "ruff"
    commands = {
        "Python lint": [ruff, "check", *(["--fix"] if fix else []), ROOT],
        "Python format": [ruff, "format", *([] if fix else ["--diff"]), ROOT],
    }
    # Both, also where the first finds something.
    return int(any([run(w, what, stream=True, may_fail=True) for what, w in commands.items()]))


def check_dockerfiles(_fix: bool) -> int:
    """hadolint; where a rule is left out, the file says so."""
    command = [VENV / "bin" / "hadolint", *tracked("Dockerfile")]
    return run(command, "Dockerfiles", stream=True, may_fail=True)


def check_script(name: str, what: str) -> Callable[[bool], int]:
    """One of the repository's own checkers under tools/."""
    command = [sys.executable, "-B", TOOLS / name]
    return lambda _fix: run(command, what, stream=True, may_fail=True)


def check_cpp_lint(_fix: bool) -> int:
    """clang-tidy, set up in .clang-tidy: minutes the first time, then only what changed.

    Not for bench/ sources that are compiled against a peer, which may not be here.
    """
    builds = [configure("lint")]
    run(["cmake", "--build", builds[0], "--target", "sk_control_schema"], "generating the schema")
    builds.append(configure_binding("lint"))
    return lint.lint(builds, tracked(".c", ".cc", ".cpp"))


CHECKS: tuple[tuple[str, Callable[[bool], int]], ...] = (
    ("layers", check_script("check_layers.py", "layers")),
    ("operations", check_script("check_operations.py", "operations")),
    ("tidy", check_script("tidy.py", "tidy")),
    ("documentation", check_script("check_docs.py", "documentation")),
    ("C++ format", check_cpp_format),
    ("Python", check_python),
    ("Dockerfiles", check_dockerfiles),
    ("C++ lint", check_cpp_lint),
)


def check(fix: bool) -> int:
    """Runs every check, also after one failed, and closes with what was found."""
    setup("check")
    failed = []
    for name, function in CHECKS:
        if function(fix) != 0:
            failed.append(name)
    passed = len(CHECKS) - len(failed)
    if failed:
        print(f"failed: {', '.join(failed)} (what they found is above)", flush=True)
    print(f"{passed} passed, {len(failed)} failed, 0 skipped", flush=True)
    return 1 if failed else 0


def lint_cpp() -> int:
    """The one check that takes minutes, alone."""
    setup("check")
    return check_cpp_lint(False)
