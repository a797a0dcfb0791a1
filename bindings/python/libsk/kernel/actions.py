"""What the front end asks every language to do: host name, facts for ``%info``, a reset."""

from __future__ import annotations

import json
import os
import platform
import socket
from collections.abc import Callable
from importlib import metadata
from typing import TYPE_CHECKING, Any

from libsk import _core
from libsk.kernel import magics, mime, seeds

if TYPE_CHECKING:
    from libsk.kernel.shell import RankShell

FACTS = "application/vnd.superkernel.facts+json"

_MAGIC = "magic "
"""And the name as it is typed: whether there is such a one."""
_SEED = "seed "
"""And the seed of rank 0."""

_PACKAGES = ("numpy", "torch", "jax", "cupy", "ipython")
"""Told with their versions where they are installed."""


def run(worker: _core.Worker, shell: RankShell, name: str) -> BaseException | None:
    """Does the action of this name; its exception, or None."""
    shell.last_traceback = []
    try:
        if name.startswith(_MAGIC):
            magics.require(shell, name.removeprefix(_MAGIC))
            return None
        if name.startswith(_SEED):
            seeds.choose(int(name.removeprefix(_SEED)), shell.own_names["rank"])
            return None
        action = _ACTIONS.get(name)
        if action is None:
            raise ValueError(f"Python ranks know no action {name!r}")
        action(worker, shell)
    except (Exception, KeyboardInterrupt) as error:  # noqa: BLE001 - the cell's error.
        return error
    return None


def facts() -> dict[str, Any]:
    """The machine as this rank sees it, and versions; nothing is imported for them."""
    found: dict[str, Any] = json.loads(_core.host_facts())
    devices = os.environ.get("CUDA_VISIBLE_DEVICES")
    if devices is not None:
        found["cuda_visible_devices"] = devices
    versions = {"libsk": _version_of("libsk"), "python": platform.python_version()}
    versions.update({package: _version_of(package) for package in _PACKAGES})
    found["versions"] = {name: version for name, version in versions.items() if version}
    return found


def _version_of(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _hostname(worker: _core.Worker, shell: RankShell) -> None:
    print(socket.gethostname())


def _facts(worker: _core.Worker, shell: RankShell) -> None:
    bundle = {FACTS: json.dumps(facts(), sort_keys=True)}
    worker.display(mime.DISPLAY_DATA, mime.bundle_of(bundle), None)


def _reset(worker: _core.Worker, shell: RankShell) -> None:
    shell.reset(new_session=False)


_ACTIONS: dict[str, Callable[[_core.Worker, RankShell], None]] = {
    "facts": _facts,
    "hostname": _hostname,
    "reset": _reset,
}
