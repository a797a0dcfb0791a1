"""What a stranger does with the wheel, step by step, on a machine that has seen nothing of libsk.

usage: newcomer.py WHEEL FOLDER [python | c]...     (without a word: all)

Needs this repository's examples and README, and Python's own library; `c` needs a compiler,
pkg-config and CMake. The environment in FOLDER is of the interpreter that runs this. Also what the
tests beside this file are made of.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
PINS = ROOT / "requirements" / "pins.txt"
RANKS = 4
LIMIT_S = 600
# Nobody's settings but how packages are reached: no LD_LIBRARY_PATH, no PYTHONPATH, no SK_PREFIX.
KEPT = re.compile(r"PIP_(?!REQUIRE)\w+|SSL_CERT\w*|REQUESTS_CA\w*|(https?|no)_proxy", re.IGNORECASE)
# Of the machine, also of a bare one; all others are the wheel's own.
OF_SYSTEM = re.compile(
    r"(linux-vdso|libc|libm|libdl|librt|libpthread|libresolv|ld-linux[-\w]*|libstdc\+\+|libgcc_s)\.so.*"
)
CMAKE = """\
cmake_minimum_required(VERSION 3.16)
project(sum C)
find_package(sk 0.1 REQUIRED)
add_executable(sum sum.c)
target_link_libraries(sum PRIVATE sk::sk)
"""


def example(heading: str) -> str:
    """The README's first block of code under a heading."""
    text = (ROOT / "README.md").read_text()
    found = re.search(rf"^### {heading}\n.*?^```\w+\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    assert found, heading
    return found[1]


@dataclass(frozen=True)
class Home:
    """A folder that stands for the stranger's machine: a home, an environment, files."""

    folder: Path

    @property
    def venv(self) -> Path:
        return self.folder / "env"

    def environment(self) -> dict[str, str]:
        kept = {name: text for name, text in os.environ.items() if KEPT.fullmatch(name)}
        path = f"{self.venv / 'bin'}:/usr/local/bin:/usr/bin:/bin"
        home = self.folder / "home"
        return {**kept, "HOME": str(home), "PATH": path, "LANG": "C.UTF-8"}

    def run(self, *words: str | Path, **more: str) -> str:
        """What the command prints; AssertionError with all of it when it fails.

        Programs are looked for as the stranger's shell does.
        """
        env = {**self.environment(), **more}
        command = [str(word) for word in words]
        command[0] = shutil.which(command[0], path=env["PATH"]) or command[0]
        done = subprocess.run(
            command, cwd=self.folder, env=env, capture_output=True, text=True, timeout=LIMIT_S
        )
        assert done.returncode == 0, f"{' '.join(command)}\n{done.stdout}{done.stderr}"
        return done.stdout


def install(wheel: Path, folder: Path) -> Home:
    """A bare environment with the wheel and what the notebook uses."""
    shutil.rmtree(folder, ignore_errors=True)
    home = Home(folder)
    (folder / "home").mkdir(parents=True)
    subprocess.run([sys.executable, "-m", "venv", home.venv], check=True, timeout=LIMIT_S)
    pip = ["pip", "--disable-pip-version-check", "install", "-c", PINS]
    home.run(*pip, f"{wheel}[kernel]")
    home.run(*pip, "nbclient", "matplotlib", "scikit-learn")
    return home


def check_nothing_is_of_the_machine(home: Home) -> None:
    """Every library that the package needs lies in the environment, or is every Linux's own."""
    (package,) = home.venv.glob("lib/python3*/site-packages/libsk")
    carried = package.with_name("libsk.libs")
    programs = [*package.rglob("*.so*"), *carried.iterdir(), package / "bin" / "sk"]
    assert len(programs) > 4
    for program in programs:
        for line in home.run("ldd", program).splitlines():
            name, _, rest = line.strip().partition(" ")
            where = rest.removeprefix("=> ").split(" (")[0]
            ours = Path(where).resolve().is_relative_to(home.venv.resolve())
            assert ours or OF_SYSTEM.fullmatch(Path(name).name), f"{program.name}: {line}"


def check_program(home: Home) -> None:
    """`sk` in the environment's PATH."""
    assert home.run("sk", "--version").startswith("sk 0.")
    assert "allreduce" in home.run("sk", "ops")


def check_ranks(home: Home) -> None:
    """The README's product on two ranks."""
    (home.folder / "product.py").write_text(example("Python"))
    lines = home.run("sk", "run", "--tag", "-n", "2", "python", "product.py").splitlines()
    assert [float(line.split()[-1]) < 1e-5 for line in lines] == [True, True], lines


def check_notebook(home: Home) -> None:
    """`sk install`, then the quickstart on four ranks in a client that knows nothing of them."""
    spec = home.run("sk", "install").split()[-1]
    names = {"kernel.json", "logo-svg.svg", "logo-32x32.png", "logo-64x64.png"}
    assert {path.name for path in Path(spec).iterdir()} == names
    assert Path(spec).is_relative_to(home.folder / "home")
    result = home.folder / "result.ipynb"
    runner = ROOT / "tools" / "dev" / "run_notebook.py"
    home.run("python", runner, NOTEBOOK, result, SK_NRANKS=str(RANKS))
    cells = [c for c in json.loads(result.read_text())["cells"] if c["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    outputs = [output for cell in cells for output in cell["outputs"]]
    text = "".join("".join(output.get("text", "")) for output in outputs)
    assert f"{RANKS} ranks on Python" in text
    assert f"{RANKS} of {RANKS} ranks are here; the sum is still [60. 64. 68. 72.]" in text
    pictures = [output for output in outputs if "image/png" in output.get("data", {})]
    assert len(pictures) == 3


def _check_sum(home: Home, program: Path) -> None:
    lines = home.run("sk", "run", "-n", "2", program).splitlines()
    assert [line.endswith("2 4 6 8") for line in lines] == [True, True], lines


def check_c(home: Home, prefix: Path, name: str) -> None:
    """The README's C program against `prefix`, once by pkg-config and once by CMake."""
    folder = home.folder / name
    folder.mkdir()
    source = folder / "sum.c"
    source.write_text(example("C"))
    where = {"PKG_CONFIG_PATH": str(prefix / "lib" / "pkgconfig")}
    flags = home.run("pkg-config", "--cflags", "--libs", "sk", **where).split()
    home.run("cc", "-std=c11", "-Wall", "-Werror", source, *flags, "-o", folder / "sum")
    _check_sum(home, folder / "sum")
    (folder / "CMakeLists.txt").write_text(CMAKE)
    home.run("cmake", "-S", folder, "-B", folder / "build", f"-DCMAKE_PREFIX_PATH={prefix}")
    home.run("cmake", "--build", folder / "build")
    _check_sum(home, folder / "build" / "sum")


def check_c_in_place(home: Home) -> None:
    """Where `sk prefix` says."""
    check_c(home, Path(home.run("sk", "prefix").strip()), "c")


def check_c_moved(home: Home) -> None:
    """The two folders elsewhere: nothing in them names where they were."""
    prefix = Path(home.run("sk", "prefix").strip())
    moved = home.folder / "elsewhere"
    for each in (prefix, prefix.with_name("libsk.libs")):
        shutil.copytree(each, moved / each.name)
    there = home.run(moved / "libsk" / "bin" / "sk", "prefix").strip()
    assert there == str(moved / "libsk")
    check_c(home, Path(there), "c-moved")


STEPS = {
    "python": (check_nothing_is_of_the_machine, check_program, check_ranks, check_notebook),
    "c": (check_c_in_place, check_c_moved),
}


def main() -> int:
    """All steps of the kinds that were asked for; the first that fails ends it."""
    words = sys.argv[3:] or list(STEPS)
    if len(sys.argv) < 3 or not set(words) <= set(STEPS):
        print(__doc__, file=sys.stderr)
        return 2
    wheel, folder = Path(sys.argv[1]).resolve(), Path(sys.argv[2]).resolve()
    # The environment stays for a second call, with other words.
    home = Home(folder) if (folder / "env").exists() else install(wheel, folder)
    for word in words:
        for step in STEPS[word]:
            step(home)
            print(f"newcomer: {step.__name__}: as it should be", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
