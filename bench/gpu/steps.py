"""What a visit to a GPU does, by worth: what says most about the most comes first.

A step is one process of at most LIMIT_S seconds, few of CHECKED_S, so that what hangs, or poisons
the GPU's context, costs that much and no more. A benchmark is run once the checks that it names
have passed, and cares for no other.
"""

from __future__ import annotations

from dataclasses import dataclass

LIMIT_S = 20.0
LARGE_S = 45.0  # Of a product of half a gigabyte, which the CPU checks three times.
CHECKED_S = 90.0  # Under NVIDIA's checker, which rewrites all kernels of a program first.
SILICON, ENDURANCE, BENCH = "gpu_silicon_test", "gpu_endurance_test", "gpu_bench"
CHECKER = "compute-sanitizer"
PYTEST = "pytest"
API = "gpu_api_test"  # With the library of the Python package.
COMPILED_S = 90.0  # Of torch's compiler, which compiles with a compiler of C++ and of Triton.
WATCHED = "_watched"  # What follows the name of a program whose kernels' waits are watched.


@dataclass(frozen=True)
class Step:
    """One process. `part`: whose figures it adds to; "" for a check."""

    name: str
    command: tuple[str, ...]
    part: str = ""
    after: tuple[str, ...] = ()  # Checks that must have passed.
    limit_s: float = LIMIT_S
    env: tuple[tuple[str, str], ...] = ()

    @property
    def is_check(self) -> bool:
        """It passes or fails, and has no figures."""
        return not self.part


def tests(name: str, filters: str, program: str = SILICON, **more: object) -> Step:
    """Some tests of a program of googletest's."""
    return Step(name, (program, "--gtest_brief=0", f"--gtest_filter={filters}"), **more)  # type: ignore[arg-type]


def package(subject: str, limit_s: float = LIMIT_S) -> Step:
    """Some tests of the Python package, with torch's tensors."""
    return Step(f"python-{subject}", (PYTEST, f"test_{subject}.py"), limit_s=limit_s)


def bench(part: str, case: str, *after: str, limit_s: float = LIMIT_S) -> Step:
    """One case of a part of gpu_bench."""
    words = f"{part} {case}"
    return Step(words.replace(" ", "-"), (BENCH, part, case), part, after, limit_s)


def watched(part: str, case: str, *after: str) -> Step:
    """The same, by the program whose kernels' waits are watched."""
    return Step(f"{part}-{case}", (BENCH + WATCHED, part, case), part, (PROOF, *after))


def product(kind: str, case: str, *after: str) -> Step:
    """The kernel without a plan, compared with the CPU."""
    return Step(f"{kind}-{case}", (BENCH, kind, case), after=after)


# That kernels whose waits are watched end at all, before anything relies on them.
PROOF = "bare-watched"
ONE, DEEP, MANY = "128x256x64", "128x256x4096", "4096x4096x256"
PAIR_ONE, PAIR_DEEP = "256x256x64", "256x256x4096"
RANKS = (1, 2, 4, 8)
CROWDED = (12, 16)  # So many take loops of the kernels that fewer do not.
GEMMS = (
    "8192x8192x8192", "4096x4096x4096", "128x8192x8192", "4096x4096x512", "16x8192x8192",
    "8192x28672x8192", "1000x777x3333", "300x5000x4100",
)  # fmt: skip
RAW = ("8192x8192x8192", "4096x4096x4096", "128x8192x8192", "4096x4096x512")
PAIRED = ("8192x8192x8192", "4096x4096x4096", "4096x4096x512", "8192x28672x8192")
FUSED = ("4096x4096x4096", "8192x8192x2048")
STALLED = ("8192x8192x8192", "4096x4096x4096", "4096x4096x512", "128x8192x8192")
COLLECTIVES = ("allreduce", "allgather", "reduce_scatter", "broadcast")
ENDURED = (
    "AWaitRunsOutByTheGpusOwnClock", "EveryAbortEndsALaunchThatWaits", "SeveralPlansAreInFlight",
    "RunsOfOneGraphFollowEachOther", "LateRanksComputeTheSame", "LeavesNoMemoryBehind",
    "GraphReplaysAndPlainRunsOfLateRanksMix",
)  # fmt: skip
PACKAGE = ("operations", "streams", "memory", "cupy", "bad_input", "traces")
CUPY = "python-cupy"  # Absent where the Python has torch alone.
SANITIZED = ("Silicon.PlansFromTheirTexts", "Ranks/Products.OfEveryKernelAndType/2")


