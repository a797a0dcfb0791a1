"""JupyterLab as people use it: a server of its own, Debian's Chromium, a notebook on four ranks."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import nbformat
import pytest
from lab import KERNELS, Notebook
from playwright.sync_api import Browser, sync_playwright

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "support"))

from processes import alive, descendants, wait_until

ROOT = Path(__file__).resolve().parents[2]

PICTURES = ROOT / "build" / "lab"
RANKS = 4
START_S = 120
STOP_S = 30
SETTINGS = {
    "notebook-extension/tracker": {"windowingMode": "none", "recordTiming": False},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


def with_julia(folder: Path) -> dict[str, str]:
    """The kernel of Julia for a server, where ./dev test has found a Julia."""
    julia = os.environ.get("SK_JULIA", "None")
    if julia == "None":
        return {}
    command = ["sk", "install", "--language", "julia", "--julia", julia, "--no-image"]
    subprocess.run([*command, "--prefix", folder], check=True, timeout=120)
    more = os.environ.get("JUPYTER_PATH")
    return {"JUPYTER_PATH": f"{folder}/share/jupyter" + (f":{more}" if more else "")}


class Lab:
    """A running server."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._token = secrets.token_hex(16)
        self._runtime = folder / "runtime"
        (folder / "notebooks").mkdir()
        for name, values in SETTINGS.items():
            path = folder / "settings" / "@jupyterlab" / f"{name}.jupyterlab-settings"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(values))
        env = {
            **os.environ,
            "HOME": str(folder),
            "IPYTHONDIR": str(folder / "ipython"),
            "JUPYTER_CONFIG_DIR": str(folder / "config"),
            "JUPYTER_RUNTIME_DIR": str(self._runtime),
            "JUPYTERLAB_SETTINGS_DIR": str(folder / "settings"),
            "JUPYTERLAB_WORKSPACES_DIR": str(folder / "workspaces"),
            "MPLCONFIGDIR": str(folder / "matplotlib"),
            "SK_NRANKS": str(RANKS),
            **with_julia(folder),
        }
        command = [sys.executable, "-m", "jupyterlab", "--no-browser", "--allow-root", "--port=0"]
        command += ["--ip=127.0.0.1", f"--IdentityProvider.token={self._token}"]
        command += [f"--ServerApp.root_dir={folder / 'notebooks'}"]
        self._log = (folder / "server.log").open("wb")
        self.process = subprocess.Popen(
            command, env=env, stdin=subprocess.DEVNULL, stdout=self._log, stderr=self._log
        )

    def url(self, name: str) -> str:
        """Where a notebook of the server opens."""
        assert wait_until(lambda: self._told() is not None or not alive(self.process.pid), START_S)
        told = self._told()
        assert told is not None, (self.folder / "server.log").read_text()
        return f"{told['url']}lab/tree/{name}?token={self._token}&reset"

    def _told(self) -> dict[str, Any] | None:
        """What the server says of itself once it is up."""
        for path in self._runtime.glob("jpserver-*.json"):
            text = path.read_text()
            if text.endswith("}"):
                return dict(json.loads(text))
        return None

    def stop(self) -> list[int]:
        """Ends the server as a terminal does; the processes that outlived it, now killed."""
        below = [self.process.pid, *descendants(self.process.pid)]
        self.process.send_signal(signal.SIGTERM)
        wait_until(lambda: not any(map(alive, below)), STOP_S)
        left = [pid for pid in below if alive(pid)]
        for pid in left:
            os.kill(pid, signal.SIGKILL)
        self.process.wait()
        self._log.close()
        return left


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """Debian's Chromium, without a window."""
    program = shutil.which("chromium")
    assert program, "no chromium in PATH; ./dev test --suite lab installs it"
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One server for all tests; no process of it may outlive it."""
    server = Lab(tmp_path_factory.mktemp("lab"))
    yield server
    assert server.stop() == []


@pytest.fixture
def open_notebook(
    lab: Lab, browser: Browser, request: pytest.FixtureRequest
) -> Iterator[Callable[..., Notebook]]:
    """Opens a notebook of the given cells, its kernel idle; closed at the end."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    name = request.node.name.removeprefix("test_")
    context = browser.new_context(viewport={"width": 1100, "height": 1100}, device_scale_factor=1)

    def start(*cells: str, language: str = "python") -> Notebook:
        written = nbformat.v4.new_notebook(
            cells=[nbformat.v4.new_code_cell(text) for text in cells],
            metadata={
                "kernelspec": {
                    "name": f"superkernel-{language}",
                    "display_name": KERNELS[language],
                    "language": language,
                }
            },
        )
        nbformat.write(written, lab.folder / "notebooks" / f"{name}.ipynb")
        page = context.new_page()
        page.goto(lab.url(f"{name}.ipynb"))
        return Notebook(page, PICTURES, name, language)

    yield start
    for page in context.pages:
        page.screenshot(path=PICTURES / f"{name}-at-the-end.png")
    context.close()
