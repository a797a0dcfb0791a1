"""The wheel in a bare environment: what a stranger types, and what comes of it."""

from __future__ import annotations

from collections.abc import Callable

import newcomer
import pytest

STEPS = [step for steps in newcomer.STEPS.values() for step in steps]


@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.__name__)
def test_as_a_stranger(home: newcomer.Home, step: Callable[[newcomer.Home], None]) -> None:
    step(home)


def test_every_carried_library_has_its_licence(home: newcomer.Home) -> None:
    (packages,) = home.venv.glob("lib/python3*/site-packages")
    (own,) = packages.glob("libsk-*.dist-info/licenses/LICENSE")
    assert own.read_text() == (newcomer.ROOT / "LICENSE").read_text()
    licenses = own.with_name("carried")
    texts = {path.name: path.read_text() for path in licenses.rglob("*") if path.is_file()}
    for word in ("OpenSSL", "hwloc", "MOZILLA|Mozilla", "capnproto|Cap'n Proto", "LGPL|LESSER"):
        assert any(each in text for each in word.split("|") for text in texts.values()), word
