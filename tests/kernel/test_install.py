"""`sk install`, `sk list` and `sk remove`, and a kernel whose environment is gone."""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from conftest import SK, STUB, StartKernel, wait_until

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)


class Command:
    """Runs `sk` as a user with an empty home."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.user = home / ".local" / "share" / "jupyter" / "kernels"

    def __call__(self, *arguments: str, fails: int = 0) -> str:
        env = {"HOME": str(self.home), "PATH": "/usr/bin:/bin"}
        done = subprocess.run(
            [SK, *arguments], capture_output=True, text=True, timeout=60, env=env, cwd=self.home
        )
        assert done.returncode == fails, done.stderr
        return done.stderr if fails else done.stdout

    def install(self, *arguments: str, fails: int = 0) -> str:
        """With the interpreter that runs the tests."""
        return self("install", "--python", sys.executable, *arguments, fails=fails)

    def rows(self, *arguments: str) -> dict[str, list[str]]:
        """`sk list` without its heading: the columns behind each name."""
        lines = self("list", *arguments).splitlines()
        assert lines[0].split() == ["name", "ranks", "program", "kernelspec"]
        return {line.split()[0]: line.split("  ", 1)[1].split() for line in lines[1:]}


@pytest.fixture
def sk(tmp_path: Path) -> Command:
    """`sk` in a home of its own."""
    return Command(tmp_path)


def spec(folder: Path) -> dict[str, object]:
    """What Jupyter reads."""
    return json.loads((folder / "kernel.json").read_text())


def test_install_writes_what_jupyter_reads(sk: Command) -> None:
    out = sk.install("--user", "--name", "Mine", "--display-name", "My ranks", "--ranks", "3")
    folder = sk.user / "mine"
    assert out == f"Installed the kernelspec in {folder}\n"
    found = spec(folder)
    assert found["display_name"] == "My ranks"
    assert found["interrupt_mode"] == "message"
    argv = found["argv"]
    assert argv[:4] == [str(SK), "kernel", "-f", "{connection_file}"]
    assert argv[argv.index("--ranks") + 1] == "3"
    assert argv[argv.index("--") + 1] == sys.executable
    assert {"logo-32x32.png", "logo-64x64.png", "logo-svg.svg"} <= {
        p.name for p in folder.iterdir()
    }


def test_variables_of_the_kernel(sk: Command) -> None:
    sk.install("--env", "A", "1", "--env", "B", "two words")
    assert spec(sk.user / "superkernel-python")["env"] == {"A": "1", "B": "two words"}


def test_modules_that_ranks_share(sk: Command) -> None:
    sk.install("--name", "plain")
    out = sk.install(
        "--name",
        "shared",
        "--ranks",
        "2",
        "--preload",
        "json, decimal,json",
        "--preload",
        "json,abc",
    )
    assert out == f"Installed the kernelspec in {sk.user / 'shared'}\n"
    argv = spec(sk.user / "shared")["argv"]
    assert argv[argv.index("--preload") + 1] == "json,decimal,abc"
    assert argv.index("--ranks") < argv.index("--preload") < argv.index("--")
    assert "--preload" not in spec(sk.user / "plain")["argv"]
    rows = {line.split()[0]: line.split()[1:] for line in sk("list", "--user").splitlines()}
    assert rows["name"] == ["ranks", "preload", "program", "kernelspec"]
    assert rows["shared"][:2] == ["2", "json,decimal,abc"]


def test_a_module_that_is_not_there_is_said(sk: Command) -> None:
    command = [
        SK,
        "install",
        "--python",
        sys.executable,
        "--preload",
        "json,nosuch_x.y,os.nosuch,os.path",
    ]
    env = {"HOME": str(sk.home), "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=env)
    assert done.returncode == 0
    assert (
        "has no module nosuch_x.y, os.nosuch yet; --preload leaves out what is missing"
        in done.stderr
    )
    assert "json" not in done.stderr


def test_list_tells_name_ranks_program_and_place(sk: Command, tmp_path: Path) -> None:
    assert "No kernel of SuperKernel is installed in " in sk("list", "--user")
    sk.install("--name", "b", "--ranks", "2")
    sk.install("--name", "a")
    other = sk.user / "other"
    other.mkdir()
    (other / "kernel.json").write_text('{"argv": ["python3", "-m", "ipykernel_launcher"]}')
    (sk.user / "broken").mkdir()
    (sk.user / "broken" / "kernel.json").write_text("{")
    rows = sk.rows("--user")
    assert list(rows) == ["a", "b"]
    assert rows["a"] == ["by", "start", sys.executable, str(sk.user / "a")]
    assert rows["b"] == ["2", sys.executable, str(sk.user / "b")]
    sk.install("--prefix", str(tmp_path / "env"), "--name", "c")
    assert list(sk.rows("--prefix", str(tmp_path / "env"))) == ["c"]
    assert {"a", "b"} <= sk.rows().keys()


def test_list_says_when_the_environment_is_gone(sk: Command, tmp_path: Path) -> None:
    python = tmp_path / "env" / "bin" / "python"
    python.parent.mkdir(parents=True)
    python.symlink_to(sys.executable)
    sk.install("--name", "left", "--python", sys.executable)
    path = sk.user / "left" / "kernel.json"
    path.write_text(path.read_text().replace(sys.executable, str(python)))
    assert "(is gone)" not in sk("list", "--user")
    shutil.rmtree(tmp_path / "env")
    assert f"{python} (is gone)" in sk("list", "--user")


def test_remove_takes_away_what_it_says(sk: Command) -> None:
    sk.install("--name", "a")
    sk.install("--name", "b")
    assert sk("remove", "a") == f"Removed {sk.user / 'a'}\n"
    assert not (sk.user / "a").exists()
    assert list(sk.rows("--user")) == ["b"]
    assert "there is no kernel a in " in sk("remove", "a", fails=1)


def test_what_is_not_ours_stays(sk: Command) -> None:
    other = sk.user / "python3"
    other.mkdir(parents=True)
    (other / "kernel.json").write_text('{"argv": ["python3", "-m", "ipykernel_launcher"]}')
    assert "is no kernel of SuperKernel" in sk("remove", "python3", fails=1)
    assert "kernel of another program" in sk.install("--name", "python3", fails=1)
    assert "ipykernel_launcher" in (other / "kernel.json").read_text()
    assert "there is no kernel ../python3" in sk("remove", "../python3", fails=1)


def test_of_a_link_only_the_link_goes(sk: Command, tmp_path: Path) -> None:
    sk.install("--prefix", str(tmp_path / "env"), "--name", "real")
    real = tmp_path / "env" / "share" / "jupyter" / "kernels" / "real"
    sk.user.mkdir(parents=True)
    (sk.user / "link").symlink_to(real)
    sk("remove", "link")
    assert not (sk.user / "link").is_symlink()
    assert (real / "kernel.json").exists()


def test_a_name_in_two_places_needs_the_place(sk: Command, tmp_path: Path) -> None:
    sk.install("--name", "a")
    jupyter = tmp_path / "more"
    shutil.copytree(sk.user / "a", jupyter / "kernels" / "a")
    done = subprocess.run(
        [SK, "remove", "a"],
        capture_output=True,
        text=True,
        timeout=60,
        env={"HOME": str(tmp_path), "PATH": "/usr/bin", "JUPYTER_PATH": str(jupyter)},
    )
    assert done.returncode == 1
    assert "lies in several places" in done.stderr
    assert sk("remove", "--user", "a") == f"Removed {sk.user / 'a'}\n"
    assert (jupyter / "kernels" / "a").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["install", "--ranks", "0"], '--ranks is "0"; it must be a number of ranks, 1 to 4096'),
        (["install", "--ranks", "4097"], "1 to 4096"),
        (["install", "--ranks", "many"], '"many"'),
        (["install", "--user", "--prefix", "x"], "give one place"),
        (["install", "--name", "a b"], "letters, digits"),
        (["install", "--frobnicate", "x"], "is no option"),
        (["install", "--frobnicate"], "--frobnicate is no option of sk install"),
        (["install", "--preload", "json", "abc"], "abc is no option of sk install"),
        (["install", "--ranks"], "--ranks needs a value"),
        (["install", "--env", "A=1", "2"], '--env has the name "A=1"'),
        (["install", "--env", "", "2"], "a name is not empty"),
        (["install", "--preload", "a-b"], '--preload has "a-b", which is no name of a module'),
        (["install", "--preload", "none,json"], "none stands alone"),
        (["install", "--env", "SK_PRELOAD", "a-b"], '--env SK_PRELOAD has "a-b"'),
        (["install", "--env", "A"], "a name and a value"),
        (["list", "--nosuch"], "--nosuch is no option of sk list"),
        (["list", "name"], "takes no name"),
        (["remove"], "it needs a name"),
        (["remove", "--prefix"], "--prefix needs a value"),
    ],
)
def test_wrong_command_lines_get_a_sentence(sk: Command, arguments: list[str], words: str) -> None:
    message = sk(*arguments, fails=2)
    assert words in message
    assert message.endswith(f"sk {arguments[0]} --help says more\n")
    assert message.count("\n") == 2


def test_a_python_without_the_package_is_refused(sk: Command) -> None:
    assert "has no package libsk" in sk("install", "--python", "/usr/bin/python3", fails=1)
    assert not sk.user.exists()


def test_a_kernel_whose_environment_is_gone_says_so_in_each_cell(
    start_kernel: StartKernel, tmp_path: Path
) -> None:
    gone = tmp_path / "env" / "bin" / "rank"
    kernel = start_kernel(2, [str(gone)])
    for _ in range(2):
        reply = kernel.run("print x").reply
        assert reply["ename"] == "SessionError"
        assert f"{gone}: No such file or directory" in reply["evalue"]
        assert "sk install" in reply["evalue"] and "%reconnect tries again" in reply["evalue"]
    assert kernel.manager.is_alive()
    assert kernel.run("%reconnect").reply["ename"] == "SessionError"
    gone.parent.mkdir(parents=True)
    gone.symlink_to(STUB)
    assert kernel.run("%reconnect\nprint {rank}").text() == "Starting 2 ranks.\n[0] 0\n[1] 1\n"
    pid = kernel.pid
    kernel.stop()
    assert wait_until(lambda: not Path(f"/proc/{pid}").exists())
