"""Checks the house's rules of entry: who may include and link whom.

usage: check_layers.py [ROOT]   (prints one line per violation; exit status 1 when there is any)

The rules (README's map of the house shows the rooms):
 1. A file includes its own room or rooms of a lower level, never a sibling or a higher room.
 2. CUDA headers only under cuda/, verbs headers only under transport/{rdma,verbs,efa}/, socket
    headers nowhere under lib/; clocks and threads not in the rooms that must be deterministic.
 3. A room's target links only targets of lower rooms, and whatever a file includes, its target
    links, directly or through others.
 4. Concrete backends are named by lib/api/backends.cpp alone (and by tests, tools and benchmarks).
 5. Bindings and examples see the C ABI only.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

# Room (the longest matching prefix of a path) and its level. Equal levels are siblings.
LEVELS = {
    "include": 0,
    "lib/base": 1,
    "lib/plan/packed.h": 1,  # A rule that device code follows too.
    "lib/plan/task.h": 1,  # Plain data that device code reads too.
    "lib/record": 2,  # What a process writes of its calls, and what others read of it.
    "lib/op": 2,
    "lib/topo": 2,
    "transport": 2,  # The contracts: session, capabilities, memory.
    "transport/bootstrap": 2,
    "lib/effect": 3,  # What operations and tiles mean.
    "lib/tile": 4,
    "lib/plan": 5,
    "transport/stream": 3,  # The protocol over streams of bytes; no socket, clock or thread.
    "transport/tls": 4,
    "transport/shm": 5,
    "transport/tcp": 5,
    "transport/fault": 5,
    "transport/local": 5,  # Byte links and processes of one host; no session of ranks.
    "transport/sim": 5,
    "transport/cudaipc": 5,
    "transport/nccl": 5,
    "transport/rdma": 5,
    "transport/verbs": 6,
    "transport/efa": 6,
    "lib/algo": 6,
    "lib/exec": 6,
    "lib/control": 6,
    "lib/control/host": 7,  # Drives the core with real links, processes and time.
    "lib/exec/cpu/tile": 7,
    "lib/exec/cpu": 8,
    "lib/exec/sim": 8,
    "lib/comm": 7,
    "lib/api": 9,
    "cuda": 10,
    "cuda/kernel/task_record.h": 2,  # Plain data that host and device share,
    "cuda/kernel/image.h": 4,  # as is this.
    "cuda/watch/records.h": 2,
    "cuda/driver": 2,
    "cuda/mem": 5,
    "cuda/exec": 8,  # The host's side of GPUs; libsk has it, the kernels (level 10) it loads.
    "tools": 10,
    "tools/sk_kernel": 11,  # The notebook front end, a room of its own above the table of verbs.
    "tools/sk_status": 12,  # Reads flight records, and prints tables as the front end does.
    "tools/sk_doctor": 12,  # Looks at all that is below, the front end's kernelspecs too.
    "tests/support": 11,
    "tests": 13,
    "bench": 11,
    "bench/gpu": 14,  # Stands on what takes a GPU's place in tests.
}
C_ABI_ONLY = ("bindings", "examples")
SOURCES = {".c", ".cc", ".cpp", ".h", ".hpp", ".cu", ".cuh"}

CUDA_HEADER = re.compile(
    r"^(cuda|cuda_\w+|nvml|nccl|cublas\w*|device_launch_parameters)\.h$|^cuda/"
)
VERBS_HEADER = re.compile(r"^(infiniband|rdma)/")
SOCKET_HEADER = re.compile(r"^(sys/(socket|un)\.h|netinet/|arpa/inet\.h|netdb\.h|net/if\.h)")
CLOCK_HEADER = re.compile(r"^(thread|chrono|ctime|time\.h|pthread\.h|random)$")
VERBS_ROOMS = ("transport/rdma", "transport/verbs", "transport/efa")
DETERMINISTIC = ("lib/op", "lib/topo", "lib/effect", "lib/tile", "lib/plan", "lib/algo")

BACKENDS = re.compile(
    r"^(transport/(?!(bootstrap|local|stream|tls)/)\w+|lib/exec/(cpu|sim)|cuda/exec)/"
)
BACKEND_USERS = ("lib/api/backends.cpp", "tests/", "tools/", "bench/", "cuda/")

UNKNOWN = "?"
INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*(["<])([^">]+)[">]', re.MULTILINE)
ROOM_CALL = re.compile(r"\bsk_room\(\s*(\w+)([^)]*)\)")
LINK_CALL = re.compile(r"\btarget_link_libraries\(\s*(\w+)([^)]*)\)")


def room_of(path: str) -> str | None:
    """The room that a path of the repository lies in; None outside the house."""
    fitting = [room for room in LEVELS if path == room or path.startswith(room + "/")]
    return max(fitting, key=len, default=None)


@dataclass(frozen=True)
class Include:
    """One #include line."""

    file: str
    line: int
    header: str
    quoted: bool

    def __str__(self) -> str:
        return f"{self.file}:{self.line}: {self.header}"


