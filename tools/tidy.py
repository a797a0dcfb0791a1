"""Checks what no compiler or linter of ours does: lengths, words, lists of sources.

usage: tidy.py [ROOT]   (one line per finding; "warning" lines do not fail; exit status 1 otherwise)
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

WARN_LINES = 400
REFUSE_LINES = 600
API_BODY_LINES = 15

# Files that may be longer than REFUSE_LINES, each with its reason. A stale entry is refused too.
LONG_FILES: dict[str, str] = {}

# Notebooks that hold their outputs, which a test compares with a run (tests/julia).
STORED = {"examples/quickstart-julia.ipynb", "examples/svd.ipynb"}

CODE = {".c", ".cc", ".cpp", ".h", ".cu", ".cuh", ".py", ".sh", ".jl"}
COMPILED = {".c", ".cc", ".cpp", ".cu"}
# This file and its test spell out what they look for.
EXEMPT = {"tools/tidy.py", "tests/tools/test_tidy.py", "LICENSE"}


@dataclass(frozen=True)
class Ban:
    """A pattern that must not occur in the files that `where` matches."""

    pattern: re.Pattern[str]
    where: re.Pattern[str]
    reason: str


def _ban(pattern: str, where: str, reason: str) -> Ban:
    return Ban(re.compile(pattern), re.compile(where), reason)


TESTS = r"^(tests|bindings/\w+/tests?)/"
# Beside the tests stand bounded polls, programs that play a slow rank, and what the CPU has where a
# GPU has instructions; those may sleep.
TEST_FILES = r"^(tests/(?!support/|devhost/cuda/)|bindings/\w+/tests?/)(?!.*conftest\.py$)"
PRODUCT = r"^(lib|transport|cuda)/.*\.(c|cpp|h|cu|cuh)$"
BANS = (
    _ban(r"^(<{7}|>{7}) ", r".", "a merge that is not finished"),
    _ban(r"\b(TODO|FIXME|XXX|HACK)\b", r".", "real or absent: do it, or file an issue"),
    _ban(
        r"(?i)\b(placeholder|not implemented|for now\b|dummy)",
        r"^(lib|transport|cuda|tools|bindings|include)/",
        "real or absent: what is not there says SK_ERR_UNSUPPORTED with a sentence",
    ),
    _ban(r"\b(f?printf|puts|std::cout|std::cerr)\b *[(<]", PRODUCT, "the library never prints"),
    # _exit() is right in a forked child, and abort() is also what sessions and communicators do.
    _ban(
        r"\bstd::(abort|exit|quick_exit|terminate)\(|(?<![\w.>:])(quick_)?exit\(",
        PRODUCT,
        "the library never ends its host",
    ),
    _ban(
        r"(?<!\")\bthrow\b(?! *(\(\)|;))",
        r"^(lib|transport)/.*\.(cpp|h)$",
        "we throw nothing: sk::Status",
    ),
    _ban(
        r"\b(sleep_for|sleep_until|usleep|nanosleep|time\.sleep)\(",
        TEST_FILES,
        "a test waits for a condition, never by the clock",
    ),
    _ban(r"\bGTEST_SKIP\(\) *;|pytest\.skip\(\)", TESTS, "a skip gives its reason"),
    _ban(
        r"(EXPECT|ASSERT)_TRUE\(true\)|\bassert True\b",
        TESTS,
        "a test that cannot fail shows nothing",
    ),
    # While one thread makes it the GIL may change hands, and whoever has it then waits for that.
    _ban(
        r"^\s+static [^;{]*=\s*(\[|.*\b(nb|nanobind)::|$)",
        r"^bindings/python/src/",
        "a function's static is not made of Python's objects: make it at import",
    ),
    # GCC refuses to compile it there, which nobody sees before that build.
    _ban(
        r"\batomic_(thread|signal)_fence\b",
        r"\.(c|cc|cpp|h|cu|cuh)$",
        "ThreadSanitizer knows no fence: order by the atomic objects themselves",
    ),
    _ban(
        r"\bTaskOp::k(Copy|Reduce|PackB|Gemm)\b",
        r"^lib/(?!(algo|tile)/)",
        "tile operations are walked, not named: ask the record (lib/tile)",
    ),
    _ban(r"march=native|mtune=native", r".", "CPUs differ: dispatch at run time"),
    _ban(r"file\( *GLOB", r"(CMakeLists\.txt|\.cmake)$", "sources are listed, never globbed"),
    # Registries and mirrors are the machine's own business; documents link to sources of record.
    _ban(
        r"https?://(?!(www\.)?(apache\.org|w3\.org|keepachangelog\.com|semver\.org|localhost|127\.|docs\.python\.org|ipython\.readthedocs\.io|numpy\.org))",
        r".",
        "a URL outside the list in tools/tidy.py",
    ),
)
WAIVER = re.compile(r"tidy: allow \S+")  # On the line itself, followed by the reason.

# A function that starts in column 0 and whose body opens at a line's end; Google style has no
# indentation in namespaces, so every function of a .cpp file looks like this.
FUNCTION = re.compile(
    r"^(?!namespace|struct|class|enum|union|extern|#|//|/\*)\w[^;{}]*\([^;{}]*\)[^;{}]*\{\n"
    r"(?P<body>.*?)^\}",
    re.MULTILINE | re.DOTALL,
)


def tracked(root: Path) -> list[str]:
    """The repository's files, new ones included; all files where there is no repository."""
    command = ["git", "-C", str(root), "ls-files", "--cached", "--others", "--exclude-standard"]
    if (root / ".git").exists():
        done = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60)
        names = sorted(set(done.stdout.splitlines()))
    else:
        names = sorted(path.relative_to(root).as_posix() for path in root.rglob("*"))
    return [name for name in names if (root / name).is_file()]


