"""The product as a user gets it: installed in build/install, its Python package in build/venv."""

from __future__ import annotations

import enum
import hashlib
import shlex
from pathlib import Path

from builder import compiler_environment
from setup import PYTHON, VENV
from shell import BUILD, ROOT, DevError, run


class Part(enum.IntEnum):
    """How much of the product a suite needs; each stands on those before."""

    NOTHING = 0
    LIBRARY = 1
    PACKAGE = 2
    KERNEL = 3


PREFIX = BUILD / "install"
PACKAGE = ROOT / "bindings" / "python"


def environment(over: Path | None = None) -> dict[str, str]:
    """What a program needs to find the installed product: tools, library, pkg-config file.

    `over` is an environment on top of build/venv, made by setup.install_layer().
    """
    first = f"{over / 'bin'}:" if over else ""
    path = f"{first}{VENV / 'bin'}:{PREFIX / 'bin'}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin"
    return {"PATH": path, "SK_PREFIX": str(PREFIX), "SK_BUILD_DIR": str(BUILD / "release")}


def shell_lines() -> str:
    """For a POSIX shell: programs, compilers and Python find what lies below build/."""
    if not (PREFIX / "bin" / "sk").exists():
        raise DevError("nothing is installed below build/ yet; ./dev demo does that")
    places = {
        "PATH": [VENV / "bin", PREFIX / "bin"],
        "PKG_CONFIG_PATH": [PREFIX / "lib" / "pkgconfig"],
        "LD_LIBRARY_PATH": [PREFIX / "lib"],
        "CMAKE_PREFIX_PATH": [PREFIX],
    }
    return "\n".join(
        f"export {name}={shlex.quote(':'.join(map(str, paths)))}${{{name}:+:${name}}}"
        for name, paths in places.items()
    )


def _sources_key(folder: Path) -> str:
    """Changes when a file of the package, a header, the library or the program does."""
    skipped = {"__pycache__", "build", "dist", "tests"}
    files = [path for path in sorted(folder.rglob("*")) if path.is_file()]
    files = [path for path in files if not skipped & set(path.relative_to(folder).parts)]
    digest = hashlib.sha256()
    installed = [*_libraries(), *_kernels(), PREFIX / "bin" / "sk"]
    for path in [*files, *sorted((ROOT / "include").rglob("*.h")), *installed]:
        digest.update(str(path).encode())
        digest.update(path.read_bytes())
    return digest.hexdigest()


def _libraries() -> list[Path]:
    return sorted(path for path in PREFIX.rglob("libsk.so.*") if not path.is_symlink())


def _kernels() -> list[Path]:
    return sorted(path for path in PREFIX.rglob("libsk_cuda.so.*") if not path.is_symlink())


def install_library() -> None:
    """Puts the Release build under build/install, as `cmake --install` would for a user."""
    run(["cmake", "--install", BUILD / "release", "--prefix", PREFIX], "installing into build/")
    if not _libraries():
        raise DevError(f"the installation under {PREFIX} holds no libsk.so")


def install_package() -> None:
    """Puts the Python package into build/venv, unless it is already what the sources say."""
    stamp = VENV / "package-key"
    key = _sources_key(PACKAGE)
    if stamp.exists() and stamp.read_text() == key:
        return
    pip = [PYTHON, "-m", "pip", "--disable-pip-version-check", "install"]
    options = ["--no-build-isolation", "--no-deps", "--force-reinstall"]
    env = {**compiler_environment(), **environment(), "CMAKE_PREFIX_PATH": str(PREFIX)}
    run([*pip, *options, PACKAGE], "installing the Python package", env=env)
    stamp.write_text(key)


def _ranks(ranks: int | None) -> list[str]:
    return [] if ranks is None else ["--ranks", str(ranks)]


def install_kernel(venv: Path = VENV, ranks: int | None = None) -> None:
    """The kernelspec goes into the environment, so that nothing outside build/ is touched."""
    command = [VENV / "bin" / "sk", "install", "--sys-prefix", "--python", venv / "bin" / "python"]
    run([*command, *_ranks(ranks)], "installing the kernelspec", env=environment())


def install_julia_kernel(venv: Path, julia: Path, ranks: int | None = None) -> None:
    """That of Julia into the same place, without the system image, which takes minutes to make."""
    command = [VENV / "bin" / "sk", "install", "--language", "julia", "--julia", julia]
    command += ["--no-image", "--prefix", venv, *_ranks(ranks)]
    run(command, "installing Julia's kernelspec", env=environment())


def install(part: Part) -> None:
    """Installs `part` and what it stands on; each does nothing when nothing changed."""
    if part >= Part.LIBRARY:
        install_library()
    if part >= Part.PACKAGE:
        install_package()
    if part >= Part.KERNEL:
        install_kernel()
