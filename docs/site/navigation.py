"""The site's menu: sections in their order, with their pages by path without ".md".

"Text </path>" is where the menu should say something else than the page's title. What lies below
docs/tutorial and docs/adr follows the README of its folder by itself (conf.py).
"""

from __future__ import annotations

MENU: dict[str, tuple[str, ...]] = {
    "Start": (
        "At a glance </README>",
        "/docs/install",
        "/docs/examples",
        "/docs/troubleshooting",
        "/docs/launchers",
        "/docs/doctor",
        "/docs/status",
        "/docs/faults",
        "/docs/glossary",
        "/docs/proof",
        "/docs/refused",
    ),
    "Tutorial": ("A layer in six steps </docs/tutorial/README>",),
    "Notebook": (
        "/docs/notebook/install",
        "/docs/notebook/cells",
        "/docs/notebook/input",
        "/docs/notebook/errors",
        "/docs/notebook/interrupts",
        "/docs/notebook/faults",
        "/docs/notebook/preload",
        "/docs/notebook/julia",
    ),
    "Library": (
        "C and C++ </docs/c>",
        "Python </bindings/python/README>",
        "/docs/python-sessions",
        "PyTorch </docs/pytorch>",
        "Julia </bindings/julia/README>",
        "/docs/your-own-tile",
        "/docs/threads",
        "/docs/gpu-python",
        "/docs/gpu",
        "/docs/security",
    ),
    "Reference": (
        "/docs/reference/operations",
        "/docs/reference/python",
        "/docs/notebook/magics",
        "/docs/env",
        "Error codes </docs/reference/errors>",
        "/docs/log",
        "/docs/plan-format",
    ),
    "Design": (
        "/docs/adr/README",
        "/docs/sessions",
    ),
    "For developers": (
        "/CONTRIBUTING",
        "/docs/add-an-operation",
        "/bench/README",
        "/CHANGELOG",
    ),
}
