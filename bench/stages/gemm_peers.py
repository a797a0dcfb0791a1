"""The GEMM peers: builds a shim per library and version, and says how to load them."""

from __future__ import annotations

import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import peers
from measure.rounds import Bench

SHIMS = Path(__file__).resolve().parent.parent / "peers"
FLAGS = ("-std=c++20", "-O2", "-shared", "-fPIC", "-fvisibility=hidden", "-fno-gnu-unique")
TITLES = {"dnnl2": "oneDNN 2.6 (Debian)", "dnnl3": "oneDNN 3.13 (PyPI)", "mkl": "MKL 2026.2"}


@dataclass
class GemmPeers:
    """The shims that could be built, and the environment in which they load."""

    shims: list[Path] = field(default_factory=list)
    env: dict[str, str] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        return [shim.stem for shim in self.shims]

    def only(self, names: Sequence[str]) -> GemmPeers:
        """These alone, in the same environment."""
        return GemmPeers([shim for shim in self.shims if shim.stem in names], self.env)

    def joined(self, other: dict[str, str]) -> dict[str, str]:
        """Another environment (an MPI's) with this one's added; its libraries come first."""
        paths = [env.get("LD_LIBRARY_PATH", "") for env in (other, self.env)]
        return {**other, **self.env, "LD_LIBRARY_PATH": ":".join(path for path in paths if path)}


def build(bench: Bench) -> GemmPeers:
    """Compiles what is installed; a peer that is not is said and left out."""
    found = GemmPeers(env={"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"})
    oneapi = peers.folder() / "oneapi"
    plans: dict[str, tuple[str, list[str]]] = {"dnnl2": ("dnnl_gemm.cpp", ["-ldnnl"])}
    if peers.ready(peers.SPECS["oneapi"]):
        peers.link_oneapi_libraries()
        include, lib = f"-I{oneapi / 'include'}", oneapi / "lib"
        loose = "-Wl,--allow-shlib-undefined"
        plans["dnnl3"] = ("dnnl_gemm.cpp", [include, str(lib / "libdnnl.so.3"), loose])
        plans["mkl"] = ("mkl_gemm.cpp", [include, str(lib / "libmkl_rt.so.3"), loose])
        # The 3.13 of the package index runs through SYCL and needs the OpenCL CPU runtime.
        found.env |= {
            "LD_LIBRARY_PATH": str(peers.oneapi_libraries()),
            "OCL_ICD_FILENAMES": str(lib / "libintelocl.so"),
            "ONEAPI_DEVICE_SELECTOR": "opencl:cpu",
        }
    else:
        bench.say(f"without oneDNN 3.13 and MKL: {oneapi} is not installed")
    for name, (source, libraries) in plans.items():
        shim = bench.scratch / "programs" / f"{name}.so"
        shim.parent.mkdir(parents=True, exist_ok=True)
        root = f"-I{SHIMS.parent.parent}"
        command = ["g++", *FLAGS, root, str(SHIMS / source), "-o", str(shim), *libraries]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode == 0:
            found.shims.append(shim)
        else:
            last = done.stderr.strip().splitlines()[-1:] or ["no message"]
            bench.say(f"without {TITLES[name]}: {last[0]}")
    return found


def published(found: GemmPeers) -> dict[str, dict[str, object]]:
    """For the result file."""
    forced = {
        name: value
        for name, value in found.env.items()
        if name not in ("LD_LIBRARY_PATH", "OCL_ICD_FILENAMES")
    }
    return {name: {"title": TITLES[name], "forced": forced} for name in found.names}
