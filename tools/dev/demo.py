"""./dev demo: from a bare machine to a notebook that ran on four ranks."""

from __future__ import annotations

import product
from builder import build
from setup import PYTHON, VENV, setup
from shell import BUILD, ROOT, DevError, run, say

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
OUTPUT = BUILD / "demo"
RANKS = 4


def install_kernel() -> None:
    """The kernelspec goes into the environment, so that nothing outside build/ is touched."""
    tool = product.PREFIX / "bin" / "sk"
    if not tool.exists():
        raise DevError("this build installs no `sk` tool yet")
    command = [tool, "install", "--sys-prefix", VENV]
    run(command, "installing the kernelspec", env=product.environment())


def demo() -> int:
    """Prints the cells' merged outputs as they come; leaves notebook and page in build/demo."""
    if not NOTEBOOK.exists():
        raise DevError(f"there is no notebook yet ({NOTEBOOK.relative_to(ROOT)})")
    setup("demo")
    build("release")
    product.install()
    install_kernel()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    runner = ROOT / "tools" / "dev" / "run_notebook.py"
    env = {**product.environment(), "SK_NRANKS": str(RANKS)}
    command = [PYTHON, "-B", runner, NOTEBOOK, OUTPUT / NOTEBOOK.name]
    run(command, f"{NOTEBOOK.name} on {RANKS} ranks", env=env, stream=True, timeout_s=600.0)
    page = [PYTHON, "-m", "nbconvert", "--to", "html", OUTPUT / NOTEBOOK.name]
    run(page, "making the page", env=product.environment(), timeout_s=300.0)
    for path in (OUTPUT / NOTEBOOK.name, (OUTPUT / NOTEBOOK.name).with_suffix(".html")):
        say(f"left: {path.relative_to(ROOT)}")
    return 0
