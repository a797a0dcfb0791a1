"""docs/add-an-operation.md: what stands there compiles, put where it says, and has a sound plan."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "add-an-operation.md"
TREES = ("lib", "include", "tests/multi/derived", "tests/support")
COMPILED = (
    "lib/op/schema.cpp",  # Which asserts that the schema has no flaw.
    "lib/tile/add_scale.cpp",
    "lib/exec/cpu/tile_add_scale.cpp",
    "lib/algo/rmsnorm.cpp",
    "lib/algo/planner.cpp",
    "tests/multi/derived/functions.cc",
)
# Whoever walks all operations or all tiles; what else makes and judges plans is in archives.
LINKED = (
    "lib/op/schema.cpp",
    "lib/plan/task_info.cpp",
    "lib/tile/tile_op.cpp",
    "lib/tile/add_scale.cpp",
    "lib/algo/rmsnorm.cpp",
    "lib/algo/planner.cpp",
)
ARCHIVES = ("algo/libsk_algo", "plan/libsk_plan", "tile/libsk_tile_ops", "effect/libsk_effect")
ARCHIVES += ("op/libsk_op", "base/libsk_base")
PROGRAM = """
#include <cstdio>
#include "lib/algo/planner.h"
#include "lib/op/schema.h"
#include "lib/plan/validate.h"
int main() {
  sk::OpDesc op(*sk::schema_of(sk::OpKind::kAddScale));
  for (unsigned i = 0; i < op.schema().operands.size(); ++i)
    op.set(sk::OpDesc::type_field(i), int(sk::DType::kF32));
  for (const char* name : {"m", "n"}) op.set(op.schema().field(name), 700);
  for (unsigned i = 0; i < 3; ++i) op.set(op.schema().stride_field(i), 700);
  sk::Result<sk::Plan> plan = sk::make_plan(op, {.world_size = 1, .workers = 2});
  const sk::Status status = plan.ok() ? sk::validate(plan.value()) : plan.status().clone();
  std::puts(status.message().c_str());
  return status.ok() && plan.value().ranks[0].tasks.size() > 2 ? 0 : 1;
}
"""


def put(tree: Path, name: str, before: str, what: str) -> None:
    """Into a file, in front of a text that it has."""
    path = tree / name
    text = path.read_text()
    assert before in text, f"{name} has no {before}"
    path.write_text(text.replace(before, what + before, 1))


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the sources in which the page was followed."""
    copy = tmp_path_factory.mktemp("tree")
    for name in TREES:
        shutil.copytree(ROOT / name, copy / name)
    blocks = re.findall(r"```cpp\n(.*?)```", PAGE.read_text(), re.DOTALL)
    schema, tile, kernel, plan, planner, formula = blocks
    (copy / "lib/op/ops/add_scale.h").write_text(schema)
    (copy / "lib/tile/add_scale.cpp").write_text(tile)
    (copy / "lib/exec/cpu/tile_add_scale.cpp").write_text(kernel)
    put(copy, "lib/op/op.h", "  // Collective calls that move nothing", "  kAddScale = 17,\n")
    put(copy, "lib/op/ops/all.h", "#define SK_ALL", '#include "lib/op/ops/add_scale.h"\n')
    put(copy, "lib/op/ops/all.h", "  X(kAlloc)", "  X(kAddScale) \\\n")
    put(copy, "lib/plan/task.h", "  kUserFirst", "  kAddScale = 14,\n")
    task = copy / "lib/plan/task.h"
    task.write_text(task.read_text().replace("kTaskOpCount = 14;", "kTaskOpCount = 15;"))
    all_tiles = copy / "lib/tile/all.h"
    lines = "  X(kGemmRaw) \\\n  X(kAddScale)"
    all_tiles.write_text(all_tiles.read_text().replace("  X(kGemmRaw)", lines))
    put(copy, "lib/algo/rmsnorm.cpp", "  Result<Plan> backward()", plan)
    put(copy, "lib/algo/rmsnorm.cpp", "Result<Plan> plan_add_rmsnorm(", planner)
    declaration = (
        "Result<Plan> plan_add_scale(const OpDesc& op, const Target& target, Ranks ranks);"
    )
    put(copy, "lib/algo/ops.h", "Result<Plan> plan_user_tile(", f"{declaration}\n")
    line = "    {OpKind::kAddScale, algo::plan_add_scale},\n"
    put(copy, "lib/algo/planner.cpp", "    {OpKind::kAddRmsnorm", line)
    put(copy, "tests/multi/derived/functions.cc", "}  // namespace\n", f"{formula}\n")
    put(copy, "tests/multi/derived/functions.cc", '{"add", add}', '{"add_scale", add_scale}, ')
    return copy


@pytest.mark.parametrize("name", COMPILED)
def test_what_stands_there_compiles(tree: Path, name: str) -> None:
    command = ["g++", "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Werror", "-DFMT_SHARED"]
    command += [f"-I{tree}", f"-I{tree / 'include'}", str(tree / name)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr


def test_what_is_made_as_it_says_has_a_sound_plan(tree: Path) -> None:
    built = ROOT / "build" / "release" / "lib"
    archives = [built / f"{name}.a" for name in ARCHIVES]
    if not all(archive.is_file() for archive in archives):
        pytest.skip(f"no archives in {built}: the release build makes them")
    main = tree / "main.cpp"
    main.write_text(PROGRAM)
    command = ["g++", "-std=c++20", "-O0", "-DFMT_SHARED", f"-I{tree}", f"-I{tree / 'include'}"]
    command += [str(main), *(str(tree / name) for name in LINKED), *map(str, archives), "-lfmt"]
    done = subprocess.run(
        [*command, "-o", str(tree / "main")], capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr
    ran = subprocess.run([tree / "main"], capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout


def test_every_file_that_it_names_is_there() -> None:
    named = re.findall(r"`((?:lib|tests|tools|bindings|include)/[\w./*-]+)`", PAGE.read_text())
    made = ("add_scale.h", "add_scale.cpp")
    assert len(named) > 15
    missing = [
        name for name in named if not name.endswith(made) and not list(ROOT.glob(name.rstrip("/")))
    ]
    assert missing == []
