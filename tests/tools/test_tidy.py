"""tidy.py and check_docs.py: what is fine passes, one planted fault of each kind is named."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import check_docs
import pytest
import tidy

Plant = Callable[[dict[str, str]], Path]

SOUND = {
    "lib/op/CMakeLists.txt": "sk_room(sk_op SOURCES op.cpp)",
    "lib/op/op.cpp": "// The session's abort().\nvoid f() { session->abort(1); }\n",
    "lib/api/CMakeLists.txt": "add_library(sk SHARED comm.cpp)",
    "lib/api/comm.cpp": "int f(int a) {\n" + "  a += 1;\n" * 15 + "}\n",
    "tests/a_test.cc": 'TEST(A, B) { GTEST_SKIP() << "needs two cores"; }\n',
    "tests/CMakeLists.txt": "sk_test(a SOURCES a_test.cc)",
    "examples/q.ipynb": json.dumps({"cells": [{"outputs": [], "execution_count": None}]}),
    "examples/svd.ipynb": json.dumps({"cells": [{"outputs": [1], "execution_count": 1}]}),
    "docs/env.md": "| `RANK` | the rank |\n| `SK_TIMEOUT_MS` | longest wait |\n",
    "lib/op/env.h": 'auto r = getenv("RANK"); auto t = env_int("SK_TIMEOUT_MS");\n',
    "include/sk/base.h": "enum { SK_OK = 0 };\n",
    "lib/op/name.h": '// docs/env.md\nconst char* n = "SK_OK";\n',
    "README.md": "[environment](docs/env.md) [anchor](docs/env.md#x) [out](mailto:x)\n",
    "docs/site/navigation.py": 'MENU = {"Start": ("At a glance </README>", "/docs/env")}\n',
}


def test_what_is_fine_passes(plant: Plant) -> None:
    root = plant(SOUND)
    assert tidy.findings(root) == []
    assert check_docs.findings(root) == []


FAULTS = {
    "too long": ("lib/op/op.cpp", "int x;\n" * 601, "601 lines; over 600 needs a reason"),
    "long": ("lib/op/op.cpp", "int x;\n" * 401, "warning: lib/op/op.cpp: 401 lines"),
    "a fat shell": (
        "lib/api/comm.cpp",
        "namespace sk {\nint f(int a,\n      int b) {\n" + "  a += b;\n" * 16 + "}\n}\n",
        "16 lines in `int f(int a, int b)`",
    ),
    "an unlisted source": ("lib/op/op2.cpp", "int x;\n", "no CMakeLists.txt lists it"),
    "half a merge": ("docs/x.md", "<" * 7 + " HEAD\n", "a merge that is not finished"),
    "a promise": ("lib/op/op.h", "// TODO later\n", "real or absent"),
    "an evasion": ("tools/x.cpp", "// Not implemented on this machine.\n", "real or absent"),
    "a printing library": ("lib/op/op.cpp", 'void f() { printf("x"); }\n', "never prints"),
    "an ending library": ("transport/x.h", "inline void f() { std::abort(); }\n", "ends its host"),
    "a throw": ("lib/op/op.cpp", "void f() { throw 1; }\n", "we throw nothing"),
    "a static made with the GIL": (
        "bindings/python/src/b.h",
        "void f() {\n  static const long main = nb::cast<long>(thread());\n}\n",
        "make it at import",
    ),
    "a fence": (
        "transport/x.h",
        "inline void f() { std::atomic_thread_fence(std::memory_order_seq_cst); }\n",
        "ThreadSanitizer knows no fence",
    ),
    "waiting by the clock": ("tests/b.h", "usleep(1);\n", "waits for a condition"),
    "a silent skip": ("tests/b.h", "GTEST_SKIP();\n", "gives its reason"),
    "an empty test": ("tests/b.h", "EXPECT_TRUE(true);\n", "cannot fail"),
    "a tile operation by name": (
        "lib/op/op.cpp",
        "bool f(TaskOp op) { return op == TaskOp::kGemm; }\n",
        "ask the record",
    ),
    "one CPU's code": ("lib/op/CMakeLists.txt", "-march=native op.cpp", "dispatch at run time"),
    "a glob": ("lib/op/CMakeLists.txt", "file(GLOB x *) # op.cpp", "never globbed"),
    "a URL": ("docs/x.md", "see http" + "://example.com/x\n", "a URL outside the list"),
    "kept results": (
        "examples/q.ipynb",
        json.dumps({"cells": [{"outputs": [1], "execution_count": 3}]}),
        "1 cells hold outputs",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_is_named(plant: Plant, name: str) -> None:
    file, text, message = FAULTS[name]
    found = tidy.findings(plant({**SOUND, file: text}))
    assert any(file in line and message in line for line in found), found


def test_a_waiver_is_heeded_on_its_line_only(plant: Plant) -> None:
    line = 'void f() { puts("x"); }'
    found = tidy.findings(plant({**SOUND, "lib/op/op.cpp": f"{line}  // tidy: allow puts: x\n"}))
    assert found == []
    text = f"// tidy: allow puts: x\n{line}\n"
    assert tidy.findings(plant({**SOUND, "lib/op/op.cpp": text})) != []


def test_a_stale_exception_is_named(plant: Plant, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(tidy.LONG_FILES, "lib/op/op.cpp", "a table")
    monkeypatch.setitem(tidy.LONG_FILES, "lib/op/gone.cpp", "a table")
    found = tidy.findings(plant(SOUND))
    assert any("op.cpp: is no longer long" in line for line in found)
    assert any("gone.cpp: on LONG_FILES, but gone" in line for line in found)


DISAGREEMENTS = {
    "an unwritten variable": (
        "lib/op/env.h",
        'getenv("RANK"); getenv("SK_TIMEOUT_MS"); getenv("HOME_PORT");',
        "HOME_PORT is not in docs/env.md",
    ),
    "one by its prefix": ("lib/op/x.h", 'take("SK_SECRET")', "SK_SECRET is not in"),
    "one that Python reads": ("bindings/python/x.py", 'os.environ["PORT"]', "PORT is not in"),
    "a stale row": ("lib/op/env.h", 'getenv("SK_TIMEOUT_MS");', "no code reads RANK"),
    "a dead link": ("README.md", "[x](docs/gone.md)", "leads nowhere"),
    "a page that is not there": ("lib/op/x.h", "// see docs/gone.md", "does not exist"),
    "a page that no menu has": ("docs/gone.md", "# Gone", "stands nowhere in the menu"),
}


@pytest.mark.parametrize("name", DISAGREEMENTS)
def test_a_disagreement_is_named(plant: Plant, name: str) -> None:
    file, text, message = DISAGREEMENTS[name]
    found = check_docs.findings(plant({**SOUND, file: text + "\n"}))
    assert any(message in line for line in found), found
