"""The wheel in a bare environment: what a stranger types, and what comes of it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

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


def test_a_folder_may_have_any_name(wheel: Path, tmp_path: Path) -> None:
    """Linux reads no first line `#!` that has spaces, or is longer than 255 bytes."""
    home = newcomer.Home(tmp_path / "Zoë's things" / ("of long ago " * 18).strip())
    assert len(str(home.venv)) > 255
    (home.folder / "home").mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", home.venv], check=True, timeout=120)
    home.run("pip", "--disable-pip-version-check", "install", "--no-deps", wheel)
    assert home.run("sk", "--version").startswith("sk 0.")
    assert Path(home.run("sk", "prefix").strip()).is_relative_to(home.venv)
    home.run("sk", "install", "--sys-prefix")
    assert "superkernel-python" in home.run("sk", "list", "--sys-prefix")
    ranks = home.run("sk", "run", "-n", "2", "python", "-c", "import os; print(os.environ['RANK'])")
    assert sorted(ranks.split()) == ["0", "1"]
    home.run("pip", "--disable-pip-version-check", "uninstall", "--yes", "libsk")
    (packages,) = home.venv.glob("lib/python3*/site-packages")
    left = [*packages.glob("libsk*"), *home.venv.glob("bin/sk*")]
    assert left == []
