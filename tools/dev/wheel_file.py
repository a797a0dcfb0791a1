"""Wheels as files: several interpreters' in one, and what is looked at before one is given away."""

from __future__ import annotations

import base64
import hashlib
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from carried import stem
from shell import DevError

MODULE = "libsk/_core."
SELF_DESCRIBED = ("WHEEL", "RECORD")


def _is_of_interpreter(name: str) -> bool:
    return name.startswith(MODULE) and name.endswith(".so")


def _is_self_described(name: str) -> bool:
    folder, _, file = name.partition("/")
    return folder.endswith(".dist-info") and file in SELF_DESCRIBED


def join(wheels: Sequence[Path], out: Path, licenses: Mapping[str, bytes]) -> Path:
    """One wheel with the extension modules of all, which must be alike in all other files."""
    parts = [path.stem.split("-") for path in wheels]
    (package, version, _, _, platform) = parts[0]
    pythons, abis = (".".join(dict.fromkeys(part[at] for part in parts)) for at in (2, 3))
    out.mkdir(parents=True, exist_ok=True)
    joined = out / f"{package}-{version}-{pythons}-{abis}-{platform}.whl"
    with zipfile.ZipFile(joined, "w", zipfile.ZIP_DEFLATED) as to:
        described = ""
        written: dict[str, bytes] = {}
        for path in wheels:
            with zipfile.ZipFile(path) as one:
                for info in one.infolist():
                    data = one.read(info)
                    if info.filename.endswith(".dist-info/WHEEL"):
                        described = described or _without_tags(data.decode())
                    elif _is_self_described(info.filename) or written.get(info.filename) == data:
                        continue
                    elif info.filename in written:
                        raise DevError(f"{info.filename} differs from wheel to wheel; {path.name}")
                    elif path == wheels[0] or _is_of_interpreter(info.filename):
                        to.writestr(info, data)
                        written[info.filename] = data
                    else:
                        raise DevError(f"only {path.name} holds {info.filename}")
        tags = "".join(f"Tag: {part[2]}-{part[3]}-{part[4]}\n" for part in parts)
        folder = f"{package}-{version}.dist-info"
        added = {f"{folder}/WHEEL": (described + tags).encode()}
        added |= {f"{folder}/licenses/{name}": text for name, text in licenses.items()}
        for name, data in added.items():
            to.writestr(name, data)
        to.writestr(f"{folder}/RECORD", _record(written | added, f"{folder}/RECORD"))
    return joined


def _record(files: Mapping[str, bytes], own: str) -> str:
    lines = []
    for name, data in files.items():
        digest = base64.urlsafe_b64encode(hashlib.sha256(data).digest()).rstrip(b"=").decode()
        lines.append(f"{name},sha256={digest},{len(data)}\n")
    return "".join(lines) + f"{own},,\n"


def _without_tags(text: str) -> str:
    lines = [line for line in text.splitlines() if line and not line.startswith("Tag:")]
    return "".join(f"{line}\n" for line in lines)


def check(path: Path, carried: Sequence[str]) -> None:
    """DevError unless it carries just these libraries, whose licences it was given."""
    with zipfile.ZipFile(path) as wheel:
        names = [name for name in wheel.namelist() if name.startswith("libsk.libs/")]
    found = sorted(stem(name.split("/")[1]) for name in names if not name.endswith("/"))
    if found != sorted(carried):
        raise DevError(f"{path.name} carries {', '.join(found)}; expected: {', '.join(carried)}")
