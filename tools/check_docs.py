"""Checks that documents and code agree: variables, links, pages that comments name, sentences, and
the pages that are made of the Python package's docstrings and of the table of faults.

usage: check_docs.py [ROOT]   (prints one line per finding; exit status 1 when there is any)

docs/env.md is one row per variable, its name in backquotes in the first column. Code reads a
variable by a literal name: getenv("X"), env("X"), os.environ["X"], or any string "SK_...".
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import make_faults_page
import make_python_page
from sentences import check_sentences
from tidy import tracked

READERS = re.compile(
    r"(?:getenv|setenv|environ\.get|environ\.setdefault|\benv\w*(?:::\w+)?)\(\s*\"([A-Z][A-Z0-9_]+)\""
    r"|environ\[\s*\"([A-Z][A-Z0-9_]+)\"\s*\]"
    r"|\"(SK_[A-Z0-9_]+)=?\""
)
PRODUCT = re.compile(r"^(lib|transport|cuda|tools|bindings)/.*\.(c|cpp|h|cu|py|jl)$")
NOT_PRODUCT = re.compile(r"/tests?/|^tools/(dev/|\w+\.py$)")
# Codes and enumerators of the C ABI are names in strings too, but no variables.
ABI_NAME = re.compile(r"\bSK_[A-Z0-9_]+\b")
ROW = re.compile(r"^\| *`([A-Z][A-Z0-9_]*)` *\|", re.MULTILINE)
LINK = re.compile(r"\]\(([^)#:\s]+)(?:#[^)]*)?\)")
NAMED_PAGE = re.compile(r"\bdocs/[\w/-]+\.md\b")
ENV_PAGE = "docs/env.md"
MENU_FILE = "docs/site/navigation.py"
MENU_ENTRY = re.compile(r"\"(?:[^\"]* <)?/([\w/.-]+)>?\"")
# The front page, and what follows the README of its folder by itself (docs/site/conf.py).
NOT_IN_MENU = re.compile(r"^docs/(README|(adr|tutorial)/\d[^/]*)\.md$")


def read_variables(root: Path, names: list[str]) -> dict[str, str]:
    """Every variable that product code names, and the first place."""
    abi = {
        word
        for name in names
        if name.startswith("include/")
        for word in ABI_NAME.findall((root / name).read_text())
    }
    found: dict[str, str] = {}
    for name in names:
        if not PRODUCT.search(name) or NOT_PRODUCT.search(name):
            continue
        text = (root / name).read_text()
        for match in READERS.finditer(text):
            variable = next(group for group in match.groups() if group)
            if variable not in abi:
                line = text.count("\n", 0, match.start()) + 1
                found.setdefault(variable, f"{name}:{line}")
    return found


def check_variables(root: Path, names: list[str]) -> Iterator[str]:
    """What code reads is documented, and what is documented is read."""
    page = root / ENV_PAGE
    documented = set(ROW.findall(page.read_text())) if page.is_file() else set()
    read = read_variables(root, names)
    for variable, place in sorted(read.items()):
        if variable not in documented:
            yield f"{place}: the environment variable {variable} is not in {ENV_PAGE}"
    texts = [(root / name).read_text() for name in names if PRODUCT.search(name)]
    for variable in sorted(documented - set(read)):
        if not any(f'"{variable}"' in text for text in texts):
            yield f"{ENV_PAGE}: no code reads {variable}"


def check_links(root: Path, names: list[str]) -> Iterator[str]:
    """Relative links of Markdown files lead somewhere."""
    for name in names:
        if name.endswith(".md"):
            for link in LINK.findall((root / name).read_text()):
                if not (root / name).parent.joinpath(link).exists():
                    yield f"{name}: the link to {link} leads nowhere"


def check_pages(root: Path, names: list[str]) -> Iterator[str]:
    """A page that a comment or a message sends its reader to exists."""
    for name in names:
        if name.startswith(("include/", "lib/", "transport/", "bindings/", "cuda/")):
            if not name.endswith((".h", ".cpp", ".cu", ".py", ".jl")) or "/tests/" in name:
                continue
            for page in sorted(set(NAMED_PAGE.findall((root / name).read_text()))):
                if not (root / page).is_file():
                    yield f"{name}: names {page}, which does not exist"


def check_menu(root: Path, names: list[str]) -> Iterator[str]:
    """The site's menu has every document, without which `./dev docs` makes no site."""
    if MENU_FILE not in names:
        return
    listed = set(MENU_ENTRY.findall((root / MENU_FILE).read_text()))
    for name in names:
        if name.endswith(".md") and not NOT_IN_MENU.match(name) and name[:-3] not in listed:
            yield f"{name}: stands nowhere in the menu of {MENU_FILE}"


def check_python_page(root: Path) -> Iterator[str]:
    """It says what the docstrings say now."""
    if (root / make_python_page.PACKAGE).is_dir() and make_python_page.has_drifted(root):
        yield f"{make_python_page.PAGE}: run tools/make_python_page.py, which would write another"


def check_faults_page(root: Path) -> Iterator[str]:
    """It says what the table says, and the tests that this names are there."""
    if not (root / make_faults_page.TABLE).is_dir():
        return
    if make_faults_page.has_drifted(root):
        yield f"{make_faults_page.PAGE}: run tools/make_faults_page.py, which would write another"
    yield from make_faults_page.missing_tests(root)


def findings(root: Path) -> list[str]:
    """Everything found under `root`."""
    names = tracked(root)
    return [
        *check_variables(root, names),
        *check_links(root, names),
        *check_pages(root, names),
        *check_menu(root, names),
        *check_sentences(root, names),
        *check_python_page(root),
        *check_faults_page(root),
    ]


def main() -> int:
    """Prints the findings."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    found = findings(root)
    print("\n".join(found) if found else "documentation: agrees with the code")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
