"""An operation's name outside its own files is found; examples in comments are none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import check_operations
import pytest

ROOT = Path(__file__).resolve().parents[2]
Plant = Callable[[dict[str, str]], Path]

SOUND = {
    "lib/op/ops/halve.h": 'inline constexpr Schema kHalveRows = {.id = 9, .name = "halve_rows"};\n',
    "lib/op/ops/all.h": "#define SK_ALL_SCHEMAS(X) X(kHalveRows) X(kAlloc)\n",
    "lib/op/ops/memory.h": "inline constexpr Schema kAlloc = call();\n",
    "lib/algo/halve.cpp": "plan(ops::kHalveRows);\n",
    "lib/tile/halve.cpp": 'Tile tile = {.name = "halve_rows"};\n',
    "lib/op/op.h": "enum class OpKind { kHalveRows = 9 };\n",
    "lib/comm/words.cpp": '// As "halve_rows" does.\nauto x = kHalveRowsToo; /* kHalveRows\n */\n',
    "lib/comm/heap.cpp": "agree(OpKind::kAlloc);\n",
    "cuda/exec/x.cpp": 'log("halve_rows of something");\n',
    "transport/x.h": "",
    "bindings/python/libsk/_ops.py": 'run("halve_rows")\n',
    "bindings/python/libsk/x.py": '"""As "halve_rows" does."""\n# "halve_rows"\nx = "rows"\n',
}


def test_a_sound_tree_passes(plant: Plant) -> None:
    assert check_operations.violations(plant(SOUND)) == []


def test_this_repository_passes() -> None:
    assert check_operations.violations(ROOT) == []


@pytest.mark.parametrize(
    ("file", "text", "sentence"),
    [
        (
            "lib/comm/words.cpp",
            "/* one\n two */\nif (op == OpKind::kHalveRows) return 1;\n",
            "lib/comm/words.cpp:3: kHalveRows: an operation's name outside its own files",
        ),
        ("lib/plan/x.cpp", 'case_of("halve_rows")', 'lib/plan/x.cpp:1: "halve_rows"'),
        ("cuda/kernel/x.cuh", "ops::kHalveRows", "cuda/kernel/x.cuh:1"),
        ("transport/x.h", "ops::kHalveRows", "transport/x.h:1"),
        ("lib/op/ops/all.h", "#define SK_ALL_SCHEMAS(X) X(kHalve)\n", "no X(kHalveRows)"),
        ("bindings/python/libsk/x.py", 'if name == "halve_rows":\n    pass\n', "libsk/x.py:1"),
    ],
)
def test_a_breach_is_named(plant: Plant, file: str, text: str, sentence: str) -> None:
    (found,) = check_operations.violations(plant({**SOUND, file: text}))
    assert sentence in found


def test_a_tree_without_schemas_is_no_tree(plant: Plant) -> None:
    assert check_operations.violations(plant({"lib/op/x.h": ""})) == ["lib/op/ops has no schemas"]
