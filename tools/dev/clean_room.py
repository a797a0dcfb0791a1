"""./dev clean-room: a command in a bare Debian 12, to see that nothing is assumed."""

from __future__ import annotations

import os

from setup import install_packages
from shell import BUILD, ROOT, DevError, run

DEFAULT_COMMAND = ["./dev", "demo", "&&", "./dev", "test"]


def clean_room(command: list[str]) -> int:
    """Clones HEAD into a debootstrap folder under build/ and runs `command` in it."""
    if os.geteuid() != 0:
        raise DevError("a clean room is a chroot, and making one needs root")
    install_packages("clean-room")
    script = ROOT / "tools" / "clean_room.sh"
    words = [script, BUILD / "clean-room", *(command or DEFAULT_COMMAND)]
    return run(words, "clean room", stream=True, may_fail=True, timeout_s=7200.0)
