"""What a visit to a GPU finds around it: cuBLASLt, and a driver that keeps the GPU started."""

from __future__ import annotations

import os
import sys
import threading
from pathlib import Path

import pytest
from gpu import awake, places, visit

BENCH = Path(__file__).resolve().parents[1]


def test_cublaslt_is_found_in_the_wheels_of_either_age(tmp_path: Path) -> None:
    for place in ("nvidia/cublas/lib/libcublasLt.so.12", "nvidia/cu13/lib/libcublasLt.so.13"):
        site = tmp_path / place.split("/")[1]
        library = site / place
        library.parent.mkdir(parents=True)
        library.touch()
        assert places.find_cublaslt([str(site)], "", "/nowhere") == library
        assert places.find_cublaslt(["", "/nowhere", str(site)], "", "/nowhere") == library


def test_cublaslt_is_found_beside_another_python(tmp_path: Path) -> None:
    venv = tmp_path / "venv"
    library = venv / "lib/python3.12/site-packages/nvidia/cublas/lib/libcublasLt.so.12"
    library.parent.mkdir(parents=True)
    library.touch()
    (venv / "bin").mkdir()
    (venv / "bin" / "python3").symlink_to(sys.executable)
    assert places.find_cublaslt([], f"/nowhere:{venv / 'bin'}", "/nowhere") == library


def test_cublaslt_is_found_in_a_toolkit(tmp_path: Path) -> None:
    library = tmp_path / "cuda-13.0" / "lib64" / "libcublasLt.so.13"
    library.parent.mkdir(parents=True)
    library.touch()
    assert places.find_cublaslt([], "", f"{tmp_path}/cuda*") == library


def test_without_cublaslt_the_first_lines_say_so() -> None:
    assert visit.of_cublaslt({"cublaslt": 130101}, {"SK_CUBLASLT": "/p"}) == "cuBLASLt 130101, /p"
    absent = {"cublaslt": 0, "cublaslt_absent": "no such file"}
    assert "NO cuBLASLt, so no product has a peer: no such file" in visit.of_cublaslt(absent, {})


FAKE_NVML = (
    Path(os.environ.get("SK_BUILD_DIR", BENCH.parent / "build" / "release"))
    / "bench/gpu/libsk_fake_nvml.so"
)


def test_the_visit_waits_no_longer_for_a_driver_than_it_says(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = threading.Event()
    monkeypatch.setattr(awake, "_open_all", lambda _library: str(answer.wait(60)))
    assert awake.keep_awake("x.so", 0.1) == "x.so did not answer within 0.1 s"
    answer.set()


def test_the_visit_keeps_the_gpu_started_and_says_where_it_cannot() -> None:
    assert "nothing.so" in awake.keep_awake("nothing.so")
    if not FAKE_NVML.exists():
        pytest.skip(f"there is no {FAKE_NVML}; ./dev test builds it")
    assert awake.keep_awake(str(FAKE_NVML)) == ""
