"""Runs the tests of LibSK.jl: each a Julia program, alone or on ranks that are processes."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parents[1]
TESTS = PACKAGE / "test"
ROOT = PACKAGE.parents[1]
TIMEOUT_S = 600  # Of a program; what hangs ends by the library's own timeouts long before.


@pytest.fixture(scope="session")
def julia() -> str:
    """The program, as ./dev test found it."""
    found = os.environ.get("SK_JULIA")
    if not found or found == "None":
        pytest.skip("no Julia here; ./dev test --suite julia --install gets it")
    return found


@pytest.fixture(scope="session")
def prefix() -> Path:
    """Where the product is installed."""
    return Path(os.environ["SK_PREFIX"])


Run = Callable[..., "subprocess.CompletedProcess[str]"]


@pytest.fixture(scope="session")
def run(julia: str, prefix: Path, tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Runs a program on ranks, with the package from `package`; a fresh seed, which it prints."""

    def on_ranks(
        program: Path | str,
        ranks: int = 1,
        *arguments: str,
        package: Path = PACKAGE,
        depot: Path | None = None,
        **environment: str,
    ) -> subprocess.CompletedProcess[str]:
        env = {
            **os.environ,
            "JULIA_LOAD_PATH": f"{package}:@stdlib",
            "JULIA_DEPOT_PATH": str(depot or depot_of_all),
            "SK_LIBRARY": str(prefix / "lib" / "libsk.so.0"),
            "SK_TEST_SEED": os.environ.get("SK_TEST_SEED", str(secrets.randbelow(2**32))),
            **environment,
        }
        # Compiling is most of what these programs do.
        command = [julia, "--startup-file=no", "-O0", str(program), *arguments]
        if ranks > 1:
            command = [str(prefix / "bin" / "sk"), "run", "--tag", "-n", str(ranks), "--", *command]
        return subprocess.run(
            command, env=env, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
        )

    depot_of_all = tmp_path_factory.mktemp("depot")
    # Else each rank would precompile the package, and all at once.
    loaded = tmp_path_factory.mktemp("load") / "load.jl"
    loaded.write_text("using LibSK\n")
    done = on_ranks(loaded)
    assert done.returncode == 0, done.stderr
    return on_ranks
