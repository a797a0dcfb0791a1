"""Configuring and building a preset of CMakePresets.json."""

from __future__ import annotations

import os
import shutil
from collections.abc import Sequence
from pathlib import Path

from setup import PYTHON
from shell import BUILD, ROOT, jobs, run


def compiler_environment() -> dict[str, str]:
    """The compiler cache; the caller's own settings of it win."""
    if shutil.which("ccache") is None:
        return {}
    defaults = {
        "CMAKE_C_COMPILER_LAUNCHER": "ccache",
        "CMAKE_CXX_COMPILER_LAUNCHER": "ccache",
        "CCACHE_DIR": str(BUILD / "ccache"),
        "CCACHE_MAXSIZE": "3G",
        "CCACHE_SLOPPINESS": "pch_defines,time_macros",  # Else nothing with a precompiled header.
    }
    return {name: os.environ.get(name, value) for name, value in defaults.items()}


def configure(preset: str, options: Sequence[str] = ()) -> Path:
    """Configures `preset` and returns its folder; CMake itself does nothing that is done.

    The options stay in force for whoever configures it later.
    """
    env = compiler_environment()
    run(["cmake", "--preset", preset, *options], f"configuring {preset}", env=env, timeout_s=300)
    return BUILD / preset


def configure_binding(preset: str) -> Path:
    """Configures the Python binding beside `preset`, as pip does it, and returns its folder."""
    folder = BUILD / f"{preset}-python"
    options = [
        f"-DPython_EXECUTABLE={PYTHON}",
        "-DCMAKE_EXPORT_COMPILE_COMMANDS=ON",
    ]
    command = ["cmake", "-G", "Ninja", "-S", ROOT / "bindings/python", "-B", folder, *options]
    run(command, f"configuring the binding for {preset}", env=compiler_environment(), timeout_s=300)
    return folder


def build(preset: str, *targets: str, options: Sequence[str] = ()) -> Path:
    """Configures and builds `preset`: the targets given, else all. Returns its folder."""
    folder = configure(preset, options)
    chosen = ["--target", *targets] if targets else []
    command = ["cmake", "--build", folder, "--parallel", str(jobs()), *chosen]
    run(command, f"building {preset}", env=compiler_environment())
    return folder
