"""What a verb needs from outside the repository: Debian packages and the Python environment."""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
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
    "cuda": ["sass"],
    "gpu": [],
    "wheel": ["demo"],
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


def as_root(command: list[str]) -> list[str]:
    """The command as it must be given for root's rights; root's is given as it is."""
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
    install = as_root(["apt-get", "-y", "--no-install-recommends", "install", *missing])
    # Package lists may be absent (a bare machine) or old; ask for new ones only when that shows.
    if run(install, "apt-get install", env=env, may_fail=True) != 0:
        run(as_root(["apt-get", "update"]), "apt-get update", env=env)
        run(install, "apt-get install, second try", env=env)


def stands_alone(name: str) -> bool:
    """Whether the suite `name` has pins of its own, that is: packages of another age."""
    return (REQUIREMENTS / f"pins-{name}.txt").exists()


def _pins(name: str) -> Path:
    return REQUIREMENTS / (f"pins-{name}.txt" if stands_alone(name) else "pins.txt")


def list_key(name: str) -> str:
    """Changes when the list, a pin or the interpreter does."""
    digest = hashlib.sha256()
    for part in (REQUIREMENTS / f"{name}.txt", _pins(name)):
        digest.update(part.read_bytes())
    digest.update(os.path.realpath("/usr/bin/python3").encode())
    return digest.hexdigest()


def install_environment(verb: str) -> None:
    """Puts the lists of requirements/ that `verb` needs into build/venv, those that changed.

    One environment for all verbs, for they share most of it. Whatever bench compares with is large
    and is bench's own business.
    """
    install_lists(VENV, LISTS[verb])


def layer(name: str) -> Path:
    """Where the environment of the suite `name` lies, if it has one of its own."""
    return BUILD / f"venv-{name}"


def has_layer(name: str) -> bool:
    """Whether that environment was ever made; install_layer() brings it up to date."""
    return (layer(name) / f"key-{name}").exists()


def install_layer(name: str) -> None:
    """Puts requirements/NAME.txt into an environment of its own that sees build/venv beneath it.

    So what is large, or of use to one suite only, is neither in build/venv nor is build/venv there
    twice. What stands alone sees nothing beneath it.
    """
    venv = layer(name)
    make_environment(venv)
    if not stands_alone(name):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        packages = Path("lib") / version / "site-packages"
        (venv / packages / "beneath.pth").write_text(f"{VENV / packages}\n")
        _show_labextensions(venv)
    install_lists(venv, [name])


def _show_labextensions(venv: Path) -> None:
    """JupyterLab looks for a package's part of the page in its own environment only."""
    folder = venv / "etc" / "jupyter"
    folder.mkdir(parents=True, exist_ok=True)
    below = str(VENV / "share" / "jupyter" / "labextensions")
    config = {"LabApp": {"extra_labextensions_path": [below]}}
    (folder / "jupyter_lab_config.json").write_text(json.dumps(config))


def make_environment(venv: Path, python: str | Path = "/usr/bin/python3") -> None:
    """An empty one of `python`, unless it is there."""
    if not (venv / "bin" / "python").exists():
        run([python, "-m", "venv", venv], f"making the Python environment {venv.name}")


def _stale_lists(venv: Path, names: list[str]) -> list[str]:
    stamps = {name: venv / f"key-{name}" for name in names}
    return [
        name
        for name, stamp in stamps.items()
        if not stamp.exists() or stamp.read_text() != list_key(name)
    ]


def install_lists(venv: Path, names: list[str]) -> None:
    """Installs those of the lists that `venv` has not, or not as they are now; all of one age."""
    make_environment(venv)
    stale = _stale_lists(venv, names)
    if not stale:
        return
    pip = [venv / "bin" / "python", "-m", "pip", "--disable-pip-version-check", "install"]
    wanted = [part for name in stale for part in ("-r", REQUIREMENTS / f"{name}.txt")]
    pins = _pins(stale[0])
    run([*pip, "-c", pins, *wanted], f"installing {', '.join(stale)} packages")
    # A package that came without a pin would make this machine differ from the next.
    unpinned = set(_installed(venv)) - set(_pinned(pins)) - {"libsk", "pip", "setuptools"}
    if unpinned:
        raise DevError(f"{pins.relative_to(ROOT)} lacks {', '.join(sorted(unpinned))}")
    for name in stale:
        (venv / f"key-{name}").write_text(list_key(name))


def _canonical(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _pinned(pins: Path) -> list[str]:
    lines = pins.read_text().splitlines()
    return [_canonical(line.split("==")[0]) for line in lines if "==" in line]


def _installed(venv: Path) -> list[str]:
    listed = output_of([venv / "bin" / "python", "-m", "pip", "list", "--format=freeze"])
    return [_canonical(line.split("==")[0]) for line in listed.splitlines() if "==" in line]


def setup(verb: str) -> None:
    """Packages first, for the environment needs python3-venv."""
    install_packages(verb)
    install_environment(verb)
