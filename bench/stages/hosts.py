"""The transport between hosts: sessions beside plain sockets, all-reduces beside gloo and Open MPI,
and what crosses from host to host, counted.

Hosts are namespaces of this machine, one core for each of two ranks. Links are pairs of devices in
memory, so a stream is bound by what the cores do for it, on both sides, and by nothing else.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

import peers
from measure import results, stats
from measure.goals import Row, size_name
from measure.in_hosts import Hosts, why_not
from measure.launch import LaunchError
from measure.rounds import Bench, Judge, run_rounds, samples, usable

from stages import hosts_programs as programs

SECONDS_MAX = 600.0
TRIP_GOAL, STREAM_GOAL, TLS_GOAL = 1.15, 0.95, 0.9
PEERS = (("gloo", 2.0, "gloo"), ("ompi", 1.0, "Open MPI over TCP"))  # With their goals.
FUSED_GOAL = 1.0
BYTES_GOAL, MESSAGES_GOAL, JOIN_GOAL_S = 1.1, 0.5, 1.0
PUT_SIZES = (64 << 10, 1 << 20)
SIZES = (4 << 10, 32 << 10, 256 << 10, 2 << 20, 16 << 20)
HOSTS, LOCAL = 4, 2  # Where bytes and messages are counted.
COUNTED_BYTES, COUNTED_MESSAGE = 4 << 20, 4 << 10
JOIN_HOSTS, JOIN_LOCAL = 4, 16
WHOLE_MESSAGE_MTU = 65_000  # So that the kernel sends a small message as one packet.

PAIR = "2 hosts x 1 rank"
SHAPES = ("512x512x512", "1024x1024x1024", "2048x256x2048", "1000x777x333")
FULL = programs.Amounts(
    link_batches=40, trips=300, mib=16, batches=12, sizes=SIZES, budget_ms=300, shapes=SHAPES
)
QUICK = programs.Amounts(
    link_batches=3,
    trips=50,
    mib=8,
    batches=2,
    sizes=(4 << 10, 256 << 10),
    budget_ms=20,
    shapes=("256x256x256",),
)


def run(bench: Bench) -> list[Row]:
    """Rounds of what is timed, then what is counted, then meetings."""
    reason = why_not()
    if reason:
        bench.say(f"hosts: {reason}")
        return [Row("hosts", "all", None, "", why=reason)]
    amounts = QUICK if bench.quick else FULL
    rounds, absent = _rounds(bench, amounts)
    timed = Timed(usable(rounds, bench), bench.rounds_least, amounts, absent)
    counted = Counted(bench)
    joined = Joined(bench)
    rows = [*timed.rows(), *counted.rows(), *joined.rows()]
    protocol = {
        "hosts": "network, mount, IPC and UTS namespaces, joined by pairs of devices and a bridge",
        "ranks": "rank r on core r; waits spin, on both sides",
        "trip": f"{amounts.trips} round trips of 8 bytes, behind as many that are not timed:"
        " microseconds each",
        "link_ratios": "of samples taken one behind the other: their median",
        "stream": f"{amounts.mib} MiB, over 4 MiB again and again, until the receiver has said that"
        " it has all: microseconds for a MiB; the plain stream is received at the same place",
        "gcm": "AES-128-GCM by OpenSSL, 16 KiB records, one rank seals while the other opens:"
        " microseconds for a MiB",
        "allreduce": "f32, ordinary memory, inputs rewritten before every call; per call, mean over"
        " ranks; gloo from Python and in place, as torch.distributed has it",
        "fused": "sk_allreduce_gemm() and in turn with it a product of each rank alone and"
        " sk_allreduce() of it: weights packed, C f32",
        "open_mpi": "--mca pml ob1 --mca btl tcp,self; daemons of mpirun enter the hosts",
        "amounts": {name: getattr(amounts, name) for name in amounts.__dataclass_fields__},
    }
    about = {"gloo": peers.TORCH, "ompi": peers.TITLES["ompi"]}
    about |= {name: f"not here: {why}" for name, why in absent.items()}
    document = results.head("hosts", bench, protocol, about)
    document |= {"rounds": results.round_heads(rounds), "figures_us": timed.figures()}
    document |= {"counted": counted.lines, "joined": joined.figures}
    results.write(bench, "hosts", document, rows)
    return rows


def _rounds(bench: Bench, amounts: programs.Amounts) -> tuple[list[dict[str, Any]], dict[str, str]]:
    """And why a peer is not among them."""
    absent: dict[str, str] = {}
    with Hosts(2) as hosts:
        candidates = [programs.link(bench, hosts, amounts)]
        candidates += [programs.libsk(bench, hosts, amounts, tls=tls) for tls in (False, True)]
        candidates.append(programs.fused(bench, hosts, amounts))
        python, absent["gloo"] = programs.torch_python()
        if python is not None:
            candidates.append(programs.gloo(bench, hosts, amounts, python))
        open_mpi = peers.mpi("ompi")
        absent["ompi"] = open_mpi.why if "ompi" in bench.mpis else "left out by --mpis"
        if not absent["ompi"]:
            candidates.append(programs.ompi(bench, hosts, amounts, open_mpi))
        absent = {name: why for name, why in absent.items() if why}
        for name, why in absent.items():
            bench.say(f"hosts: without {name}: {why}")
        settings = {**vars(amounts), **bench.options}
        rounds = run_rounds(
            bench, "hosts", candidates, settings, judge=Judge.NOTHING, seconds_max=SECONDS_MAX
        )
    for entry in rounds:
        absent |= entry["failed"]
    return rounds, absent


@dataclass
class Timed:
    """What the rounds say."""

    rounds: list[dict[str, Any]]
    least: int
    amounts: programs.Amounts
    absent: dict[str, str]

    def of_link(self, case: str) -> list[stats.Visits]:
        return samples(self.rounds, "link", lambda line: line["case"] == case, "us")

    def of_product(self, case: str) -> list[stats.Visits]:
        return samples(self.rounds, "fused", lambda line: line.get("case") == case, "us")

    def of_allreduce(self, who: str, size: int) -> list[stats.Visits]:
        return samples(self.rounds, who, lambda line: line.get("bytes") == size, "us")

    def rows(self) -> list[Row]:
        rows = [self._trip("tcp", TRIP_GOAL), self._trip("tls", None)]
        for size in PUT_SIZES:
            rows += [self._stream(size), self._stream_within_tls(size)]
        for size in self.amounts.sizes:
            # Peers encrypt nothing, so goals are for libsk without TLS. What it does by itself
            # stands beside them.
            for peer, goal, name in PEERS:
                plain = f"x {name}, neither encrypted"
                rows.append(self._allreduce(size, "libsk", peer, goal, plain))
                within = f"x {name}, which does not encrypt"
                rows.append(self._allreduce(size, "libsk tls", peer, None, within))
            rows.append(self._allreduce(size, "libsk", "libsk tls", None, "x itself within TLS"))
        rows += [self._fused(case) for case in self._products()]
        return rows

    def _row(
        self, row: Row, ours: list[stats.Visits], other: list[stats.Visits], peer: str = ""
    ) -> Row:
        """Times faster than the other."""
        c = stats.compare_if(ours, other, self.least)
        if c is None:
            return replace(row, why=self.absent.get(peer, "too few rounds of both"))
        noise = "" if c.proven else ", within the noise"
        spread = f"{c.low:.2f}-{c.high:.2f} over {c.rounds} rounds, A/A {c.aa:.1%}{noise}"
        ours_us, other_us = (stats.median(stats.pooled(visits)) for visits in (ours, other))
        return replace(
            row,
            measured=c.ratio,
            spread=spread,
            why=f"{ours_us:.1f} us to {other_us:.1f} us",
            proven=c.proven,
        )

    def _in_turn(self, row: Row, ours: list[stats.Visits], other: list[stats.Visits]) -> Row:
        """The median of the ratios of samples that were taken one behind the other: what others
        take of the cores for longer than that falls on both."""
        both = bool(ours and other)
        pairs = list(zip(stats.pooled(ours), stats.pooled(other), strict=both))
        if len(self.rounds) < self.least or not pairs:
            return replace(row, why="too few rounds of both")
        ratios = [a / b if row.at_most else b / a for a, b in pairs]
        low, high = (stats.quantile(ratios, share) for share in (0.25, 0.75))
        ours_us, other_us = (stats.median(each) for each in zip(*pairs, strict=True))
        return replace(
            row,
            measured=stats.median(ratios),
            spread=f"{low:.2f}-{high:.2f} over {len(pairs)} pairs of {len(self.rounds)} rounds",
            why=f"{ours_us:.1f} us to {other_us:.1f} us",
        )

    def _trip(self, how: str, goal: float | None) -> Row:
        row = Row(f"round trip by {how}, {PAIR}", "8 B", goal, "x plain socket", at_most=True)
        return self._in_turn(row, self.of_link(f"trip, {how}"), self.of_link("trip, plain"))

    def _stream(self, size: int) -> Row:
        name = f"stream of {size >> 10} KiB"
        row = Row(f"stream of puts by tcp, {PAIR}", size_name(size), STREAM_GOAL, "x plain socket")
        return self._in_turn(row, self.of_link(f"{name}, tcp"), self.of_link(f"{name}, plain"))

    def _stream_within_tls(self, size: int) -> Row:
        """The bar is one after the other on one core: what both take for a MiB, added."""
        name = f"stream of {size >> 10} KiB"
        bar = added(self.of_link(f"{name}, plain"), self.of_link("gcm, sealed"))
        unit = "x plain socket and AES-GCM in turn"
        row = Row(f"stream of puts by tls, {PAIR}", size_name(size), TLS_GOAL, unit)
        return self._in_turn(row, self.of_link(f"{name}, tls"), bar)

    def _allreduce(self, size: int, who: str, peer: str, goal: float | None, unit: str) -> Row:
        area = "all-reduce f32 within TLS" if who == "libsk tls" else "all-reduce f32"
        row = Row(f"{area}, {PAIR}", size_name(size), goal, unit)
        return self._row(row, self.of_allreduce(who, size), self.of_allreduce(peer, size), peer)

    def _products(self) -> list[str]:
        return [f"{dtype} {shape}" for dtype in programs.DTYPES for shape in self.amounts.shapes]

    def _fused(self, case: str) -> Row:
        row = Row(
            f"product with all-reduce, {PAIR}", case, FUSED_GOAL, "x product, then all-reduce"
        )
        return self._in_turn(row, self.of_product(f"{case} fused"), self.of_product(f"{case} pair"))

    def figures(self) -> dict[str, Any]:
        """For the result file: summaries with samples."""
        ways = ("plain", "tcp", "tls")
        cases = [f"trip, {how}" for how in ways]
        cases += [f"stream of {size >> 10} KiB, {how}" for size in PUT_SIZES for how in ways]
        cases += ["gcm, sealed", "gcm, opened"]
        all_figures = {case: self.of_link(case) for case in cases}
        for who in ("libsk", "libsk tls", "gloo", "ompi"):
            for size in self.amounts.sizes:
                all_figures[f"all-reduce of {size_name(size)}, {who}"] = self.of_allreduce(
                    who, size
                )
        for case in self._products():
            for how in ("fused", "pair"):
                all_figures[f"{case} {how}"] = self.of_product(f"{case} {how}")
        return {name: results.summary(visits) for name, visits in all_figures.items() if visits}


def added(a: list[stats.Visits], b: list[stats.Visits]) -> list[stats.Visits]:
    """Sample by sample, which were taken in turn."""

    def both(x: Any, y: Any) -> list[float]:
        return [one + other for one, other in zip(x, y, strict=True)]

    return [(both(x[0], y[0]), both(x[1], y[1])) for x, y in zip(a, b, strict=bool(a and b))]


@dataclass
class Counted:
    """What leaves hosts, by their devices' and sockets' counters."""

    bench: Bench
    lines: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: str = ""

    def __post_init__(self) -> None:
        calls = 5 if self.bench.quick else 20
        worlds = (
            ("bytes", HOSTS, LOCAL, 1500, COUNTED_BYTES),
            ("messages", HOSTS, LOCAL, WHOLE_MESSAGE_MTU, COUNTED_MESSAGE),
            ("messages, flat", HOSTS * LOCAL, 1, WHOLE_MESSAGE_MTU, COUNTED_MESSAGE),
        )
        for name, n, local, mtu, size in worlds:
            try:
                with Hosts(n, mtu=mtu) as hosts:
                    places = [host for host in hosts for _ in range(local)]
                    self.lines[name] = programs.counts(self.bench, places, [size], calls)
            except LaunchError as error:
                self.failed = str(error)
                self.bench.say(f"hosts: {name} are not counted: {error}")

    def rows(self) -> list[Row]:
        area = f"all-reduce f32, {HOSTS} hosts x {LOCAL} ranks"
        least = 2 * (HOSTS - 1) / HOSTS * COUNTED_BYTES
        unit = "x 2(H-1)/H*S bytes from a host"
        of_bytes = Row(area, size_name(COUNTED_BYTES), BYTES_GOAL, unit, at_most=True)
        unit = "x messages of flat"
        of_messages = Row(area, size_name(COUNTED_MESSAGE), MESSAGES_GOAL, unit, at_most=True)
        if self.failed:
            return [replace(row, why=self.failed) for row in (of_bytes, of_messages)]
        most = max(line["sent_bytes"] for line in self.lines["bytes"])
        ours = crossing(self.lines["messages"], 1)
        flat = crossing(self.lines["messages, flat"], LOCAL)
        why = f"{ours:.0f} messages, flat {flat:.0f}"
        return [
            replace(of_bytes, measured=most / least, why=f"{most:.0f} of {least:.0f} bytes"),
            replace(of_messages, measured=ours / flat, why=why),
        ]


def crossing(lines: list[dict[str, Any]], per_group: int) -> float:
    """Messages of a call between groups of so many hosts, each of which stands for one."""
    total = 0.0
    for line in lines:
        own = line["rank"] // per_group if per_group > 1 else None
        for address, segments in line["segments"].items():
            host = int(address.rsplit(".", 1)[1]) - 1
            if own is None or host // per_group != own:
                total += segments
    return total


@dataclass
class Joined:
    """How long many ranks take to connect that are all there."""

    bench: Bench
    figures: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        local, times = (4, 1) if self.bench.quick else (JOIN_LOCAL, 5)
        self.ranks = JOIN_HOSTS * local
        with Hosts(JOIN_HOSTS) as hosts:
            places = [host for host in hosts for _ in range(local)]
            for _ in range(times):
                for name in ("tls", "tcp"):
                    try:
                        found = programs.join(self.bench, places, tls=name == "tls")
                        self.figures.setdefault(name, []).append(found)
                    except LaunchError as error:
                        self.failed[name] = str(error)
                        self.bench.say(f"hosts: {self.ranks} ranks by {name}: {error}")

    def rows(self) -> list[Row]:
        rows = []
        for name, goal in (("tls", JOIN_GOAL_S), ("tcp", JOIN_GOAL_S)):
            area = f"join of {self.ranks} ranks by {name}, {JOIN_HOSTS} hosts"
            row = Row(area, "all are there", goal, "s", at_most=True)
            all_s = [each["join_s"] for each in self.figures.get(name, [])]
            if not all_s:
                rows.append(replace(row, why=self.failed.get(name, "nothing was measured")))
                continue
            spread = f"{min(all_s):.2f}-{max(all_s):.2f} of {len(all_s)}"
            rows.append(replace(row, measured=stats.median(all_s), spread=spread))
        return rows
