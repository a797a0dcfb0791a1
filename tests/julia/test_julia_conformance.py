"""jupyter_kernel_test's own suite, with IJulia's samples, at 1, 4 and 16 ranks."""

from __future__ import annotations

from typing import ClassVar

import jupyter_kernel_test
import pytest
from conftest import Kernels


class Samples(jupyter_kernel_test.KernelTests):
    """What the suite asks a Julia kernel to do; on a kernel that has run these cells before, for
    the suite's time limits know nothing of a language that compiles at first."""

    __test__ = False
    ranks: ClassVar[int] = 0
    language_name = "julia"
    file_extension = ".jl"
    code_hello_world = 'println("hello, world")'
    code_stderr = 'println(stderr, "test")'
    completion_samples: ClassVar = [
        {"text": "zi", "matches": {"zip"}},
        {"text": "\\alpha", "matches": {"α"}},
    ]
    complete_code_samples: ClassVar = ["1", "println(1)", "f(x) = 2x\n", "function g()\nend"]
    incomplete_code_samples: ClassVar = ['println("hello', "function f(x)\n  x * 2", "begin"]
    invalid_code_samples: ClassVar = ["import = 7q", "1 )"]
    code_page_something = "?zip"
    code_generate_error = 'error("an error")'
    code_execute_result: ClassVar = [
        {"code": "1+2+3", "result": "6"},
        {"code": "[n*n for n in 1:3]", "result": "3-element Array{Int64,1}:\n 1\n 4\n 9"},
        {"code": "(1, 2.5, :a)", "result": "(1, 2.5, :a)"},
    ]
    code_display_data: ClassVar = [
        {"code": 'display("text/html", "<b>test</b>")', "mime": "text/html"},
        {"code": 'using Markdown; display(md"*test*")', "mime": "text/markdown"},
        {"code": 'display("image/svg+xml", "<svg/>")', "mime": "image/svg+xml"},
        {"code": 'display("image/png", UInt8[0x89, 0x50])', "mime": "image/png"},
    ]
    code_history_pattern = "1?2*"
    supported_history_operations = ("tail", "search")
    code_inspect_sample = "zip"
    code_clear_output = "sk.clear_output()"

    @pytest.fixture(autouse=True, scope="class")
    @classmethod
    def of_our_kernel(cls, kernels: Kernels) -> None:
        """In the place of setUpClass() and tearDownClass()."""
        kernel = kernels(cls.ranks)
        cls.km, cls.kc = kernel.manager, kernel.client
        cells = [cls.code_page_something, cls.code_generate_error, *cls.complete_code_samples]
        cells += [each["code"] for each in cls.code_display_data]
        for code in cells:
            kernel.run(code)
        for code in (cls.code_inspect_sample, "\\alph"):
            kernel.client.inspect(code)
            kernel.client.get_shell_msg(timeout=60)
            kernel.client.complete(code)
            kernel.client.get_shell_msg(timeout=60)

    @classmethod
    def setUpClass(cls) -> None:
        """Nothing to start."""

    @classmethod
    def tearDownClass(cls) -> None:
        """Nothing to stop."""


class TestOneRank(Samples):
    """Plain native messages."""

    __test__ = True
    ranks = 1


class TestFourRanks(Samples):
    """Identical on all ranks: still plain native messages."""

    __test__ = True
    ranks = 4


class TestSixteenRanks(Samples):
    """The same."""

    __test__ = True
    ranks = 16
