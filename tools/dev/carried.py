"""Which libraries the wheel carries, where they come from, and under which licences."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from setup import VENV
from shell import BUILD, DevError

# Beside glibc: these are on every Linux of a tag's age, and a second copy of them in one process
# would do harm.
OF_SYSTEM = re.compile(
    r"(linux-vdso|libc|libm|libdl|librt|libpthread|libresolv|ld-linux[-\w]*|libstdc\+\+|libgcc_s)\.so.*"
)
LDD_LINE = re.compile(r"^\s*(\S+) => (.*?)(?: \(0x[0-9a-f]+\))?$", re.MULTILINE)
COMMON = re.compile(r"/usr/share/common-licenses/([\w.-]*\w)")
DOC = Path("/usr/share/doc")


@dataclass(frozen=True)
class Carried:
    """Libraries by the names that programs ask for; what goes before the system's folders."""

    paths: dict[str, Path]
    before_system: Path

    def names(self) -> list[str]:
        return sorted(stem(name) for name in self.paths)

    def licenses(self) -> dict[str, bytes]:
        """Files and texts: of each library, and what these texts only refer to."""
        texts: dict[str, bytes] = {}
        for path in self.paths.values():
            texts |= licenses_of(path)
        named = {name for text in texts.values() for name in COMMON.findall(text.decode())}
        for name in sorted(named):
            texts[f"common-licenses/{name}"] = Path("/usr/share/common-licenses", name).read_bytes()
        return {f"carried/{name}": text for name, text in texts.items()}


def stem(name: str) -> str:
    """A library's name without its number and without what a wheel's maker put into it."""
    return re.sub(r"-[0-9a-f]{8}(?=[.-]|$)", "", name.split(".so")[0])


def _zmq_libraries() -> Path:
    """A folder where `libzmq.so.5` is the one that PyPI's pyzmq carries, and what that needs.

    Debian's brings Kerberos, NORM and PGM along: 2.4 MB of protocols that no notebook speaks.
    """
    folder = BUILD / "wheel" / "before-system"
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    for path in VENV.glob("lib/python3*/site-packages/pyzmq.libs/*.so*"):
        (folder / path.name).symlink_to(path)
        if stem(path.name) == "libzmq":
            (folder / "libzmq.so.5").symlink_to(path)
    if not (folder / "libzmq.so.5").exists():
        raise DevError(f"{VENV} has no pyzmq that carries libzmq.so.5")
    return folder


def library_path(libraries: Carried) -> str:
    """For tools that look for libraries as the loader does."""
    return str(libraries.before_system)


def needed(program: Path, before_system: Path) -> dict[str, Path]:
    """What `program` needs that is not the system's; DevError where something is not found."""
    env = {"PATH": "/usr/bin:/bin", "LD_LIBRARY_PATH": str(before_system)}
    done = subprocess.run(["ldd", program], capture_output=True, text=True, timeout=60, env=env)
    if done.returncode != 0:
        raise DevError(f"ldd {program} failed: {done.stderr.strip()}")
    found = {}
    for name, where in LDD_LINE.findall(done.stdout):
        if where == "not found":
            raise DevError(f"{program} needs {name}, which is not found")
        if not OF_SYSTEM.fullmatch(name):
            found[name] = Path(where)
    return found


def carried_libraries(prefix: Path) -> Carried:
    """Of all programs and libraries that are installed below `prefix`."""
    before_system = _zmq_libraries()
    paths: dict[str, Path] = {}
    for program in (*prefix.glob("bin/*"), *prefix.rglob("*.so.*")):
        if not program.is_symlink():
            paths |= needed(program, before_system)
    # The name by which it is asked for, and the file's own, are one library.
    once = {os.path.realpath(path): name for name, path in sorted(paths.items())}
    return Carried({name: Path(path) for path, name in once.items()}, before_system)


def licenses_of(library: Path) -> dict[str, bytes]:
    """Of a library that a package of Debian or of PyPI brought."""
    if library.is_relative_to(VENV.resolve()):
        folder = next(library.parents[1].glob("pyzmq-*.dist-info")) / "licenses"
        texts = {path: f"pyzmq/{path.name}" for path in folder.rglob("*") if path.is_file()}
        if not texts:
            raise DevError(f"{folder} holds no licence of {library.name}")
        return {name: path.read_bytes() for path, name in texts.items()}
    # dpkg knows files by the folder they were put in, which may since be a link.
    plain = str(library).removeprefix("/usr")
    for path in (f"/usr{plain}", plain):
        done = subprocess.run(
            ["dpkg-query", "-S", path], capture_output=True, text=True, timeout=60
        )
        if done.returncode == 0:
            package = done.stdout.split(":")[0]
            return {f"{package}.txt": (DOC / package / "copyright").read_bytes()}
    raise DevError(f"no Debian package brought {library}, so its licence is not known")
