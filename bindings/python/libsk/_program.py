"""`sk` in the PATH of an environment: hands over to the program that lies in this package.

The script itself is pip's (`project.scripts`), which also runs where Python's path has spaces or is
long. A script of ours would begin with `#!` and that path, which Linux cannot read then.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import NoReturn


def main() -> NoReturn:
    """Becomes the program."""
    program = str(Path(__file__).parent / "bin" / "sk")
    os.execv(program, [program, *sys.argv[1:]])
