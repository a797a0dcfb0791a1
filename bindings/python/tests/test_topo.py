"""Topologies: this machine, made ones, and their text."""

from __future__ import annotations

import copy
import pickle

import libsk as sk
import pytest


def test_this_machine() -> None:
    machine = sk.topo()
    assert machine.hosts == 1 and machine.threads >= machine.cores >= 1
    assert machine.memory_bytes > 2**20
    assert "host" in repr(machine)


def test_text_reads_back() -> None:
    made = sk.Topo.synthetic("hosts:2 numa:2 cores:8 gpus:4 nics:2")
    assert (made.hosts, made.gpus, made.nics) == (2, 8, 4)
    assert sk.Topo.parse(made.dump()).dump() == made.dump()


def test_it_goes_to_other_processes() -> None:
    made = sk.Topo.synthetic("hosts:2 numa:2 cores:8 gpus:4 nics:2")
    for other in (pickle.loads(pickle.dumps(made)), copy.deepcopy(made)):
        assert type(other) is sk.Topo and other.dump() == made.dump() and other.gpus == 8


@pytest.mark.parametrize("spec", ["cores", "cores:-1", "wheels:4"])
def test_a_wrong_specification(spec: str) -> None:
    with pytest.raises(sk.Error) as caught:
        sk.Topo.synthetic(spec)
    assert caught.value.code in (10, 11) and len(str(caught.value)) > 10


def test_text_that_is_none() -> None:
    with pytest.raises(sk.Error):
        sk.Topo.parse("no topology")
