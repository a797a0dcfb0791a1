"""What the stage of hosts runs: ours, gloo and Open MPI, each rank in its host."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers
from measure.in_hosts import Host, Hosts, as_rank, json_lines_of
from measure.launch import Area
from measure.rounds import Bench, Candidate

from stages import mpi

NET = Path(__file__).resolve().parent.parent / "net"
TORCH_LAYER = NET.parent.parent / "build" / "venv-torch" / "bin" / "python"
LIMIT_S = 180.0

_ports = itertools.count(29700)


@dataclass(frozen=True)
class Amounts:
    """How much of everything."""

    link_batches: int  # Of everything that one link has: short ones, in turn.
    trips: int  # In such a batch.
    mib: int  # Of a stream in such a batch.
    batches: int  # Of an all-reduce of one size.
    sizes: tuple[int, ...]  # Of an all-reduce, in bytes.
    budget_ms: int  # Of an all-reduce of one size, in all batches.
    shapes: tuple[str, ...]  # Of a product with an all-reduce, M x N x K, in both types.

    @property
    def of_allreduce(self) -> list[str]:
        return [",".join(map(str, self.sizes)), str(self.budget_ms), str(self.batches)]


def program(bench: Bench, name: str) -> str:
    """Of ours."""
    return str(bench.build / "net" / name)


def link(bench: Bench, hosts: Hosts, amounts: Amounts) -> Candidate:
    """Sessions beside a plain socket, in one program."""
    words = [str(n) for n in (amounts.link_batches, amounts.trips, amounts.mib)]

    def visit() -> list[dict[str, Any]]:
        port = str(next(_ports))

        def command(rank: int) -> list[str]:
            return [program(bench, "hosts_link_bench"), str(rank), hosts[0].ip4, port, *words]

        return json_lines_of(list(hosts), command, lambda _: {}, LIMIT_S)

    return Candidate("link", visit)


def libsk(bench: Bench, hosts: Hosts, amounts: Amounts, *, tls: bool) -> Candidate:
    """sk_allreduce()."""

    def visit() -> list[dict[str, Any]]:
        with Area(bench.scratch) as area:

            def command(rank: int) -> list[str]:
                own = [program(bench, "hosts_allreduce_bench"), area, str(rank), str(len(hosts))]
                return [*own, *amounts.of_allreduce]

            return json_lines_of(
                list(hosts), command, lambda _: {"SK_NET_TLS": str(int(tls))}, LIMIT_S
            )

    return Candidate("libsk tls" if tls else "libsk", visit)


DTYPES = ("f32", "bf16")


def fused(bench: Bench, hosts: Hosts, amounts: Amounts) -> Candidate:
    """sk_allreduce_gemm() beside a product and sk_allreduce(), in one program."""
    how = [",".join(amounts.shapes), ",".join(DTYPES), str(amounts.budget_ms), str(amounts.batches)]

    def visit() -> list[dict[str, Any]]:
        with Area(bench.scratch) as area:

            def command(rank: int) -> list[str]:
                own = [program(bench, "hosts_fused_bench"), area, str(rank), str(len(hosts))]
                return [*own, *how]

            return json_lines_of(list(hosts), command, lambda _: {"SK_NET_TLS": "0"}, LIMIT_S)

    return Candidate("fused", visit)


def torch_python() -> tuple[Path | None, str]:
    """An interpreter that has torch; else None, and where it was looked for."""
    own = peers.torch_python()
    if own is not None:
        return own, ""
    if TORCH_LAYER.exists():
        return TORCH_LAYER, ""
    return None, "torch is neither in build/peers/torch nor in build/venv-torch"


def gloo(bench: Bench, hosts: Hosts, amounts: Amounts, python: Path) -> Candidate:
    """torch.distributed.all_reduce(), on the interface of the hosts."""

    def visit() -> list[dict[str, Any]]:
        port = str(next(_ports))
        with Area(bench.scratch) as area:

            def command(rank: int) -> list[str]:
                own = [str(python), "-B", str(NET / "gloo_allreduce.py"), area, str(rank)]
                return [*own, str(len(hosts)), hosts[0].ip4, port, *amounts.of_allreduce]

            lines = json_lines_of(
                list(hosts), command, lambda _: {"GLOO_SOCKET_IFNAME": "sk0"}, LIMIT_S
            )
        return mean_over_ranks(lines)

    return Candidate("gloo", visit)


def mean_over_ranks(lines: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """One line for each batch, as the harness's rank 0 prints it."""
    found: dict[tuple[int, int], list[dict[str, Any]]] = {}
    for line in lines:
        found.setdefault((line["bytes"], line["batch"]), []).append(line)
    merged = []
    for (size, _), each in found.items():
        us = [sum(calls) / len(each) for calls in zip(*(line["us"] for line in each), strict=True)]
        merged.append({"case": each[0]["case"], "bytes": size, "us": us})
    return merged


