"""A rank forked from the template must look like an interpreter of its own to the user's code."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from session import Session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")

RANKS = 3


@pytest.fixture(scope="module")
def forked() -> Iterator[Session]:
    with Session(RANKS) as session:
        session.run("comm.barrier()")  # Connected: threads and descriptors of that are settled.
        yield session


@pytest.fixture(scope="module")
def started() -> Iterator[Session]:
    with Session(RANKS, forked=False) as session:
        session.run("comm.barrier()")
        yield session


def value(session: Session, expression: str, rank: int = 0) -> Any:
    """Of an expression on one rank."""
    cell = session.run(f"print(repr({expression}))", str(rank))
    assert cell.ename == "", cell
    return ast.literal_eval(cell.out)


PROBES = [
    "__import__('sys').argv",
    "tuple(__import__('sys').flags)",
    "__import__('sys').path",
    "__import__('os').getcwd()",
    "[str(__import__('signal').getsignal(n)).split(' at ')[0]"
    " for n in __import__('signal').valid_signals()]",
    "__import__('signal').pthread_sigmask(0, [])",
    "[t.name for t in __import__('threading').enumerate()]",
    "__import__('threading').main_thread() is __import__('threading').current_thread()",
    "__import__('threading').get_native_id() == __import__('os').getpid()",
    "__import__('os').getpgrp() == __import__('os').getsid(0) == __import__('os').getpid()",
    "[__import__('os').readlink(f'/proc/self/fd/{n}').split(':')[0] for n in (0, 1, 2)]",
    "[(s.encoding, s.errors, s.line_buffering, s.fileno(), s.closed)"
    " for s in (__import__('sys').stdout, __import__('sys').stderr, __import__('sys').stdin)]",
    "(__import__('gc').isenabled(), __import__('gc').get_threshold())",
    "__import__('faulthandler').is_enabled()",
    "(__name__, __import__('sys').modules['__main__'].__dict__ is globals())",
    "sorted(name for name in globals() if name != '__builtins__')",
    "(len(In), Out, get_ipython().execution_count)",
    "sorted(n.split('-')[0] for n in __import__('linecache').cache if 'ipython-input' in n)",
    "[hasattr(__import__('sys'), f'last_{n}') for n in ('type', 'value', 'traceback')]",
    "__import__('sys').exc_info()",
    "get_ipython().user_ns_hidden.keys() == set(globals()) - {'_'}",
    "str(__import__('warnings').filters)",
    "__import__('logging').getLogger().handlers",
    "__import__('atexit')._ncallbacks()",
    "__import__('asyncio').get_event_loop_policy()._local._loop is None",
    "__import__('multiprocessing').current_process().pid == __import__('os').getpid()",
    "__import__('decimal').getcontext().prec",
    "(rank, local_rank, world_size, comm.rank)",
    "'SK_TEMPLATE_FD' in __import__('os').environ",
]


@pytest.mark.parametrize("probe", PROBES)
def test_it_is_as_one_that_was_started_by_itself(
    forked: Session, started: Session, probe: str
) -> None:
    for rank in (0, RANKS - 1):
        assert value(forked, probe, rank) == value(started, probe, rank)


def test_no_descriptor_is_left_of_the_template(forked: Session, started: Session) -> None:
    kinds = (
        "import os\n"
        "links = [os.readlink(f'/proc/self/fd/{n}') for n in os.listdir('/proc/self/fd')\n"
        "         if os.path.exists(f'/proc/self/fdinfo/{n}')]\n"
        "print(sorted(link.split('[')[0] for link in links))"
    )
    seen = []
    for session in (forked, started):
        seen.append(session.run(kinds, "1").out)
    assert seen[0] == seen[1] != ""


def test_the_environment_is_the_ranks_own(forked: Session, started: Session) -> None:
    of_job = ("_PORT", "_RUN_ID", "COORDINATOR_ADDRESS")
    probe = (
        "sorted(f'{k}={v}' for k, v in __import__('os').environ.items()"
        f" if not k.endswith({of_job!r}))"
    )
    for rank in range(RANKS):
        lines = value(forked, probe, rank)
        assert lines == value(started, probe, rank)
        assert f"RANK={rank}" in lines and f"LOCAL_RANK={rank}" in lines
    # What Python shows is what a child gets.
    assert forked.run("!echo $RANK $WORLD_SIZE", "2").out == f"2 {RANKS}\n"


def test_only_modules_of_the_notebook_are_loaded_before(forked: Session, started: Session) -> None:
    probe = "sorted(__import__('sys').modules)"
    extra = set(value(forked, probe)) - set(value(started, probe))
    roots = {name.split(".")[0] for name in extra}
    for heavy in ("numpy", "matplotlib", "torch", "asyncio", "multiprocessing", "sqlite3", "zmq"):
        assert heavy not in roots, extra


@pytest.mark.parametrize(
    "probe",
    [
        "__import__('random').random()",
        "__import__('uuid').uuid4().hex",
        "__import__('uuid').uuid1().hex",
        "__import__('os').getpid()",
        "__import__('secrets').token_hex()",
        "next(__import__('tempfile')._get_candidate_names())",
        "__import__('threading').get_native_id()",
        "__import__('numpy').random.random()",
        "__import__('numpy').random.default_rng().random()",
    ],
)
def test_what_must_differ_between_ranks_does(forked: Session, probe: str) -> None:
    assert len({value(forked, probe, rank) for rank in range(RANKS)}) == RANKS


def test_numpy_loaded_before_the_fork_is_seeded_anew(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("import numpy.random, random\n")
    # One thread: those of a BLAS cannot be forked.
    environment = {"PYTHONPATH": str(tmp_path), "OPENBLAS_NUM_THREADS": "1"}
    with Session(RANKS, environment) as session:
        assert value(session, "'numpy' in __import__('sys').modules")
        for probe in ("__import__('numpy').random.random()", "__import__('random').random()"):
            assert len({value(session, probe, rank) for rank in range(RANKS)}) == RANKS


def test_a_program_that_starts_a_thread_before_the_fork_is_the_cause(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import threading\nthreading.Thread(target=threading.Event().wait, daemon=True).start()\n"
    )
    with Session(2, {"PYTHONPATH": str(tmp_path)}) as session:
        cell = session.run("print(1)")
    assert cell.out == "" and "2 threads" in cell.evalue, cell
    assert "SK_TEMPLATE=0" in cell.evalue, cell
    # And so it is: nothing is forked then.
    with Session(2, {"PYTHONPATH": str(tmp_path)}, forked=False) as session:
        assert session.run("print(1)").out == "1\n"


def test_a_broken_import_is_the_cause_of_death(tmp_path: Path) -> None:
    (tmp_path / "IPython.py").write_text("raise ImportError('no IPython of this kind')\n")
    with Session(2, {"PYTHONPATH": str(tmp_path)}) as session:
        cell = session.run("print(1)")
    assert cell.out == "" and "no IPython of this kind" in cell.evalue, cell


def test_what_a_start_printed_is_not_printed_by_every_rank(tmp_path: Path) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('from the start')\n")
    with Session(2, {"PYTHONPATH": str(tmp_path)}) as session:
        assert session.run("print('cell')").out == "cell\n"


def test_two_sessions_have_a_template_each() -> None:
    with Session(2, {"SK_TEST_OF": "a"}) as a, Session(2, {"SK_TEST_OF": "b"}) as b:
        for session, name in ((a, "a"), (b, "b")):
            session.run("import os; kept = os.environ['SK_TEST_OF']")
            assert session.run("print(kept)").out == f"{name}\n"
        parents = [value(session, "os.getppid()", 1) for session in (a, b)]
        assert parents[0] != parents[1] and 1 not in parents
        assert value(a, "os.getppid()", 0) == parents[0]


def test_processes_and_threads_of_a_cell_work(forked: Session) -> None:
    cell = forked.run(
        "import concurrent.futures, multiprocessing, os\n"
        "with concurrent.futures.ThreadPoolExecutor(2) as pool:\n"
        "    print(list(pool.map(abs, [-1, 2])))\n"
        "child = multiprocessing.get_context('fork').Process(target=os._exit, args=(3,))\n"
        "child.start(); child.join(60); print(child.exitcode)"
    )
    assert (cell.out, cell.ename) == ("[1, 2]\n3\n", "")
