"""Julia for the suites that need it: the machine's own, or Debian 11's, which Debian 12 has not.

Nothing below /etc/apt changes: apt gets the machine's sources, and Debian 11's beside them at a
priority that replaces no package of Debian 12, from a folder of build/.
"""

from __future__ import annotations

import shlex
import shutil
import subprocess
from pathlib import Path

import debian
from setup import as_root
from shell import BUILD, DevError, run, say

HOME = BUILD / "julia"
WRAPPER = HOME / "bin" / "julia"
SUITE = "bullseye"
KEYRING = Path("/usr/share/keyrings/debian-archive-keyring.gpg")
COSTS = "Julia 1.5 from the Debian 11 suite: 60 MB to load, 250 MB on disk"

# An exception through compiled code: Debian 11's Julia dies of it beside Debian 12's libunwind.
PROBE = """
thrown(x) = try error("x") catch; x end
exit(VERSION >= v"1.5" && thrown(7) == 7 ? 0 : 1)
"""


def works(julia: Path) -> bool:
    """Whether it is new enough and survives an exception."""
    command = [str(julia), "--startup-file=no", "-e", PROBE]
    try:
        done = subprocess.run(command, capture_output=True, timeout=120, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def find() -> Path | None:
    """The program to run, if there is one that works."""
    on_path = shutil.which("julia")
    for each in (WRAPPER, Path(on_path) if on_path else None):
        if each is not None and each.exists() and works(each):
            return each
    return None


def install() -> Path:
    """Sees to it that there is one; nothing when there is."""
    found = find()
    if found is not None:
        return found
    if shutil.which("apt-get") is None:
        raise DevError("this is no Debian (no apt-get); install Julia 1.5 or later by hand")
    if {" ", ":"} & set(str(HOME)):  # They part the names in LD_PRELOAD.
        raise DevError(f"{HOME} has a space or a colon, which LD_PRELOAD cannot have; move it")
    apt = _apt()
    run([*apt, "update"], "apt-get update for Julia", env=debian.QUIET)
    packages = [*apt, "-y", "--no-install-recommends", "install", "julia"]
    run(as_root(packages), "installing Julia", env=debian.QUIET)
    _write_wrapper(_unpacked(apt, "libunwind8", "libunwind.so.8"))
    if not works(WRAPPER):
        raise DevError(
            f"{WRAPPER} does not survive an exception; install Julia 1.5 or later by hand, so that"
            " `julia` is found on PATH"
        )
    return WRAPPER


def _apt() -> list[str]:
    """apt-get with the sources of this machine and Debian 11's."""
    if not KEYRING.exists():
        raise DevError(f"{KEYRING} is missing; install debian-archive-keyring, then try again")
    folder = HOME / "apt"
    parts = folder / "sources"
    parts.mkdir(parents=True, exist_ok=True)
    etc = Path("/etc/apt")
    own = [etc / "sources.list", *(etc / "sources.list.d").glob("*")]
    for each in own:
        if each.is_file() and each.suffix in (".list", ".sources"):
            shutil.copy(each, parts / each.name)
    (parts / "sk-julia.sources").write_text(
        f"Types: deb\nURIs: {debian.mirror()}\nSuites: {SUITE}\nComponents: main\n"
        f"Signed-By: {KEYRING}\n"
    )
    pins = etc / "preferences"
    kept = pins.read_text() + "\n" if pins.exists() else ""
    pin = f"Package: *\nPin: release n={SUITE}\nPin-Priority: 50\n"
    (folder / "preferences").write_text(kept + pin)
    return debian.apt_get(
        folder,
        {
            "Dir::Etc::sourcelist": "/dev/null",
            "Dir::Etc::sourceparts": parts,
            "Dir::Etc::preferences": folder / "preferences",
        },
    )


def _unpacked(apt: list[str], package: str, library: str) -> Path:
    """The library of Debian 11's package, for Julia alone: the system's stays what it is."""
    folder = HOME / package
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    run(
        [*apt, "download", f"{package}/{SUITE}"], f"loading {package}", cwd=folder, env=debian.QUIET
    )
    (archive,) = folder.glob("*.deb")
    run(["dpkg-deb", "-x", archive, folder], f"unpacking {package}")
    found = sorted(folder.rglob(library))
    if not found:
        raise DevError(f"{archive.name} holds no {library}")
    return found[0]


def _write_wrapper(library: Path) -> None:
    WRAPPER.parent.mkdir(parents=True, exist_ok=True)
    made = WRAPPER.with_suffix(".new")
    made.write_text(
        "#!/bin/sh\n"
        "# Debian 11's Julia with the libunwind that it was built with.\n"
        f"LD_PRELOAD={shlex.quote(str(library))}${{LD_PRELOAD:+:$LD_PRELOAD}}\n"
        "export LD_PRELOAD\n"
        'exec /usr/bin/julia "$@"\n'
    )
    made.chmod(0o755)
    made.replace(WRAPPER)
    say(f"Julia: {WRAPPER}")
