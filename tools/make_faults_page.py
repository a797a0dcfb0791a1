#!/usr/bin/env python3
"""Writes docs/faults.md from the table of faults in tests/faults, or says where it has drifted.

python3 tools/make_faults_page.py            writes the page
python3 tools/make_faults_page.py --check    ends with 1 where it would write another

check_docs.py makes the check, too, and whether there is each test that the table names.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
TABLE = "tests/faults"
PAGE = "docs/faults.md"

HEAD = """\
# Faults, and what libsk does of them

Written by `tools/make_faults_page.py` from `tests/faults`, whose suite runs what shows it:

```bash
./dev test --suite faults
```

It prints a line for each fault: whether it is as promised, what was measured, and the seed by which
a run at random is repeated. Hosts are made of namespaces of one machine
([CONTRIBUTING](../CONTRIBUTING.md)), which takes root. What codes mean is in
[error codes](reference/errors.md), what to do about a sentence in
[troubleshooting](troubleshooting.md), how ranks that are left go on at
[`comm.shrink()`](reference/python.md) and in `include/sk/comm.h`.

What holds for all of them:

- No call waits for ever: it ends well, or with an error that names a rank or a connection. For a
  rank that is alive and not there it waits for the call's timeout (300 s, unless the communicator
  or the call has another).
- After an error on the way the communicator is over on every rank, and its later calls say why.
  Other communicators go on, and those that are left can make a new one.
- What the failed call was to write is undefined; nothing else is touched.
- Times hold where programs get the processor. They are from the fault to the last rank that is
  told.

*Not* begins what a job might want beyond that and does not get.

| | fault | what libsk does | error | within | shown by |
|---|---|---|---|---|---|
"""


def table(root: Path) -> tuple[Any, ...]:
    """All faults."""
    folder = str(root / TABLE)
    if folder not in sys.path:
        sys.path.insert(0, folder)
    import faults

    return faults.FAULTS


def shown_by(tests: tuple[str, ...]) -> str:
    """Files of pytest, suites and programs of ctest, each once."""
    names = [
        test.split("::")[0].rsplit("/", 1)[-1] if "/" in test else test.split(".")[0]
        for test in tests
    ]
    return ", ".join(f"`{name}`" for name in dict.fromkeys(names))


def row(fault: Any) -> str:
    """Of one fault."""
    does = fault.does + (f". *Not*: {fault.lacks}" if fault.lacks else "")
    cells = [does, fault.code, fault.within, shown_by(fault.tests)]
    if fault.out_of_reach:
        cells = [fault.out_of_reach, "", "", "not tried here"]
    elif fault.not_built:
        cells = [fault.not_built, "", "", "not built"]
    return " ".join(f"| {cell}".rstrip() for cell in (str(fault.number), fault.what, *cells)) + " |"


def page(root: Path) -> str:
    """All of it."""
    return HEAD + "".join(f"{row(fault)}\n" for fault in table(root))


def has_drifted(root: Path) -> bool:
    """Whether the page is another one than would be written."""
    file = root / PAGE
    return not file.is_file() or file.read_text() != page(root)


def missing_tests(root: Path) -> Iterator[str]:
    """Tests that the table names and that no source has."""
    sources = [*root.glob("tests/**/*.cc"), *root.glob("tests/**/*.h")]
    text = "\n".join(path.read_text() for path in sources)
    cases = set(re.findall(r"\bTEST(?:_[FP])?\(\s*(\w+),\s*(\w+)\s*\)", text))
    suites = {suite for suite, _ in cases}
    programs = "\n".join(path.read_text() for path in root.glob("tests/**/CMakeLists.txt"))
    for fault in table(root):
        for test in fault.tests:
            suite, _, case = test.partition(".")
            if "/" in test:
                there = has_pytest(root, test)
            elif case == "*":
                there = suite in suites
            elif case:
                there = (suite, case) in cases
            else:
                target = test.removeprefix("fuzz_")
                there = re.search(rf"\b{target}\b", programs) is not None
            if not there:
                yield f"{TABLE}: fault {fault.number} names {test}, which is not there"


def has_pytest(root: Path, test: str) -> bool:
    """Whether its file has its function."""
    name, _, function = test.partition("::")
    file = root / name
    if not file.is_file():
        return False
    function = function.split("[")[0]
    return not function or re.search(rf"^def {function}\(", file.read_text(), re.M) is not None


def main() -> int:
    """Writes or checks."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="write nothing")
    options = parser.parse_args()
    found = list(missing_tests(ROOT))
    print("\n".join(found))
    if options.check:
        return 1 if found or has_drifted(ROOT) else 0
    (ROOT / PAGE).write_text(page(ROOT))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
