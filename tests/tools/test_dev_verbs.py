"""./dev: what it says to a command line that makes no sense."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def test_an_unknown_option_is_refused_in_the_words_of_its_verb() -> None:
    done = subprocess.run(
        [sys.executable, "-B", ROOT / "tools" / "dev" / "main.py", "demo", "--frob"],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 2
    assert done.stderr.startswith("usage: ./dev demo ")
    assert "unrecognized arguments: --frob" in done.stderr
    assert "clean-room" not in done.stderr
