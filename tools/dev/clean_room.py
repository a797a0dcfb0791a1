"""./dev clean-room: a command in a bare Debian 12, to see that nothing is assumed."""

from __future__ import annotations

import os
from pathlib import Path

from setup import install_packages
from shell import BUILD, ROOT, DevError, run

DEFAULT_COMMAND = ["./dev", "demo", "&&", "./dev", "test"]


APT = "apt-get -q -y --no-install-recommends install"


def clean_room(command: list[str], *, carry: Path | None = None) -> int:
    """Clones HEAD into a debootstrap folder under build/ and runs `command` in it.

    The file `carry` is put into the clone's build/.
    """
    if os.geteuid() != 0:
        raise DevError("a clean room is a chroot, and making one needs root")
    install_packages("clean-room")
    script = ROOT / "tools" / "clean_room.sh"
    options = ["--carry", carry] if carry else []
    words = [script, *options, BUILD / "clean-room", *(command or DEFAULT_COMMAND)]
    return run(words, "clean room", stream=True, may_fail=True, timeout_s=7200.0)


def stranger(wheel: Path) -> int:
    """Tries a wheel as tests/wheel does, where there is first only Python, then also a compiler."""
    newcomer = f"python3 tests/wheel/newcomer.py build/{wheel.name} /root/newcomer"
    steps = ("apt-get -q update", f"{APT} python3-venv", f"{newcomer} python")
    steps += (f"{APT} gcc libc6-dev pkg-config cmake make", f"{newcomer} c")
    return clean_room([" && ".join(steps)], carry=wheel)