AGENT = """#!/bin/sh
# Starts what mpirun wants to have on another host: enters that instead of using ssh.
host=$1
shift
case $host in
{cases}
*) echo "no host is called $host" >&2; exit 1;;
esac
exec nsenter --target=$pid --all -- sh -c "$*"
"""


def agent(scratch: Path, hosts: Hosts) -> Path:
    """The script, for mpirun in one of the hosts: processes have the numbers that those see."""
    cases = "\n".join(f"{host.name}|{host.ip4}) pid={number_inside(host)};;" for host in hosts)
    path = scratch / "launch-agent"
    path.write_text(AGENT.format(cases=cases))
    path.chmod(0o755)
    return path


def number_inside(host: Host) -> int:
    """Of the process that holds the host's namespaces, as all hosts of one world see it."""
    for line in Path(f"/proc/{host.holder}/status").read_text().splitlines():
        if line.startswith("NSpid:"):
            return int(line.split()[2])
    raise RuntimeError(f"/proc/{host.holder}/status has no NSpid")


def ompi(bench: Bench, hosts: Hosts, amounts: Amounts, peer: peers.Peer) -> Candidate:
    """MPI_Allreduce() of Open MPI over TCP; one mpirun, whose ranks are in the hosts."""
    built = mpi.build(bench, peer, "allreduce_mpi.c")
    launcher = agent(bench.scratch, hosts)
    names = ",".join(f"{host.name}:1" for host in hosts)
    launch = [peer.launch[0], "--prtemca", "plm_ssh_agent", str(launcher), "--host", names]
    launch += ["-n", str(len(hosts)), "--map-by", "ppr:1:node", "--bind-to", "none"]
    launch += ["--mca", "pml", "ob1", "--mca", "btl", "tcp,self", str(built)]

    def visit() -> list[dict[str, Any]]:
        with Area(bench.scratch) as area:
            command = [*launch, area, *amounts.of_allreduce, "3000", "0"]
            return json_lines_of([hosts[0]], lambda _: command, lambda _: peer.env, LIMIT_S)

    return Candidate("ompi", visit)


def counts(bench: Bench, places: Sequence[Host], sizes: Sequence[int], calls: int) -> list[dict]:
    """What all ranks of one world count, in their order."""
    port = next(_ports)
    listed = ",".join(map(str, sizes))
    command = [program(bench, "hosts_counts_bench"), listed, str(calls)]
    return json_lines_of(
        places,
        lambda _: command,
        lambda rank: {**as_rank(places, rank, port), "SK_NET_TLS": "0"},
        LIMIT_S,
    )


def join(bench: Bench, places: Sequence[Host], *, tls: bool) -> dict[str, Any]:
    """Rank 0's figures of a world: how long all take to make a communicator that are there."""
    port = next(_ports)
    lines = json_lines_of(
        places,
        lambda _: [program(bench, "world_bench"), "1"],
        lambda rank: {**as_rank(places, rank, port), "SK_NET_TLS": str(int(tls))},
        LIMIT_S,
    )
    return lines[0]
