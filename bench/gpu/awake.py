"""Keeps the GPU started between steps.

Where no daemon does, the driver shuts a GPU down that no process has open, and the next one waits
seconds for it. So the visit itself holds it open, by NVML, which takes no context and no memory.
"""

from __future__ import annotations

import ctypes
import threading

LIMIT_S = 60.0  # To start a GPU, by a driver that may not answer.
GPUS_MAX = 16
LIBRARY = "libnvidia-ml.so.1"


def _open_all(library: str) -> str:
    try:
        nvml = ctypes.CDLL(library)
        status = nvml.nvmlInit_v2()
        if status != 0:
            return f"nvmlInit: status {status}"
        for index in range(GPUS_MAX):  # It is the handle that starts one.
            handle = ctypes.c_void_p()
            status = nvml.nvmlDeviceGetHandleByIndex_v2(index, ctypes.byref(handle))
            if status != 0:
                break
    except (OSError, AttributeError) as problem:
        return str(problem)
    return "" if index > 0 else f"nvmlDeviceGetHandleByIndex: status {status}"


def keep_awake(library: str = LIBRARY, limit_s: float = LIMIT_S) -> str:
    """Until this process ends; the sentence says why not."""
    why = [f"{library} did not answer within {limit_s:g} s"]

    def open_all() -> None:
        why[0] = _open_all(library)

    thread = threading.Thread(target=open_all, daemon=True)
    thread.start()
    thread.join(limit_s)
    return why[0]
