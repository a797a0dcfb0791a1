"""./dev demo: from a bare machine to a notebook that ran on four ranks."""

from __future__ import annotations

import product
from builder import build
from setup import PYTHON, setup
from shell import BUILD, ROOT, run, say

NOTEBOOK = ROOT / "examples" / "quickstart.ipynb"
OUTPUT = BUILD / "demo"
RANKS = 4


def demo() -> int:
    """Prints the merged outputs cell by cell; leaves notebook and page in build/demo."""
    setup("demo")
    build("release", "sk", "sk_tool")  # The tests are not needed here.
    product.install(product.Part.KERNEL)
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
