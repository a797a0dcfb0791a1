"""./dev VERB: sets up, builds, tests, checks and shows libsk. Every verb may be repeated."""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
from pathlib import Path
from types import FrameType

from shell import BUILD, DevError, say

VERBS = {
    "demo": "install what is missing, build, run examples/quickstart.ipynb on four ranks",
    "env": 'print the lines with which a shell finds the installed product: eval "$(./dev env)"',
    "lab": "install what is missing, build, open JupyterLab with the kernel on copies of examples/",
    "test": "build Release and run every test",
    "check": "layers, names, lengths and words, documentation, format, lint (clang-tidy, ruff)",
    "tidy": "of the checks, clang-tidy alone: every source that changed since it was clean",
    "asan": "the C++ tests under AddressSanitizer and UndefinedBehaviorSanitizer",
    "tsan": "the C++ tests under ThreadSanitizer",
    "arm": "the library for AArch64, and by qemu-user its unit tests",
    "cuda": "compile the kernels for every GPU target and read what came out; gets nvcc if absent",
    "bench": "the benchmarks against their peers",
    "gpu": "checks, then benchmarks, on this machine's GPU, by what --bundle made",
    "slurm": "a command, or a shell, beside a Slurm of four nodes on this machine; as root",
    "docs": "these pages as a site, in build/site/; needs no build of the library",
    "wheel": "the Python package with all that it needs as one file, in build/dist/",
    "clean": "remove build/",
    "clean-room": "a command (the README's by default) in a bare Debian 12",
}


def parse(arguments: list[str]) -> argparse.Namespace:
    """The verb and its options."""
    parser = argparse.ArgumentParser(prog="./dev", description=__doc__)
    verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
    added = {
        name: verbs.add_parser(name, help=text, allow_abbrev=name != "gpu")
        for name, text in VERBS.items()
    }
    added["test"].add_argument("--suite", help="one folder of tests/, or python, kernel, ...")
    added["test"].add_argument(
        "--install",
        action="store_true",
        help="also what --suite torch (3 GB) or julia (60 MB) loads",
    )
    for name in ("test", "asan", "tsan", "arm"):
        added[name].add_argument("-k", dest="pattern", help="only tests whose name matches")
    added["gpu"].epilog = "All other options go to the bundle's run: ./dev gpu --list names steps."
    added["gpu"].add_argument(
        "--bundle", action="store_true", help="make the folder for a machine with a GPU; needs none"
    )
    added["gpu"].add_argument(
        "--python", action="append", default=[], metavar="FILE",
        help="with --bundle: carry the Python package too, also for this interpreter",
    )  # fmt: skip
    added["gpu"].add_argument(
        "--results", type=Path, metavar="FILE", help="keep and draw a visit.json that came back"
    )
    added["wheel"].add_argument(
        "--python", action="append", default=[], metavar="FILE",
        help="also for this interpreter; may be repeated (3.12 or later serves all that follow)",
    )  # fmt: skip
    added["wheel"].add_argument("--cuda", action="store_true", help="with the kernels for GPUs")
    added["wheel"].add_argument(
        "--try", dest="try_it", action="store_true", help="then try it in a bare Debian 12; as root"
    )
    added["check"].add_argument("--fix", action="store_true", help="format files in place")
    for name, what in (
        ("lab", "for JupyterLab, as --port=8889"),
        ("slurm", "the command, as srun --nodes=4 PROGRAM; without: a shell"),
        ("clean-room", "the command and its words; without: ./dev demo && ./dev test"),
    ):
        added[name].add_argument("rest", nargs=argparse.REMAINDER, metavar="...", help=what)
    # What follows these verbs is handed on as it is, options too.
    helped = arguments[1:2] in (["-h"], ["--help"]) and arguments[0] != "bench"
    if arguments and arguments[0] in ("bench", "clean-room", "lab", "slurm") and not helped:
        return argparse.Namespace(verb=arguments[0], rest=arguments[1:])
    options, unknown = parser.parse_known_args(arguments)
    if options.verb == "gpu" and not options.bundle and not options.results:
        options.rest, unknown = unknown, []
    if options.verb == "gpu" and options.python and not options.bundle:
        added["gpu"].error("--python is for --bundle: which Pythons its package is for")
    if unknown:  # In the words of the verb: of its options there is one to mean.
        added[options.verb].error(f"unrecognized arguments: {' '.join(unknown)}")
    return options


def act(options: argparse.Namespace) -> int:
    """Runs the verb. Imports are here so that `./dev clean` needs nothing that others need."""
    if options.verb == "clean":
        if BUILD.exists():
            say(f"removing {BUILD}")
            shutil.rmtree(BUILD)
        return 0
    if options.verb in ("test", "asan", "tsan"):
        import test

        if options.verb == "test":
            return test.test(options.suite, options.pattern, may_install=options.install)
        return test.sanitize(options.verb, options.pattern)
    if options.verb == "arm":
        import arm

        return arm.arm(options.pattern)
    if options.verb == "env":
        import product

        print(product.shell_lines())
        return 0
    if options.verb == "check":
        import check

        return check.check(fix=options.fix)
    if options.verb == "tidy":
        import check

        return check.lint_cpp()
    if options.verb == "cuda":
        import kernels

        return kernels.cuda()
    if options.verb == "gpu":
        import gpu

        if not options.bundle and not options.results:
            return gpu.gpu(options.rest)
        gpu.results(options.results) if options.results else gpu.bundle(options.python)
        return 0
    if options.verb == "demo":
        import demo

        return demo.demo()
    if options.verb == "wheel":
        import wheel

        made = wheel.wheel(wheel.requested(options.python), cuda=options.cuda)
        if not options.try_it:
            return 0
        import clean_room

        return clean_room.stranger(made)
    if options.verb == "lab":
        import lab

        return lab.lab(options.rest)
    if options.verb == "slurm":
        import slurm

        return slurm.slurm(options.rest)
    if options.verb == "docs":
        import docs

        return docs.docs()
    if options.verb == "bench":
        import bench

        return bench.bench(options.rest)
    import clean_room

    return clean_room.clean_room(options.rest)


def stop(_signal: int, _frame: FrameType | None) -> None:
    """Asked to end: unwind as Ctrl-C does, so that shell.run() ends what it started."""
    raise KeyboardInterrupt


def main() -> int:
    """Exit status: 0 all well, 1 something was found wrong, 2 the verb could not do its work."""
    signal.signal(signal.SIGTERM, stop)
    try:
        return act(parse(sys.argv[1:]))
    except DevError as error:
        print(f"dev: {error}", file=sys.stderr, flush=True)
        return 2
    except KeyboardInterrupt:
        print("dev: interrupted", file=sys.stderr, flush=True)
        return 130


if __name__ == "__main__":
    sys.exit(main())
