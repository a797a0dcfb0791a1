"""What ./dev gpu --bundle finds in a folder that would not run elsewhere."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import gpu
import main
import pytest
from shell import DevError

LDD = """\
\tlinux-vdso.so.1 (0x00007fef450c9000)
\tlibm.so.6 => /lib/x86_64-linux-gnu/libm.so.6 (0x00007fef44d20000)
\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007fef44b3e000)
\t/lib64/ld-linux-x86-64.so.2 (0x00007fef450cb000)
"""


def test_glibc_alone_is_sound() -> None:
    assert gpu.foreign(LDD, Path("/b")) == []
    assert gpu.foreign("\tstatically linked\n", Path("/b")) == []


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("libfmt.so.9 => /lib/libfmt.so.9 (0x01)", "libfmt.so.9 is the system's: /lib/libfmt.so.9"),
        ("libfmt.so.9 => not found", "libfmt.so.9 is not found"),
        ("libc.so.6 => not found", "libc.so.6 is not found"),
        ("libz.so.1 => /both/libz.so.1 (0x01)", "libz.so.1 is the system's: /both/libz.so.1"),
        ("libcrypt.so.1 => /libcrypt.so.1 (0x01)", "libcrypt.so.1 is the system's: /libcrypt.so.1"),
        ("libfmt.so.9 => /b/bin/libfmt.so.9 (0x01)", None),
    ],
)
def test_anything_else_must_lie_in_the_folder(line: str, wanted: str | None) -> None:
    assert gpu.foreign(f"{LDD}\t{line}\n", Path("/b")) == ([wanted] if wanted else [])


def test_the_newest_symbol_of_glibc_counts() -> None:
    data = b"\x7fELF\x00GLIBC_2.2.5\x00GLIBC_2.36\x00GLIBC_2.4\x00GLIBC_PRIVATE\x00"
    assert gpu.glibc_needed(data) == (2, 36)


def test_a_folder_is_proven_by_its_programs(tmp_path: Path) -> None:
    (tmp_path / "notes").write_text("no program")
    with pytest.raises(DevError, match="holds no program"):
        gpu.prove(tmp_path)
    shutil.copy("/bin/true", tmp_path)
    assert gpu.prove(tmp_path).startswith("2.")
    compiler = Path(shutil.which("c++") or "").resolve()
    library = next(Path("/usr/lib").rglob("libstdc++.so.6"))
    (tmp_path / "program.cc").write_text("#include <iostream>\nint main() { std::cout << 1; }\n")
    build = [compiler, tmp_path / "program.cc", "-o", tmp_path / "program"]
    subprocess.run(build, check=True, timeout=60)
    with pytest.raises(DevError, match=r"program: libstdc\+\+.so.6 is the system's"):
        gpu.prove(tmp_path)
    subprocess.run([*build, "-Wl,-rpath,$ORIGIN"], check=True, timeout=60)
    shutil.copy(library.resolve(), tmp_path / "libstdc++.so.6")
    with pytest.raises(DevError) as failure:
        gpu.prove(tmp_path)
    assert "libstdc++.so.6 is" not in str(failure.value)  # But it wants libgcc_s, beside it too.
    assert "libgcc_s.so.1 is the system's" in str(failure.value)


def test_a_folder_too_large_to_carry_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shutil.copy("/bin/true", tmp_path)
    monkeypatch.setattr(gpu, "BYTES_MAX", 1000)
    with pytest.raises(DevError, match="may be carried"):
        gpu.prove(tmp_path)


def test_without_a_gpu_a_sentence_says_what_is_absent() -> None:
    if not gpu.absent_driver():
        pytest.skip("there is an NVIDIA driver here")
    with pytest.raises(DevError, match=r"^no NVIDIA driver on this machine: libcuda.so.1: .*$"):
        gpu.gpu([])


@pytest.fixture
def made(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A bundle whose run says what it was given, and leaves an empty visit."""
    monkeypatch.setattr(gpu, "BUNDLE", tmp_path / "bundle")
    monkeypatch.setattr(gpu, "OUT", tmp_path / "usual")
    monkeypatch.setattr(gpu, "absent_driver", lambda: "")
    monkeypatch.setattr(gpu, "results", lambda visit: (tmp_path / "kept").write_text(str(visit)))
    monkeypatch.delenv("SK_GPU_OUT", raising=False)
    (tmp_path / "bundle").mkdir()
    (tmp_path / "bundle" / "run").write_text(
        "import pathlib, sys\n"
        f"pathlib.Path({str(tmp_path / 'given')!r}).write_text(' '.join(sys.argv[1:]))\n"
        "out = pathlib.Path(sys.argv[sys.argv.index('--out') + 1])\n"
        "out.mkdir(parents=True)\n"
        "(out / 'visit.json').write_text('{}')\n"
    )
    return tmp_path


def test_a_visit_leaves_its_files_where_it_is_told_to(
    made: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for out, words in (
        (made / "usual", []),
        (made / "by-environment", []),
        (made / "by-option", ["--out", str(made / "by-option")]),
    ):
        if out.name == "by-environment":
            monkeypatch.setenv("SK_GPU_OUT", str(out))
        assert gpu.gpu(list(words)) == 0
        assert (made / "kept").read_text() == str(out / "visit.json")


def test_all_options_of_a_visit_are_handed_on(made: Path) -> None:
    words = ["--resume", "a.json", "--budget", "300", "--limit=60", "--only", "x", "--only", "y"]
    options = main.parse(["gpu", *words])
    assert main.act(options) == 0
    assert (made / "given").read_text() == " ".join(["--out", str(made / "usual"), *words])


def test_options_of_a_visit_are_none_of_a_bundle() -> None:
    with pytest.raises(SystemExit):
        main.parse(["gpu", "--bundle", "--budget", "300"])


def test_without_a_bundle_nothing_is_built(made: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (made / "bundle" / "run").unlink()
    monkeypatch.setattr(gpu, "bundle", lambda: pytest.fail("it was built"))
    with pytest.raises(DevError, match="bundle is not there. Where .* ./dev gpu --bundle makes it"):
        gpu.gpu([])
