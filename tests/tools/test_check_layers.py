"""Each rule of entry: a house that keeps it passes, one planted breach is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import check_layers
import pytest

ROOT = Path(__file__).resolve().parents[2]
Plant = Callable[[dict[str, str]], Path]

SOUND = {
    "include/sk/base.h": "#include <stdint.h>\n",
    "lib/base/CMakeLists.txt": "sk_room(sk_base SOURCES a.cpp LINKS fmt::fmt)",
    "lib/base/a.h": '#include "sk/base.h"\n',
    "lib/base/a.cpp": '#include "lib/base/a.h"\n#include <sys/mman.h>\n#include <chrono>\n',
    "lib/op/CMakeLists.txt": "sk_room(sk_op SOURCES op.cpp LINKS sk_base)",
    "lib/op/op.h": '#include "lib/base/a.h"\n',
    "lib/topo/CMakeLists.txt": "sk_room(sk_topo SOURCES t.cpp LINKS sk_base)",
    "lib/topo/t.h": '#include "lib/base/a.h"\n',
    "lib/plan/CMakeLists.txt": "sk_room(sk_plan SOURCES p.cpp)\n"
    "target_link_libraries(sk_plan PUBLIC sk_op)",
    "lib/plan/task.h": "#include <cstdint>\n",
    "lib/plan/p.cpp": '#include "lib/op/op.h"\n#include "lib/base/a.h"\n',
    "lib/plan/q.cpp": '#include "lib/plan/task.h"\n',
    "lib/exec/cpu/w.h": "#include <thread>\n",
    "transport/session.h": '#include "lib/base/a.h"\n#include "lib/plan/task.h"\n',
    "transport/shm/s.h": '#include "transport/session.h"\n',
    "transport/tcp/s.cpp": "#include <sys/socket.h>\n",
    "transport/verbs/v.cpp": "#include <infiniband/verbs.h>\n",
    "cuda/exec/e.h": "",
    "cuda/k.cu": "#include <cuda_runtime.h>\n",
    "lib/control/CMakeLists.txt": "sk_room(sk_control SOURCES c.cpp LINKS sk_base)",
    "lib/control/control.capnp": "",
    "lib/control/c.cpp": '#include "lib/control/control.capnp.h"\n',
    "lib/api/backends.cpp": '#include "transport/shm/s.h"\n#include "lib/exec/cpu/w.h"\n',
    "bindings/python/m.cpp": '#include <sk.h>\n#include "own.h"\n',
    "bindings/python/own.h": "",
    "include/sk.h": '#include "sk/base.h"\n',
}


def test_the_sound_house_passes(plant: Plant) -> None:
    assert check_layers.violations(plant(SOUND)) == []


def test_this_repository_passes() -> None:
    assert check_layers.violations(ROOT) == []


BREACHES = {
    "a higher room": ("lib/base/a.cpp", '#include "lib/op/op.h"', "higher room lib/op"),
    "a sibling": ("lib/op/x.cpp", '#include "lib/topo/t.h"', "its sibling lib/topo"),
    "a sibling transport": ("transport/tcp/x.h", '#include "transport/shm/s.h"', "its sibling"),
    "the C ABI looking inside": (
        "include/sk/x.h",
        '#include "lib/base/a.h"',
        "higher room lib/base",
    ),
    "task.h looking up": ("lib/plan/task.h", '#include "lib/op/op.h"', "higher room lib/op"),
    "a relative path": ("lib/op/x.h", '#include "../base/a.h"', "no file of the repository"),
    "a folder of no room": ("lib/new/x.h", '#include "lib/base/a.h"', "no room"),
    "CUDA in lib": ("lib/exec/x.cpp", "#include <cuda_runtime.h>", "for cuda/ only"),
    "NVML in transport": ("transport/shm/x.cpp", "# include <nvml.h>", "for cuda/ only"),
    "verbs in shm": ("transport/shm/x.cpp", "#include <infiniband/verbs.h>", "verbs headers"),
    "a socket in lib": ("lib/control/x.cpp", "#include <sys/socket.h>", "no socket header"),
    "a clock in a planner": ("lib/algo/x.cpp", "#include <chrono>", "takes clock"),
    "a thread in a plan": ("lib/plan/x.cpp", "  #include <thread>", "takes clock"),
    "a backend by name": ("lib/api/comm.cpp", '#include "transport/shm/s.h"', "names a concrete"),
    "an executor by name": ("lib/api/comm.cpp", '#include "lib/exec/cpu/w.h"', "names a concrete"),
    "a GPU's executor by name": (
        "lib/api/comm.cpp",
        '#include "cuda/exec/e.h"',
        "names a concrete",
    ),
    "a binding looking inside": ("bindings/python/x.cpp", '#include "lib/base/a.h"', "C ABI"),
    "an include that is not linked": (
        "lib/control/x.cpp",
        '#include "lib/plan/p.h"',
        "links no target of lib/plan",
    ),
}


@pytest.mark.parametrize("name", BREACHES)
def test_a_planted_include_is_named(plant: Plant, name: str) -> None:
    file, line, message = BREACHES[name]
    root = plant({**SOUND, "lib/plan/p.h": "\n", file: "// A reason.\n" + line + "\n"})
    found = check_layers.violations(root)
    assert any(text.startswith(f"{file}:2: ") and message in text for text in found), found


@pytest.mark.parametrize("call", ["sk_room(sk_base SOURCES a.cpp LINKS sk_op)", "upward later"])
def test_a_link_upwards_is_named(plant: Plant, call: str) -> None:
    if call == "upward later":
        call = "sk_room(sk_base SOURCES a.cpp)\ntarget_link_libraries(sk_base PRIVATE sk_op)"
    found = check_layers.violations(plant({**SOUND, "lib/base/CMakeLists.txt": call}))
    assert any("target sk_base" in text and "must not link sk_op" in text for text in found)


def test_a_target_outside_the_house_is_named(plant: Plant) -> None:
    found = check_layers.violations(plant({**SOUND, "lib/new/CMakeLists.txt": "sk_room(sk_new)"}))
    assert found == ["target sk_new: its folder is no room of check_layers.py"]