def moves(ranks: int) -> str:
    """The name of the check of collectives."""
    return "moves" if ranks == 1 else f"moves-{ranks}-ranks"


def products(ranks: int) -> str:
    """The name of the check of products."""
    return "products" if ranks == 1 else f"products-{ranks}-ranks"


def of_ranks(ranks: int) -> tuple[Step, Step]:
    """What so many ranks of one launch must compute."""
    return (
        tests(moves(ranks), f"Ranks/Collectives.OfEverySize/{ranks}"),
        tests(products(ranks), f"Ranks/Products.OfEveryKernelAndType/{ranks}"),
    )


STEPS = (
    # What the driver lets a launch be, plainly and in a graph.
    tests("smoke-cooperative", "Smoke.ACooperativeLaunch*"),
    tests("smoke-cluster", "Smoke.AClusterLaunch*"),
    tests("smoke-both", "Smoke.ACooperativeLaunchOfClusters*"),
    # The product's pipeline: one stage, all of them, round and round, one tile behind another.
    product("bare", ONE), product("bare", "128x256x256"), product("bare", DEEP),
    product("bare", MANY),
    Step(PROOF, (BENCH + WATCHED, "bare", ONE)),
    product("bare_pairs", PAIR_ONE), product("bare_pairs", PAIR_DEEP),
    product("bare_pairs", MANY),
    # The figure that all else is judged by.
    bench("versus", "4096x4096x4096", f"bare-{MANY}"),
    bench("versus", "8192x8192x8192", f"bare-{MANY}"),
    bench("versus_pairs", "8192x8192x8192", f"bare-{MANY}", f"bare_pairs-{MANY}"),
    *of_ranks(1),
    *of_ranks(2),
    tests("golden", "Silicon.PlansFromTheirTexts"),
    tests("pair-results", "ProductCases.ByPairsOfBlocks"),
    tests("raw-results", "ProductCases.OfARawB"),
    *(tests(f"api-{n}-ranks", f"Ranks/Api.*/{n}", API) for n in RANKS),
    *(package(subject) for subject in PACKAGE),
    package("torch_operations", COMPILED_S),
    *(bench("gemm", case, products(1)) for case in GEMMS[:4]),
    *(bench("raw", case, "raw-results") for case in RAW),
    bench("latency", "replayed run", products(1)),
    *(bench("pairs", case, "pair-results") for case in PAIRED[:2]),
    *(watched("stalls", case, products(1)) for case in STALLED),
    *(bench("fused", f"{case} 2 ranks", products(2)) for case in FUSED),
    *(bench("collectives", f"{kind} 2 ranks", moves(2)) for kind in COLLECTIVES),
    *of_ranks(4),
    *of_ranks(8),
    *(step for n in CROWDED for step in of_ranks(n)),
    *(tests(f"api-{n}-ranks", f"Ranks/Api.*/{n}", API) for n in CROWDED),
    *(bench("fused", f"{case} {n} ranks", products(n)) for n in RANKS[2:] for case in FUSED),
    *(
        bench("collectives", f"{kind} {n} ranks", moves(n))
        for n in RANKS[2:] for kind in COLLECTIVES
    ),
    *(bench("gemm", case, products(1), limit_s=LARGE_S) for case in GEMMS[4:]),
    *(bench("pairs", case, "pair-results", limit_s=LARGE_S) for case in PAIRED[2:]),
    bench("order", "8192x8192x8192", f"bare-{MANY}"),
    bench("latency", "abort", moves(2)),
    tests("random-plans", "Silicon.RandomPlans"),
    tests("random-products", "ProductCases.OfRandomShapes"),
    *(tests(f"endurance-{i}", f"Endurance.{name}", ENDURANCE) for i, name in enumerate(ENDURED, 1)),
    # What later GPUs will run: the PTX, compiled by the driver.
    tests("ptx", SANITIZED[0], env=(("CUDA_FORCE_PTX_JIT", "1"),)),
    # Lanes that do not come where they are waited for, in the watched kernels too.
    Step(
        "synccheck-watched",
        (CHECKER, "--tool", "synccheck", "--error-exitcode=9", BENCH + WATCHED, "bare", ONE),
        limit_s=CHECKED_S,
    ),
    *(
        Step(
            f"{tool}-{i}",
            (CHECKER, "--tool", tool, "--error-exitcode=9", SILICON, f"--gtest_filter={each}"),
            limit_s=CHECKED_S,
        )
        for tool in ("memcheck", "synccheck", "racecheck")
        for i, each in enumerate(SANITIZED, 1)
    ),
)  # fmt: skip
