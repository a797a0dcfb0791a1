"""The options of ./dev bench. Needs no package, so that help comes before anything is installed."""

from __future__ import annotations

import argparse
import sys

import peers

STAGES = (
    "allreduce-2",
    "allreduce-2-read",
    "allreduce-4",
    "allreduce-16",
    "gemm",
    "fused",
    "gathered",
    "workers",
    "rows",
    "hosts",
    "misc",
    "python",
    "julia",
    "julia-notebook",
    "notebook",
    "preload",
)
ABOUT = """Measures libsk against the strongest peers that run here.

Stages write bench/results/<stage>-<date>-<cpu>.json and pictures beside them; the table at the end
holds every goal with its measured ratio. A run that was cut off goes on where it stopped."""


def parse(arguments: list[str]) -> argparse.Namespace:
    """The options; ends the process with a sentence where one is wrong."""
    parser = argparse.ArgumentParser(
        prog="./dev bench",
        description=ABOUT,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help="few short rounds: does it run at all")
    parser.add_argument("--stages", default=",".join(STAGES), help=f"of {', '.join(STAGES)}")
    parser.add_argument("--mpis", default=",".join(peers.MPIS), help=f"of {', '.join(peers.MPIS)}")
    parser.add_argument("--rounds", type=int, help="that must count (7; quick: 2)")
    parser.add_argument("--fresh", action="store_true", help="forget the rounds of a cut-off run")
    parser.add_argument("--no-install", action="store_true", help="only peers that are there")
    parser.add_argument("--plots-only", action="store_true", help="draw the newest results anew")
    options = parser.parse_args(arguments)
    options.stages = [name for name in options.stages.split(",") if name]
    options.mpis = [name for name in options.mpis.split(",") if name]
    for chosen, known in ((options.stages, STAGES), (options.mpis, peers.MPIS)):
        unknown = [name for name in chosen if name not in known]
        if unknown:
            parser.error(f"no such name: {', '.join(unknown)}; there are {', '.join(known)}")
    if options.rounds is not None and options.rounds < 1:
        parser.error("--rounds must be at least 1")
    return options


if __name__ == "__main__":
    parse(sys.argv[1:])