class House:
    """The files and CMake targets under one root."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self.targets: dict[str, str] = {}  # Target name to the room of its CMakeLists.txt.
        self.links: dict[str, set[str]] = {}
        self._read_targets()

    def _files(self, top: str, names: set[str]) -> Iterator[Path]:
        for path in sorted((self.root / top).rglob("*")):
            if path.is_file() and (path.suffix in names or path.name in names):
                yield path

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.root).as_posix()

    def _read_targets(self) -> None:
        tops = sorted({room.split("/")[0] for room in LEVELS})
        texts = [
            (path, path.read_text())
            for top in tops
            for path in self._files(top, {"CMakeLists.txt"})
        ]
        for path, text in texts:
            for name, arguments in ROOM_CALL.findall(text):
                self.targets[name] = room_of(self._relative(path)) or UNKNOWN
                listed = arguments.split("LINKS", 1)[1] if "LINKS" in arguments else ""
                self.links.setdefault(name, set()).update(listed.split())
        for _, text in texts:
            for name, arguments in LINK_CALL.findall(text):
                if name in self.targets:
                    self.links[name].update(arguments.split())

    def reachable(self, name: str) -> set[str]:
        """Targets that `name` links, directly or through others, and itself."""
        seen: set[str] = set()
        todo = [name]
        while todo:
            each = todo.pop()
            if each not in seen:
                seen.add(each)
                todo += [link for link in self.links.get(each, ()) if link in self.targets]
        return seen

    def includes(self) -> Iterator[Include]:
        """Every #include of the house, its bindings and examples."""
        tops = sorted({room.split("/")[0] for room in LEVELS} | set(C_ABI_ONLY))
        for top in tops:
            for path in self._files(top, SOURCES):
                text = path.read_text()
                for match in INCLUDE.finditer(text):
                    line = text.count("\n", 0, match.start()) + 1
                    yield Include(self._relative(path), line, match[2], match[1] == '"')

    def resolve(self, include: Include) -> str | None:
        """The repository's path that an include names; None for a system header."""
        candidates = [include.header, f"include/{include.header}"]
        if include.quoted and include.file.startswith(C_ABI_ONLY):
            # Projects of their own, which know no path from this repository's root.
            candidates.append((Path(include.file).parent / include.header).as_posix())
        for candidate in candidates:
            # A schema's header is generated: control.capnp stands for control.capnp.h.
            source = candidate.removesuffix(".h") if candidate.endswith(".capnp.h") else candidate
            if (self.root / source).is_file():
                return candidate
        return None


def check_system_header(include: Include) -> Iterator[str]:
    """Rule 2."""
    file, header = include.file, include.header
    if CUDA_HEADER.match(header) and not file.startswith("cuda/"):
        yield f"{include}: CUDA headers are for cuda/ only"
    if VERBS_HEADER.match(header) and not file.startswith(VERBS_ROOMS):
        yield f"{include}: verbs headers are for {', '.join(VERBS_ROOMS)} only"
    if SOCKET_HEADER.match(header) and file.startswith("lib/"):
        yield f"{include}: lib/ includes no socket header; transport/ does"
    if CLOCK_HEADER.match(header) and file.startswith(DETERMINISTIC):
        yield f"{include}: this room takes clock, threads and randomness from its caller"


def check_own_header(include: Include, target: str) -> Iterator[str]:
    """Rules 1, 4 and 5 for an include that names a file of the repository."""
    file = include.file
    if file.startswith(C_ABI_ONLY):
        own = file.split("/")[0]
        if not target.startswith(("include/", own + "/")):
            yield f"{include}: {own}/ sees the C ABI (include/) only"
        return
    room, other = room_of(file), room_of(target)
    if room is None or other is None:
        yield f"{include}: {file if room is None else target} lies in no room of check_layers.py"
    elif room != other and LEVELS[other] >= LEVELS[room]:
        relation = "its sibling" if LEVELS[other] == LEVELS[room] else "the higher room"
        yield f"{include}: {room} (level {LEVELS[room]}) must not include {relation} {other}"
    backend = BACKENDS.match(target)
    inside = backend is not None and file.startswith(backend[0].rsplit("/", 1)[0] + "/")
    if backend is not None and not inside and not file.startswith(BACKEND_USERS):
        yield f"{include}: only lib/api/backends.cpp names a concrete backend"


def check_links(house: House) -> Iterator[str]:
    """Rule 3, first half."""
    for name, room in house.targets.items():
        if room == UNKNOWN:
            yield f"target {name}: its folder is no room of check_layers.py"
            continue
        for link in sorted(house.links[name]):
            other = house.targets.get(link)
            if other in (None, room, UNKNOWN):
                continue
            if LEVELS[other] >= LEVELS[room]:
                yield f"target {name} ({room}, level {LEVELS[room]}) must not link {link} ({other})"


def check_linked(house: House, include: Include, target: str) -> Iterator[str]:
    """Rule 3, second half: what a room's file includes, one of the room's targets links."""
    room, other = room_of(include.file), room_of(target)
    mine = [name for name, where in house.targets.items() if where == room]
    theirs = {name for name, where in house.targets.items() if where == other}
    # Tools, tests and benchmarks are programs beside rooms; their linker says what they lack.
    if (
        room == other
        or not mine
        or not theirs
        or not include.file.startswith(("lib/", "transport/"))
    ):
        return
    if not any(theirs & house.reachable(name) for name in mine):
        yield f"{include}: {' and '.join(mine)} links no target of {other}"


def violations(root: Path) -> list[str]:
    """Every breach under `root`, one sentence each."""
    house = House(root)
    found = list(check_links(house))
    for include in house.includes():
        target = house.resolve(include)
        if target is None:
            if include.quoted:
                message = "quoted, but no file of the repository (give the path from its root)"
                found.append(f"{include}: {message}")
            found += check_system_header(include)
        else:
            found += check_own_header(include, target)
            found += check_linked(house, include, target)
    return found


def main() -> int:
    """Prints the violations."""
    root = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).resolve().parents[1]
    found = violations(root)
    print("\n".join(found) if found else "layers: every include and link goes downwards")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
