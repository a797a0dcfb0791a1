"""``python -m libsk.kernel``: one rank of a notebook."""

from __future__ import annotations

import sys

from libsk.kernel.loop import main

sys.exit(main())
