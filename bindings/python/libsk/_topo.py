"""Topologies: cores, memory, GPUs and network adapters of the machines."""

from __future__ import annotations

from collections.abc import Callable

from libsk import _core
from libsk._checks import text_of


class Topo:
    """What one or more machines look like. Immutable; :func:`topo` gives this machine's.

    A number is 0 where the source does not tell it.
    """

    def __init__(self, handle: _core.Topo) -> None:
        self._handle = handle
        summary = handle.summary()
        self.hosts: int = summary["hosts"]
        """How many machines; the other numbers are of all of them."""
        self.sockets: int = summary["sockets"]
        """Packages of processors."""
        self.numa_nodes: int = summary["numa_nodes"]
        """Places of memory."""
        self.cores: int = summary["cores"]
        """Cores, each with one hardware thread or more."""
        self.threads: int = summary["threads"]
        """Hardware threads."""
        self.gpus: int = summary["gpus"]
        """GPUs on the PCI bus; no driver is asked."""
        self.nics: int = summary["nics"]
        """Network adapters on the PCI bus."""
        self.memory_bytes: int = summary["memory_bytes"]
        """Of all NUMA nodes."""

    @classmethod
    def parse(cls, text: str) -> Topo:
        """From :meth:`dump`'s text, hwloc's XML (lstopo) or NCCL's XML (NCCL_TOPO_DUMP_FILE).

        It takes the text itself, not a file's name. Where that is wrong ``InvalidArgumentError``
        has line and column.
        """
        return cls(_core.topo_parse(text_of(text, "text", "a topology's text")))

    @classmethod
    def synthetic(cls, spec: str) -> Topo:
        """Machines by their numbers: ``"hosts:2 numa:2 cores:8 gpus:4 nics:2"``, per host.

        ``sockets``, ``threads`` (of a core) and ``memory`` (GiB of a NUMA node) may be said, too.
        """
        return cls(_core.topo_synthetic(text_of(spec, "spec", 'a text, "cores:8"')))

    def dump(self) -> str:
        """The graph as text, which :meth:`parse` reads back."""
        return self._handle.dump()

    def __reduce__(self) -> tuple[Callable[[str], Topo], tuple[str]]:
        return Topo.parse, (self.dump(),)

    def __repr__(self) -> str:
        return f"<libsk.Topo: {self.hosts} host(s), {self.cores} cores, {self.gpus} GPUs>"


def topo() -> Topo:
    """This machine, as this process sees it; each call looks anew, and starts no GPU runtime."""
    return Topo(_core.topo_discover())
