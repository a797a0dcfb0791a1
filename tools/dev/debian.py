"""Debian packages that the machine itself does not get: of another release, or processor.

Nothing below /etc/apt changes: apt gets settings, lists and archives in a folder of build/.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from shell import DevError, output_of

QUIET = {"DEBIAN_FRONTEND": "noninteractive"}


def apt_get(folder: Path, options: Mapping[str, object]) -> list[str]:
    """apt-get with lists and archives in `folder`, and these settings."""
    lists, archives = folder / "lists", folder / "archives"
    for each in (lists / "partial", archives / "partial"):
        each.mkdir(parents=True, exist_ok=True)
    settings = {
        "Dir::State::lists": lists,
        "Dir::Cache::archives": archives,
        "DPkg::Lock::Timeout": 120,
        "APT::Sandbox::User": "root",  # The folder may be closed to apt's own user.
        **options,
    }
    return ["apt-get", *(f"-o{name}={value}" for name, value in settings.items())]


def mirror() -> str:
    """Where this machine gets Debian from, as apt reads its sources."""
    form = "$(REPO_URI) $(RELEASE) $(COMPONENT)"
    # Also where no list of packages was loaded yet, as on a bare machine.
    asked = ["apt-get", "indextargets", "--no-release-info", "--format", form]
    listed = output_of([*asked, "Created-By: Packages"])
    for line in listed.splitlines():
        address, release, component = line.split()
        # Of its releases the one without -security and -updates is on a mirror of everything.
        if component == "main" and "-" not in release and "debian" in address:
            return address
    raise DevError("apt's sources name no mirror of Debian; install what is missing by hand")
