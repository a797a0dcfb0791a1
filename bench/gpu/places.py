"""Where a machine has what a visit uses but does not bring: cuBLASLt, NVIDIA's checker."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

# torch's wheels: nvidia/cublas/lib for CUDA 12, nvidia/cu13/lib for CUDA 13.
IN_WHEELS = ("nvidia/*/lib/libcublasLt.so.1[0-9]", "torch/lib/libcublasLt.so.1[0-9]")
IN_TOOLKITS = ("lib64/libcublasLt.so.1[0-9]", "targets/*/lib/libcublasLt.so.1[0-9]")
IN_SYSTEMS = ("/usr/lib/*/libcublasLt.so.1[0-9]", "/usr/lib64/libcublasLt.so.1[0-9]")
TOOLKITS = "/usr/local/cuda*"
SANITIZER = "compute-sanitizer"


def _glob(pattern: str) -> list[Path]:
    """Of an absolute pattern; the newest version first."""
    return sorted(Path("/").glob(pattern.lstrip("/")), reverse=True)


def packages(search: Iterable[str], programs: str) -> Iterator[Path]:
    """Folders of Python packages: those of this Python, then those of others in `programs`.

    `programs` is a PATH. A Python that is another one than this may be the one that has torch.
    """
    yield from (Path(each) for each in search if each)
    for folder in programs.split(os.pathsep):
        program = Path(folder) / "python3"
        if not folder or not program.exists():
            continue
        # Of a virtual environment that is the folder itself; of a system's, where the link leads.
        for prefix in dict.fromkeys((program.parent.parent, program.resolve().parent.parent)):
            yield from sorted(prefix.glob("lib/python3*/*-packages"))


def find_cublaslt(
    search: Iterable[str] | None = None, programs: str | None = None, toolkits: str = TOOLKITS
) -> Path | None:
    """The library, in wheels first: theirs is the one that torch's own products come from."""
    search = sys.path if search is None else search
    programs = os.environ.get("PATH", "") if programs is None else programs
    for folder in packages(search, programs):
        for pattern in IN_WHEELS:
            found = sorted(folder.glob(pattern), reverse=True) if folder.is_dir() else []
            if found:
                return found[0]
    for pattern in (*(f"{toolkits}/{each}" for each in IN_TOOLKITS), *IN_SYSTEMS):
        if found := _glob(pattern):
            return found[0]
    return None


def find_sanitizer(toolkits: str = TOOLKITS) -> str | None:
    """compute-sanitizer, in PATH or in a toolkit."""
    found = shutil.which(SANITIZER)
    if found:
        return found
    inside = [
        *_glob(f"{toolkits}/bin/{SANITIZER}"),
        *_glob(f"{toolkits}/compute-sanitizer/{SANITIZER}"),
    ]
    return str(inside[0]) if inside else None
