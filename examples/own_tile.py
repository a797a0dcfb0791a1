"""A tile of your own as an operation: python own_tile.py"""

import ctypes
import shutil
import subprocess
import tempfile
from pathlib import Path

import libsk as sk
import numpy as np

Array = np.ndarray
REGIONS = {
    "reads": {"x": ("f32", "m, n"), "w": ("x", "n")},
    "writes": {"y": ("x", "m, n"), "s": ("x", "m")},
    "parameters": {"eps": (float, 0, 1)},
    # A row needs all of its elements, [j]; rows do not know each other.
    "effect": "y[i, j] = scaled[j](x[i, j], w[j]); s[i] = scale[j](x[i, j], w[j])",
}


@sk.tile(**REGIONS)
def scaled_rows(x: Array, w: Array, y: Array, s: Array, eps: float) -> None:
    """One tile: some rows of x, y and s, and all of w."""
    s[:] = 1 / np.sqrt((x * x).mean(1) + eps)
    y[:] = x * s[:, None] * w


x = np.random.default_rng().standard_normal((1000, 700)).astype(np.float32)
w = np.ones(700, np.float32)
scaled_rows.check(x, w, 1e-5)  # Does it keep to what was said?
y, s = scaled_rows(x, w, eps=1e-5)
print(scaled_rows, "mean square of a row:", (y[0] ** 2).mean())

# The same as compiled code: it runs on all cores.
C = """
#include <math.h>
#include <stdint.h>
typedef struct { int64_t rows, cols, stride, row, col, dtype; } view;
int32_t scaled(void* const* data, const view* v, const double* values, void* user) {
  const float* w = data[1];
  for (int64_t i = 0; i < v[0].rows; ++i) {
    const float* x = (const float*)data[0] + i * v[0].stride;
    float* y = (float*)data[2] + i * v[2].stride;
    double squares = 0;
    for (int64_t j = 0; j < v[0].cols; ++j) squares += (double)x[j] * x[j];
    const double by = 1 / sqrt(squares / v[0].cols + values[0]);
    ((float*)data[3])[i] = by;
    for (int64_t j = 0; j < v[0].cols; ++j) y[j] = x[j] * by * w[j];
  }
  return 1;
}
"""
compiler = shutil.which("cc")
if compiler is not None:
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "scaled.c"), Path(folder, "scaled.so")
        source.write_text(C)
        subprocess.run(
            [compiler, "-O3", "-shared", "-fPIC", source, "-lm", "-o", library], check=True
        )
        compiled = sk.tile(ctypes.CDLL(str(library)).scaled, name="scaled_in_c", **REGIONS)
        compiled.check(x, w, 1e-5)
        np.testing.assert_allclose(compiled(x, w, 1e-5)[0], y, rtol=1e-5, atol=1e-6)
        print(compiled, "agrees")
        compiled.close()
