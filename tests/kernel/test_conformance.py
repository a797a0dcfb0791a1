"""jupyter_kernel_test's own suite, with the samples of a Python kernel, at 1, 4 and 16 ranks."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import tempfile
import unittest
from pathlib import Path
from typing import ClassVar

import jupyter_kernel_test
import pytest
from conftest import SK

if importlib.util.find_spec("libsk") is None:
    pytest.skip("the package libsk is not installed in this Python", allow_module_level=True)


def write_spec(ranks: int) -> str:
    """A kernelspec of our build with Python ranks; its name."""
    folder = Path(tempfile.mkdtemp(prefix="sk-conformance-"))
    name = f"conformance-{ranks}"
    spec = folder / "kernels" / name
    spec.mkdir(parents=True)
    argv = [str(SK), "kernel", "-f", "{connection_file}", "--ranks", str(ranks)]
    argv += ["--", sys.executable, "-m", "libsk.kernel"]
    text = {"argv": argv, "display_name": "x", "language": "python", "interrupt_mode": "message"}
    (spec / "kernel.json").write_text(json.dumps(text))
    os.environ["JUPYTER_PATH"] = str(folder)
    return name


class Samples(jupyter_kernel_test.KernelTests):
    """What the suite asks a Python kernel to do; ipykernel gives it the same samples."""

    ranks: ClassVar[int] = 0
    language_name = "python"
    file_extension = ".py"
    code_hello_world = "print('hello, world')"
    code_stderr = "import sys; print('test', file=sys.stderr)"
    completion_samples: ClassVar = [{"text": "zi", "matches": {"zip"}}]
    complete_code_samples: ClassVar = [
        "1",
        "print('hello, world')",
        "def f(x):\n  return x*2\n\n\n",
    ]
    incomplete_code_samples: ClassVar = ["print('''hello", "def f(x):\n  x*2"]
    invalid_code_samples: ClassVar = ["import = 7q"]
    code_page_something = "zip?"
    code_generate_error = "raise"
    code_execute_result: ClassVar = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in range(1, 4)]", "result": "[1, 4, 9]"},
    ]
    code_display_data: ClassVar = [
        {
            "code": "from IPython.display import HTML, display; display(HTML('<b>test</b>'))",
            "mime": "text/html",
        },
        {
            "code": "from IPython.display import Math, display; display(Math('\\\\frac{1}{2}'))",
            "mime": "text/latex",
        },
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "search")
    code_inspect_sample = "zip"
    code_clear_output = "from IPython.display import clear_output; clear_output()"

    @classmethod
    def setUpClass(cls) -> None:
        """A kernelspec of our build with this class's number of ranks."""
        if cls.ranks == 0:
            raise unittest.SkipTest("only its subclasses run")
        cls.kernel_name = write_spec(cls.ranks)
        super().setUpClass()


@pytest.mark.acceptance(1)
class TestOneRank(Samples):
    """Plain native messages."""

    ranks = 1


@pytest.mark.acceptance(1)
class TestFourRanks(Samples):
    """Identical on all ranks: still plain native messages."""

    ranks = 4


@pytest.mark.acceptance(1)
class TestSixteenRanks(Samples):
    """The same."""

    ranks = 16


class TestWelcome(jupyter_kernel_test.IopubWelcomeTests):
    """A subscription to iopub is answered."""

    ranks = 2
    support_iopub_welcome = True

    @classmethod
    def setUpClass(cls) -> None:
        """A kernelspec of our build."""
        cls.kernel_name = write_spec(cls.ranks)
        super().setUpClass()
