"""The image's recipe: what it names is there, and who runs it may do what notebooks ask."""

from __future__ import annotations

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
RECIPE = ROOT / "tools" / "container" / "Dockerfile"
RUNNABLE = ("lab", "cuda", "cpu")


@dataclass
class Step:
    """An instruction, who carries it out, and what it says."""

    word: str
    user: str
    text: str


@dataclass
class Stage:
    """What stands behind one FROM, with the steps of the stage that it is made from."""

    user: str = "root"
    steps: list[Step] = field(default_factory=list)


def stages() -> dict[str, Stage]:
    """By name."""
    text = re.sub(r"^\s*#.*\n", "", RECIPE.read_text(), flags=re.MULTILINE).replace("\\\n", " ")
    found: dict[str, Stage] = {}
    for line in text.splitlines():
        word, _, rest = line.strip().partition(" ")
        if word == "FROM":
            base, _, name = rest.split()
            before = found.get(base, Stage())
            stage = found[name] = Stage(before.user, list(before.steps))
        elif word == "USER":
            stage.user = rest
        elif word:
            stage.steps.append(Step(word, stage.user, rest))
    return found


def test_who_runs_the_image_may_install_packages() -> None:
    """Notebooks say `%pip install torch`: the environment belongs to whoever made it."""
    for name in RUNNABLE:
        stage = stages()[name]
        assert stage.user == "1000", name
        makers = [each for each in stage.steps if re.search(r"-m venv|pip install", each.text)]
        assert makers, name
        assert {each.user for each in makers} == {stage.user}, name


def test_what_is_copied_is_there() -> None:
    for name, stage in stages().items():
        for step in stage.steps:
            if step.word == "COPY":
                words = [each for each in shlex.split(step.text) if not each.startswith("--")]
                for path in words[:-1]:
                    assert (ROOT / path).exists(), f"{name}: {path}"


def test_every_notebook_with_a_kernel_in_the_image_is_copied() -> None:
    copied = {
        Path(path).name
        for step in stages()["lab"].steps
        if step.word == "COPY"
        for path in shlex.split(step.text)
        if path.endswith(".ipynb")
    }
    of_python = {
        path.name
        for path in (ROOT / "examples").glob("*.ipynb")
        if json.loads(path.read_text())["metadata"]["kernelspec"]["language"] == "python"
    }
    assert copied == of_python


def test_the_dev_container_names_a_stage_and_its_user() -> None:
    text = (ROOT / ".devcontainer" / "devcontainer.json").read_text()
    told = json.loads(re.sub(r"^\s*//.*\n", "", text, flags=re.MULTILINE))
    recipe = ROOT / ".devcontainer" / told["build"]["dockerfile"]
    assert recipe.resolve() == RECIPE
    stage = stages()[told["build"]["target"]]
    added = " ".join(each.text for each in stage.steps)
    assert re.search(rf"useradd [^&]*--uid {stage.user} {told['remoteUser']}\b", added)