def check_length(name: str, text: str) -> Iterator[str]:
    """A long file asks for a split; a very long one needs a reason on record."""
    lines = text.count("\n")
    if name in LONG_FILES:
        if lines <= REFUSE_LINES:
            yield f"{name}: is no longer long; take it off LONG_FILES in tools/tidy.py"
    elif lines > REFUSE_LINES:
        yield f"{name}: {lines} lines; over {REFUSE_LINES} needs a reason in tools/tidy.py"
    elif lines > WARN_LINES:
        yield f"warning: {name}: {lines} lines; over {WARN_LINES} asks for a split"


def check_api(name: str, text: str) -> Iterator[str]:
    """The C shell is thin: check, call, translate."""
    if not (name.startswith("lib/api/") and name.endswith(".cpp")):
        return
    for match in FUNCTION.finditer(text):
        lines = match["body"].count("\n")
        if lines > API_BODY_LINES:
            line = text.count("\n", 0, match.start()) + 1
            head = " ".join(match[0].split("{")[0].split())[:60]
            yield f"{name}:{line}: {lines} lines in `{head}`: over {API_BODY_LINES} belongs below"


def check_words(name: str, text: str) -> Iterator[str]:
    """Banned words and calls."""
    if name in EXEMPT:
        return
    bans = [ban for ban in BANS if ban.where.search(name)]
    for number, line in enumerate(text.splitlines(), start=1):
        for ban in bans:
            found = ban.pattern.search(line)
            if found and not WAIVER.search(line):
                yield f"{name}:{number}: `{found[0].strip()}`: {ban.reason}"


def check_listed(root: Path, names: list[str]) -> Iterator[str]:
    """Every compiled file is named by the CMakeLists.txt of its folder or one above."""
    for name in names:
        path = Path(name)
        if path.suffix not in COMPILED or path.parts[0] in ("bindings", "examples"):
            continue
        for folder in path.parents:
            lists = root / folder / "CMakeLists.txt"
            relative = path.relative_to(folder).as_posix()
            if lists.is_file() and re.search(
                rf"(?<![\w./-]){re.escape(relative)}(?![\w.-])", lists.read_text()
            ):
                break
        else:
            yield f"{name}: no CMakeLists.txt lists it"


def check_notebook(name: str, text: str) -> Iterator[str]:
    """A committed notebook holds no results that nothing compares: the demo and CI make them."""
    if name.endswith(".ipynb") and name not in STORED:
        cells = json.loads(text)["cells"]
        held = sum(1 for cell in cells if cell.get("outputs") or cell.get("execution_count"))
        if held:
            yield f"{name}: {held} cells hold outputs; clear them before committing"


def findings(root: Path) -> list[str]:
    """Everything found under `root`."""
    names = tracked(root)
    found = list(check_listed(root, names))
    for name in names:
        try:
            text = (root / name).read_text()
        except UnicodeDecodeError:
            continue  # A picture.
        if Path(name).suffix in CODE:
            found += check_length(name, text)
        found += check_api(name, text)
        found += check_words(name, text)
        found += check_notebook(name, text)
    gone = [name for name in LONG_FILES if name not in names]
    return [*found, *(f"{name}: on LONG_FILES, but gone" for name in gone)]


def main() -> int:
    """Prints the findings; warnings alone are no failure."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    found = findings(root)
    print("\n".join(found) if found else "tidy: nothing found")
    return 1 if any(not text.startswith("warning: ") for text in found) else 0


if __name__ == "__main__":
    sys.exit(main())
