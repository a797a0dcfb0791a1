"""Hosts of one machine: namespaces, and links between them that lose, delay and can be cut.

    with Hosts(2, seed=7, links=Link(loss=0.01)) as hosts:
        a, b = hosts
        a.run(["ping", "-c", "1", b.name])
        hosts.cut(a, b)

A host has its own network (`sk0` and a loopback), /dev/shm, /tmp, System V IPC, name, boot id and
/sys, if asked its own process numbers and clocks; the rest of the files it shares with this
machine, this checkout too where that lies below /tmp. No packet leaves the machine, for no host has
a route to anywhere else.

All of it lives in one process namespace, the world, whose first process ends when this one does:
then the kernel ends what is in it, and with that the devices and mounts, which nobody else can see.
"""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import shutil
import subprocess
import time
import unittest
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from host_program import Program
from processes import descendants

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SK_BUILD_DIR", ROOT / "build" / "release"))
EMULATOR = BUILD / "tests" / "net" / "sk_link_emulator"
ENV = {**os.environ, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin"}
HOSTS_MAX = 250
QUEUE_PACKETS = 10_000  # In a device, for an emulator that is kept from running.
LIMIT_S = 60.0  # For any one step; all take far less.
Command = Sequence[str | Path]


class NoHostsError(unittest.SkipTest):
    """This machine cannot have such hosts, as it says; a test that needs them is skipped."""


@dataclass(frozen=True)
class Link:
    """What the emulated links do from the start: see Settings in tests/net/fate.h."""

    loss: float = 0
    duplicate: float = 0
    reorder: float = 0
    corrupt: float = 0
    corrupt_unseen: float = 0
    delay_us: int = 0
    jitter_us: int = 0
    reorder_us: int = 2000
    rate_kbit: int = 0
    queue_packets: int = 4096
    packet_bytes: int = 65535


def why_not(*, clocks: bool = False) -> str:
    """Why this machine cannot have such hosts, in one sentence; "" where it can."""
    if os.geteuid() != 0:
        return "hosts are made of namespaces and devices, for which one must be root"
    for program in ("ip", "mount", "nsenter", "unshare"):
        if shutil.which(program, path=ENV["PATH"]) is None:
            return f"there is no {program}; Debian has it in iproute2, mount or util-linux"
    spaces = ["--net", "--mount", "--ipc", "--uts", "--pid", "--fork", "--mount-proc"]
    spaces += ["--time", "--monotonic=1"] if clocks else []
    steps = [f"ip link add name {kind} type {kind}" for kind in ("veth", "bridge")]
    steps += ["ip tuntap add dev tun mode tun", "mount -t sysfs sysfs /sys"]
    script = "\n".join([*steps, "test -e /proc/net/if_inet6"])
    done = subprocess.run(
        ["unshare", *spaces, "sh", "-ec", script],
        env=ENV,
        capture_output=True,
        text=True,
        timeout=LIMIT_S,
    )
    said = done.stderr.strip() or "it has no IPv6"
    return "" if done.returncode == 0 else f"this kernel refuses what hosts are made of: {said}"


class _Lines:
    """What a process says, line by line, and no wait without an end."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        self._process = process
        self._fd = process.stdout.fileno()
        self._text = b""

    def until(self, *last: str) -> list[str]:
        """All lines up to one that starts with one of these."""
        lines: list[str] = []
        deadline = time.monotonic() + LIMIT_S
        while not (lines and lines[-1].startswith(last)):
            line, newline, rest = self._text.partition(b"\n")
            if newline:
                lines.append(line.decode())
                self._text = rest
                continue
            left = max(0.0, deadline - time.monotonic())
            ready = select.select([self._fd], [], [], left)[0]
            more = os.read(self._fd, 65536) if ready else b""
            if not more:
                said = "\n".join([*lines, self._text.decode()]).strip()
                state = "has ended" if ready else f"is silent for {LIMIT_S:.0f} s"
                raise RuntimeError(f"{self._process.args!r} {state}; it said: {said}")
            self._text += more
        return lines


class Host:
    """One of the hosts; Hosts makes it."""

    def __init__(self, number: int, holder: int) -> None:
        self.number = number
        self.name = name_of(number)
        self.ip4, self.ip6 = addresses_of(number)
        self.holder = holder  # A process that has its namespaces and does nothing.
        self.programs: list[Program] = []

    def popen(self, command: Command, **options: Any) -> Program:
        """A program in this host; options are Popen's. It ends at the latest with the hosts."""
        options = {"env": ENV, "cwd": ROOT, "stdin": subprocess.DEVNULL, **options}
        program = Program(self.holder, [str(word) for word in command], **options)
        self.programs.append(program)
        return program

    def run(
        self, command: Command, *, check: bool = True, timeout: float = LIMIT_S, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        """Waits for a program; an exit status other than 0 fails with what it said."""
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
        program = self.popen(command, **pipes, **options)
        try:
            out, err = program.communicate(timeout=timeout)
        except subprocess.TimeoutExpired:
            program.kill()
            out, err = program.communicate(timeout=LIMIT_S)
            raise RuntimeError(f"{command} in {self.name} ran {timeout} s: {out}{err}") from None
        if check and program.returncode != 0:
            status = program.returncode
            raise RuntimeError(f"{command} in {self.name} ended with {status}: {out}{err}")
        return subprocess.CompletedProcess(list(command), program.returncode, out, err)


def _end(process: subprocess.Popen[Any]) -> None:
    """Waits for a process that ends with its input, or for what the end of the world has ended."""
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(OSError):  # What could not be written is wanted no more.
                pipe.close()
    try:
        process.wait(LIMIT_S)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(LIMIT_S)


def name_of(number: int) -> str:
    """A host's name, which all hosts can resolve."""
    return f"h{number}"


def addresses_of(number: int) -> tuple[str, str]:
    """A host's addresses of IPv4 and IPv6."""
    return f"10.77.0.{number + 1}", f"fd77::{number + 1:x}"


class Hosts:
    """Makes `n` hosts on entry, and leaves nothing of them on exit.

    With `links` their network is emulated (tests/net): faults come from `seed`, and cut(), set()
    and stats() work. Without, it is the kernel's own bridge. `clocks_s` moves each host's
    CLOCK_MONOTONIC and CLOCK_BOOTTIME by so many seconds. Raises NoHostsError where this machine
    cannot have such hosts.
    """

    def __init__(
        self,
        n: int,
        seed: int = 1,
        links: Link | None = None,
        *,
        own_pids: bool = False,
        clocks_s: Sequence[int] = (),
        mtu: int = 1500,
    ) -> None:
        if not 1 <= n <= HOSTS_MAX:
            raise ValueError(f"n is {n}; 1 to {HOSTS_MAX} hosts can be had")
        if clocks_s and len(clocks_s) != n:
            raise ValueError(f"clocks_s has {len(clocks_s)} values for {n} hosts")
        if links and n < 2:
            raise ValueError("links join at least two hosts")
        self.seed = seed
        self._n = n
        self._links = links
        self._own_pids = own_pids
        self._clocks_s = clocks_s
        self._mtu = mtu
        self._hosts: list[Host] = []
        self._world = 0  # The process whose end is the end of all.
        self._processes: list[subprocess.Popen[bytes]] = []  # The world's comes first.
        self._emulator: subprocess.Popen[bytes] | None = None
        self._answers: _Lines | None = None

    def __len__(self) -> int:
        return len(self._hosts)

    def __iter__(self) -> Iterator[Host]:
        return iter(self._hosts)

    def __getitem__(self, number: int) -> Host:
        return self._hosts[number]

    def __enter__(self) -> Hosts:
        if reason := why_not(clocks=bool(self._clocks_s)):
            raise NoHostsError(reason)
        with contextlib.ExitStack() as undo:
            undo.callback(self.close)
            self._make()
            undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Ends all that runs in the hosts, and with that the hosts; returns when it is gone."""
        programs = [each for host in self for each in host.programs]
        for program in programs:
            program.kill_if_stopped()
        for process in self._processes:
            _end(process)
        for program in programs:
            _end(program)
        self._processes.clear()
        self._hosts.clear()
        self._emulator = self._answers = None

    def cut(self, a: Host, b: Host | None = None, *, one_way: bool = False) -> None:
        """Lets nothing through from a to b (None: to any), nor back unless `one_way`.

        What is under way is lost, too: after this call nothing more arrives.
        """
        self._say(f"cut {self._ends(a, b, one_way)}")

    def restore(self, a: Host, b: Host | None = None, *, one_way: bool = False) -> None:
        """Ends a cut."""
        self._say(f"restore {self._ends(a, b, one_way)}")

    def set(
        self,
        a: Host | None = None,
        b: Host | None = None,
        *,
        one_way: bool = False,
        **settings: float,
    ) -> None:
        """Changes the settings named (fields of Link) from a to b and back; None: any host."""
        words = [f"{name} {value!r}" for name, value in settings.items()]
        self._say(f"set {self._ends(a, b, one_way)} {' '.join(words)}")

    def stats(self) -> dict[tuple[str, str], dict[str, int]]:
        """Packets counted (Counts in tests/net/hub.h) by names of sender and receiver."""
        out = {}
        for line in self._say("stats"):
            sender, receiver, *rest = line.split()
            out[sender, receiver] = dict(zip(rest[::2], map(int, rest[1::2]), strict=True))
        return out

    def _ends(self, a: Host | None, b: Host | None, one_way: bool) -> str:
        names = [each.name if each else "*" for each in (a, b)]
        return " ".join([*names, *([] if one_way else ["both"])])

    def _say(self, line: str) -> list[str]:
        if self._emulator is None or self._answers is None:
            raise ValueError("these hosts have no emulated links; give Hosts links=Link()")
        assert self._emulator.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # It has ended; its last words say why.
            self._emulator.stdin.write(f"{line}\n".encode())
        *answer, last = self._answers.until("ok", "error: ")
        if last != "ok":
            raise ValueError(f"{line}: {last.removeprefix('error: ')}")
        return answer

    def _make(self) -> None:
        self._world = self._hold([], ["--pid", "--net", "--mount"], self._world_script())
        for number in range(self._n):
            spaces = ["--net", "--mount", "--ipc", "--uts"]
            if self._own_pids:
                spaces += ["--pid", "--fork", "--mount-proc", "--kill-child"]
            if self._clocks_s:
                offset = self._clocks_s[number]
                spaces += ["--time", f"--monotonic={offset}", f"--boottime={offset}"]
            inside = ["nsenter", f"--target={self._world}", "--all", "--"]
            self._hosts.append(Host(number, self._hold(inside, spaces, self._script(number))))
        self._join() if self._links is None else self._emulate(self._links)
        for host in self._hosts:
            lines = [
                f"ip address add {host.ip4}/24 dev sk0",
                f"ip address add {host.ip6}/64 dev sk0 nodad",
                f"ip link set sk0 mtu {self._mtu} txqueuelen {QUEUE_PACKETS} up",
            ]
            host.run(["sh", "-ec", "\n".join(lines)])

    def _hold(self, inside: list[str], spaces: list[str], script: str) -> int:
        """A process in new namespaces that ran `script` and now waits for its input's end."""
        spaces = spaces if inside else [*spaces, "--fork", "--mount-proc", "--kill-child"]
        # Children of others that end are nobody's to wait for: the kernel takes them.
        script += "\necho ready\nexec env --ignore-signal=CHLD cat"
        process = self._start([*inside, "unshare", *spaces, "sh", "-ec", script])
        _Lines(process).until("ready")
        return [process.pid, *descendants(process.pid)][-1]

    def _start(self, command: list[str], fds: Sequence[int] = ()) -> subprocess.Popen[bytes]:
        """A process that ends with its input, and with the hosts."""
        process = subprocess.Popen(
            command,
            env=ENV,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
            pass_fds=fds,
            start_new_session=True,  # An interrupt of the tests is theirs to answer.
        )
        self._processes.append(process)
        return process

    def _world_script(self) -> str:
        names = ["127.0.0.1 localhost", "::1 localhost"]
        for number in range(self._n):
            names += [f"{address} {name_of(number)}" for address in addresses_of(number)]
        return "\n".join(
            [
                "mount -t tmpfs -o mode=1777 shm /dev/shm",
                f"printf '%s\\n' {shlex.join(names)} > /dev/shm/hosts",
                "mount --bind /dev/shm/hosts /etc/hosts",
            ]
        )

    def _script(self, number: int) -> str:
        boot_id = uuid.uuid5(uuid.NAMESPACE_OID, f"{self.seed} {number}")
        keep = ROOT.is_relative_to("/tmp")
        tree = shlex.quote(str(ROOT))
        kept = ["mkdir /dev/shm/tree", f"mount --bind {tree} /dev/shm/tree"]
        back = [f"mkdir -p {tree}", f"mount --move /dev/shm/tree {tree}", "rmdir /dev/shm/tree"]
        return "\n".join(
            [
                f"echo {name_of(number)} > /proc/sys/kernel/hostname",
                "mount -t tmpfs -o mode=1777 shm /dev/shm",
                *(kept if keep else []),
                "mount -t tmpfs -o mode=1777 tmp /tmp",
                *(back if keep else []),
                # A file system's own view of the network; what hangs below it comes along.
                "mkdir /tmp/sys",
                "mount -t sysfs sysfs /tmp/sys",
                "mount --rbind /sys/fs/cgroup /tmp/sys/fs/cgroup",
                "mount --move /tmp/sys /sys",
                "rmdir /tmp/sys",
                f"echo {boot_id} > /tmp/boot_id",
                "mount --bind /tmp/boot_id /proc/sys/kernel/random/boot_id",
                "rm /tmp/boot_id",
                "ip link set lo up",
            ]
        )

    def _join(self) -> None:
        """The kernel's own network: a bridge in the world, and a pair of devices for each host."""
        lines = ["ip link add name bridge type bridge forward_delay 0 mcast_snooping 0"]
        lines += [f"ip link set bridge mtu {self._mtu} up"]
        for host in self._hosts:
            end = f"to-{host.name}"
            peer = f"peer name sk0 netns {host.holder}"
            lines += [f"ip link add name {end} mtu {self._mtu} type veth {peer}"]
            lines += [f"ip link set {end} master bridge up"]
        # In the world's network, but with process numbers as they are here.
        enter = ["nsenter", f"--target={self._world}", "--net", "--", "sh", "-ec"]
        command = [*enter, "\n".join(lines)]
        done = subprocess.run(command, env=ENV, capture_output=True, text=True, timeout=LIMIT_S)
        if done.returncode != 0:
            raise RuntimeError(f"no bridge between the hosts: {done.stderr.strip()}")

    def _emulate(self, links: Link) -> None:
        with contextlib.ExitStack() as spaces:
            fds = [os.open(f"/proc/{host.holder}/ns/net", os.O_RDONLY) for host in self._hosts]
            for fd in fds:
                spaces.callback(os.close, fd)
            command = ["nsenter", f"--target={self._world}", "--all", "--"]
            command += [str(EMULATOR), str(self.seed)]
            for host, fd in zip(self._hosts, fds, strict=True):
                command += [f"{host.name}=/proc/self/fd/{fd}={host.ip4},{host.ip6}"]
            self._emulator = self._start(command, fds)
        self._answers = _Lines(self._emulator)
        self._answers.until("ready")
        self.set(**asdict(links))
