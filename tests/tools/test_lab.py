"""./dev lab: no notebook without its kernel, no variable that outranks a kernel's own options."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import julia
import lab
import product
import pytest

PYTHON = {"examples.ipynb", "quickstart.ipynb", "torch.ipynb"}
JULIA = {"quickstart-julia.ipynb", "svd.ipynb"}


@pytest.fixture
def commands(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """What would have been run."""
    given: list[list[str]] = []

    def note(command: list[Any], *_: Any, **__: Any) -> int:
        given.append([str(word) for word in command])
        return 0

    monkeypatch.setattr(product, "run", note)
    return given


def names(paths: list[Path]) -> set[str]:
    return {path.name for path in paths}


def test_without_julia_its_notebooks_are_left_out(tmp_path: Path) -> None:
    without = lab.copy_examples(lab.EXAMPLES, tmp_path, {"python"})
    assert names(without) == JULIA
    assert names(list(tmp_path.iterdir())) == PYTHON


def test_a_copy_that_is_there_stays_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "torch.ipynb").write_text("mine")
    assert lab.copy_examples(lab.EXAMPLES, tmp_path, {"python", "julia"}) == []
    assert names(list(tmp_path.iterdir())) == PYTHON | JULIA
    assert (tmp_path / "torch.ipynb").read_text() == "mine"


@pytest.mark.parametrize("found", [None, Path("/somewhere/julia")])
def test_there_is_a_kernel_for_each_language(
    found: Path | None, commands: list[list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(julia, "find", lambda: found)
    languages = lab.install_kernels()
    assert languages == ({"python"} if found is None else {"python", "julia"})
    assert len(commands) == len(languages)
    for command in commands:
        assert command[1] == "install"
        assert command[command.index("--ranks") + 1] == str(lab.RANKS)
    if found is not None:
        assert commands[1][commands[1].index("--julia") + 1] == str(found)


def test_the_number_of_ranks_is_each_kernels_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SK_NRANKS", raising=False)
    assert "SK_NRANKS" not in lab.server_environment()
    monkeypatch.setenv("SK_NRANKS", "2")
    assert lab.server_environment()["SK_NRANKS"] == "2"


def test_the_image_has_the_notebooks_of_its_kernel() -> None:
    text = (lab.ROOT / "tools" / "container" / "Dockerfile").read_text()
    (line,) = (line for line in text.splitlines() if line.startswith("COPY") and ".ipynb" in line)
    copied = {Path(word) for word in line.split() if word.endswith(".ipynb")}
    assert names(list(copied)) == PYTHON
    assert all((lab.ROOT / path).is_file() for path in copied)


def test_a_notebook_names_the_kernel_that_is_installed() -> None:
    """By the name on its button, too: pages tell readers to choose it."""
    source = (lab.ROOT / "tools" / "sk_kernel" / "install.cpp").read_text()
    for path in lab.EXAMPLES.glob("*.ipynb"):
        told = json.loads(path.read_text())["metadata"]["kernelspec"]
        assert told["name"] == f"superkernel-{told['language']}", path.name
        assert f'display_name = "{told["display_name"]}"' in source, path.name
        assert told["language"] in told["display_name"].lower(), path.name
