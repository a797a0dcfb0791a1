"""The installed library: what it exports, and that strangers can build against it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from headers import read_abi

CLIENT = Path(__file__).resolve().parent / "client"
TIMEOUT_S = 300


def run(command: list[str], **more: object) -> str:
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S, **more)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def exported(library: Path) -> list[str]:
    lines = run(["nm", "-D", "--defined-only", str(library)]).splitlines()
    return sorted(line.split()[-1] for line in lines)


def test_the_symbols_are_the_golden_ones(
    prefix: Path, golden: Callable[[str, list[str]], None]
) -> None:
    golden("symbols.txt", exported(prefix / "lib" / "libsk.so"))


def test_what_the_headers_declare_is_there_and_nothing_else(prefix: Path) -> None:
    symbols = exported(prefix / "lib" / "libsk.so")
    functions = [symbol.split("@")[0] for symbol in symbols if "@" in symbol]
    assert functions == sorted(read_abi().functions)
    assert [symbol for symbol in symbols if "@" not in symbol] == ["SK_0"]


@pytest.mark.parametrize("tool", ["make_ops_header.py", "make_python_ops.py", "make_julia_ops.py"])
def test_what_is_written_from_schemas_is_what_the_library_says(prefix: Path, tool: str) -> None:
    path = Path(__file__).resolve().parents[2] / "tools" / tool
    run([sys.executable, str(path), "--check", str(prefix / "lib" / "libsk.so")])


def test_the_program_tells_the_operations(prefix: Path) -> None:
    sk = str(prefix / "bin" / "sk")
    described = json.loads(run([sk, "ops", "--json"]))
    listed = [line.split()[0] for line in run([sk, "ops"]).splitlines()]
    assert listed == [each["name"] for each in described]
    for name in listed:
        assert json.loads(run([sk, "ops", "--json", name])) in described
        shown = run([sk, "ops", name])
        assert shown.startswith(name)
        for operand in next(each for each in described if each["name"] == name)["operands"]:
            assert f" {operand['name']} " in shown
    for name, said in (
        ("allredcue", "did you mean allreduce?"),
        ("admw", "did you mean adamw?"),
        ("nosuch", f"there are {', '.join(listed)}"),
        ("", f"there are {', '.join(listed)}"),
    ):
        wrong = subprocess.run([sk, "ops", name], capture_output=True, text=True, timeout=60)
        assert wrong.returncode == 2
        assert f'no operation is called "{name}"; {said}' in wrong.stderr


def test_the_program_tells_where_it_is_installed(prefix: Path, tmp_path: Path) -> None:
    sk = prefix / "bin" / "sk"
    assert run([str(sk), "prefix"]) == f"{prefix.resolve()}\n"
    linked = tmp_path / "sk"  # As a link in a folder of PATH, it is the same installation's.
    linked.symlink_to(sk)
    assert run([str(linked), "prefix"]) == f"{prefix.resolve()}\n"
    alone = tmp_path / "bin" / "sk"
    alone.parent.mkdir()
    shutil.copy(sk, alone)
    for command, status, words in (
        ([alone, "prefix"], 1, f"{alone} is not installed: there is no {tmp_path}/include/sk.h"),
        ([sk, "prefix", "--cflags"], 2, "--cflags is too much; it takes no argument"),
    ):
        wrong = subprocess.run(command, capture_output=True, text=True, timeout=60)
        assert (wrong.returncode, wrong.stdout) == (status, "")
        assert wrong.stderr == f"sk prefix: {words}\n"


def test_the_soname_is_the_major_version(prefix: Path) -> None:
    dynamic = run(["readelf", "-d", str(prefix / "lib" / "libsk.so")])
    assert "Library soname: [libsk.so.0]" in dynamic
    assert "TEXTREL" not in dynamic


def test_the_installation_holds_what_it_should(
    prefix: Path, golden: Callable[[str, list[str]], None]
) -> None:
    files = sorted(path.relative_to(prefix).as_posix() for path in prefix.rglob("*.h"))
    files += sorted(
        path.relative_to(prefix).as_posix()
        for path in (prefix / "lib").rglob("*")
        if not path.is_dir()
    )
    # The kernels for GPUs are there where the machine that built them had what they need.
    kernels = [file for file in files if file.startswith("lib/libsk_cuda.so")]
    assert kernels in ([], ["lib/libsk_cuda.so.0", "lib/libsk_cuda.so.0.1.0"])
    golden("installed.txt", [file for file in files if file not in kernels])


def check_client(program: Path, prefix: Path) -> None:
    env = {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")}
    for name in ("RANK", "WORLD_SIZE"):
        env.pop(name, None)
    assert run([str(program)], env=env).splitlines()[-1] == "client: all as it should be"


def test_a_c_program_by_pkg_config(prefix: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    flags = run(["pkg-config", "--cflags", "--libs", "sk"], env=env).split()
    program = tmp_path / "client"
    strict = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror"]
    run(["cc", *strict, str(CLIENT / "client.c"), *flags, "-o", str(program)])
    check_client(program, prefix)


def test_a_c_program_by_cmake(prefix: Path, tmp_path: Path) -> None:
    where = [f"-Dsk_DIR={prefix / 'lib' / 'cmake' / 'sk'}", "-G", "Ninja"]
    run(["cmake", "-S", str(CLIENT), "-B", str(tmp_path), *where])
    run(["cmake", "--build", str(tmp_path)])
    check_client(tmp_path / "client", prefix)


def test_a_newcomer_s_tile(prefix: Path, tmp_path: Path) -> None:
    env = {**os.environ, "PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    flags = run(["pkg-config", "--cflags", "--libs", "sk"], env=env).split()
    program = tmp_path / "own_tile"
    source = Path(__file__).resolve().parents[2] / "examples" / "own_tile.c"
    strict = ["-std=c11", "-pedantic", "-Wall", "-Wextra", "-Werror", "-O2"]
    run(["cc", *strict, str(source), *flags, "-lm", "-o", str(program)])
    env = {**os.environ, "LD_LIBRARY_PATH": str(prefix / "lib")}
    assert run([str(program)], env=env) == "operation 1000: the mean square of a row is 1.0000\n"
