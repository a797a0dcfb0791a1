"""What ./dev wheel makes of several wheels, and which it refuses."""

from __future__ import annotations

import zipfile
from pathlib import Path

import carried
import pytest
import wheel
import wheel_file
from shell import DevError

ABOUT = "Wheel-Version: 1.0\nRoot-Is-Purelib: false\n"
INFO = "libsk-0.1.0.dist-info"


def make(folder: Path, tag: str, module: str, **more: str) -> Path:
    """A small wheel of one interpreter; `more` are further modules of it."""
    path = folder / f"libsk-0.1.0-{tag}-linux_x86_64.whl"
    with zipfile.ZipFile(path, "w") as to:
        program = zipfile.ZipInfo("libsk/bin/sk")
        program.external_attr = 0o100755 << 16
        to.writestr(program, "the program")
        for name, text in {"__init__": "same", **more}.items():
            to.writestr(f"libsk/{name}.py", text)
        to.writestr(f"libsk/{module}", f"compiled for {tag}")
        to.writestr(f"{INFO}/WHEEL", f"{ABOUT}Tag: {tag}-linux_x86_64\n\n")
        to.writestr(f"{INFO}/RECORD", f"hashes of {tag}")
    return path


@pytest.mark.parametrize(
    ("versions", "chosen"),
    [
        ([(3, 11)], [(3, 11)]),
        ([(3, 13)], [(3, 12)]),
        ([(3, 12), (3, 13), (3, 11)], [(3, 11), (3, 12)]),
        ([(3, 10), (3, 11), (3, 14)], [(3, 10), (3, 11), (3, 12)]),
        ([(3, 10)], [(3, 10)]),
    ],
)
def test_from_312_on_one_module_serves_all(
    versions: list[tuple[int, int]], chosen: list[tuple[int, int]]
) -> None:
    assert wheel.choose(versions) == chosen


def test_no_python_between_may_lack() -> None:
    with pytest.raises(DevError, match="would be taken by Python 3.11 too; add it"):
        wheel.choose([(3, 10), (3, 13)])


def test_one_wheel_has_the_modules_of_all(tmp_path: Path) -> None:
    first = make(tmp_path, "cp311-cp311", "_core.cpython-311-x86_64-linux-gnu.so")
    second = make(tmp_path, "cp312-abi3", "_core.abi3.so")
    joined = wheel_file.join([first, second], tmp_path / "out", {"carried/libx.txt": b"free"})
    assert joined.name == "libsk-0.1.0-cp311.cp312-cp311.abi3-linux_x86_64.whl"
    with zipfile.ZipFile(joined) as one:
        assert sorted(one.namelist()) == [
            f"{INFO}/RECORD",
            f"{INFO}/WHEEL",
            f"{INFO}/licenses/carried/libx.txt",
            "libsk/__init__.py",
            "libsk/_core.abi3.so",
            "libsk/_core.cpython-311-x86_64-linux-gnu.so",
            "libsk/bin/sk",
        ]
        assert one.read("libsk/_core.abi3.so") == b"compiled for cp312-abi3"
        assert one.getinfo("libsk/bin/sk").external_attr >> 16 == 0o100755
        recorded = one.read(f"{INFO}/RECORD").decode().splitlines()
        assert sorted(line.split(",")[0] for line in recorded) == sorted(one.namelist())
        assert "libsk/__init__.py,sha256=CWcRXygTo1Qervd96dnVdz8cDAQxSwu_5P87OxxVtdU,4" in recorded
        tags = "Tag: cp311-cp311-linux_x86_64\nTag: cp312-abi3-linux_x86_64\n"
        assert one.read(f"{INFO}/WHEEL").decode() == ABOUT + tags


def test_wheels_that_differ_are_not_joined(tmp_path: Path) -> None:
    first = make(tmp_path, "cp310-cp310", "_core.cpython-310.so", more="1")
    for tag, more, words in (
        ("cp311-cp311", {"more": "2"}, r"libsk/more.py differs from wheel to wheel"),
        ("cp312-abi3", {"more": "1", "else": ""}, r"only libsk.*cp312-abi3.* holds libsk/else.py"),
    ):
        second = make(tmp_path, tag, "_core.of_second.so", **more)
        with pytest.raises(DevError, match=words):
            wheel_file.join([first, second], tmp_path / "out", {})


def test_a_library_whose_licence_was_not_given_is_named(tmp_path: Path) -> None:
    path = tmp_path / "libsk.whl"
    with zipfile.ZipFile(path, "w") as to:
        to.writestr("libsk.libs/", "")
        to.writestr("libsk.libs/libcapnp-0-0a1b2c3d.9.2.so", "")
        to.writestr("libsk.libs/libfmt-00112233.so.9", "")
    wheel_file.check(path, ["libfmt", "libcapnp-0.9.2"])
    with pytest.raises(DevError, match="carries libcapnp-0.9.2, libfmt; expected: libfmt"):
        wheel_file.check(path, ["libfmt"])


@pytest.mark.parametrize(
    ("name", "stem"),
    [
        ("libzmq.so.5", "libzmq"),
        ("libsodium-6c8f8377.so.26.4.0", "libsodium"),
        ("libkj-0.9.2.so", "libkj-0.9.2"),
        ("libkj-0-6c8f8377.9.2.so", "libkj-0.9.2"),
    ],
)
def test_a_library_has_one_name(name: str, stem: str) -> None:
    assert carried.stem(name) == stem


@pytest.mark.parametrize(
    ("name", "carries"),
    [
        ("libc.so.6", False),
        ("libstdc++.so.6", False),
        ("ld-linux-x86-64.so.2", False),
        ("libmd.so.0", True),
        ("libcrypto.so.3", True),
        ("libcom_err.so.2", True),
    ],
)
def test_what_every_linux_has_is_left_out(name: str, carries: bool) -> None:
    assert (carried.OF_SYSTEM.fullmatch(name) is None) == carries


def test_an_interpreter_that_is_none_is_named() -> None:
    with pytest.raises(DevError, match="--python python3.99: there is no such program"):
        wheel.requested(["python3.99"])
