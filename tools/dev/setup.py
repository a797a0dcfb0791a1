"""What a verb needs from outside the repository: Debian packages and the Python environment."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
from pathlib import Path

from shell import BUILD, ROOT, DevError, output_of, run, say

VENV = BUILD / "venv"
PYTHON = VENV / "bin" / "python"
REQUIREMENTS = ROOT / "requirements"
LISTS = {
    "demo": ["demo"],
    "test": ["demo", "test"],
    "check": ["check"],
    "asan": [],
    "tsan": [],
    "bench": ["demo"],
}


def read_packages(text: str, verb: str) -> list[str]:
    """The packages of packages.txt that `verb` needs: the untagged, and those tagged @verb."""
    names = []
    for raw in text.splitlines():
        name, *tags = raw.split("#")[0].split() or [""]
        if name and (not tags or f"@{verb}" in tags):
            names.append(name)
    return names


def missing_packages(names: list[str]) -> list[str]:
    """Those of `names` that dpkg does not know as installed."""
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${db:Status-Status} ${Package}\n", *names],
        capture_output=True,
        text=True,
        timeout=60,
    )  # Exits 1 when a name is unknown, which is just what "missing" means.
    installed = {
        line.split()[1] for line in done.stdout.splitlines() if line.startswith("installed ")
    }
    return [name for name in names if name not in installed]


def _as_root(command: list[str]) -> list[str]:
    if os.geteuid() == 0:
        return command
    if shutil.which("sudo") is None:
        raise DevError(f"not root and no sudo; as root, run: {' '.join(command)}")
    return ["sudo", *command]


def install_packages(verb: str) -> None:
    """Installs what packages.txt names for `verb` and dpkg lacks; nothing when all is there."""
    if shutil.which("dpkg-query") is None:
        raise DevError("this is no Debian (no dpkg); install what packages.txt names by hand")
    missing = missing_packages(read_packages((ROOT / "packages.txt").read_text(), verb))
    if not missing:
        return
    say(f"missing Debian packages: {' '.join(missing)}")
    env = {"DEBIAN_FRONTEND": "noninteractive"}
    install = _as_root(["apt-get", "-y", "--no-install-recommends", "install", *missing])
    # Package lists may be absent (a bare machine) or old; ask for new ones only when that shows.
    if run(install, "apt-get install", env=env, may_fail=True) != 0:
        run(_as_root(["apt-get", "update"]), "apt-get update", env=env)
        run(install, "apt-get install, second try", env=env)


def list_key(path: Path) -> str:
    """Changes when the list, a pin or the interpreter does."""
    digest = hashlib.sha256()
    for part in (path, REQUIREMENTS / "pins.txt"):
        digest.update(part.read_bytes())
    digest.update(os.path.realpath("/usr/bin/python3").encode())
    return digest.hexdigest()


def install_environment(verb: str) -> None:
    """Puts the lists of requirements/ that `verb` needs into build/venv, those that changed.

    One environment for all verbs, for they share most of it. Whatever bench compares with is large
    and is bench's own business.
    """
    if not PYTHON.exists():
        run(["/usr/bin/python3", "-m", "venv", VENV], "making the Python environment")
    keys = {name: list_key(REQUIREMENTS / f"{name}.txt") for name in LISTS[verb]}
    stamps = {name: VENV / f"key-{name}" for name in keys}
    stale = [n for n in keys if not stamps[n].exists() or stamps[n].read_text() != keys[n]]
    if not stale:
        return
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    wanted = [part for name in stale for part in ("-r", REQUIREMENTS / f"{name}.txt")]
    run([*pip, "-c", REQUIREMENTS / "pins.txt", *wanted], "installing Python packages")
    # A package that came without a pin would make this machine differ from the next.
    unpinned = set(_installed()) - set(_pinned()) - {"libsk", "pip", "setuptools"}
    if unpinned:
        raise DevError(f"requirements/pins.txt lacks {', '.join(sorted(unpinned))}")
    for name in stale:
        stamps[name].write_text(keys[name])


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pinned() -> list[str]:
    lines = (REQUIREMENTS / "pins.txt").read_text().splitlines()
    return [_canonical(line.split("==")[0]) for line in lines if "==" in line]


def _installed() -> list[str]:
    listed = output_of([PYTHON, "-m", "pip", "list", "--format=freeze"])
    return [_canonical(line.split("==")[0]) for line in listed.splitlines() if "==" in line]


def setup(verb: str) -> None:
    """Packages first, for the environment needs python3-venv."""
    install_packages(verb)
    install_environment(verb)
