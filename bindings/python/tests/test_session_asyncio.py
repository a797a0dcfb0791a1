"""Sessions in event loops: cells are awaited while the loop goes on."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator

import libsk as sk
import pytest
from session_tools import open_session

pytest.importorskip("IPython", reason="the kernel needs IPython (pip install libsk[kernel])")


@pytest.fixture(scope="module")
def session() -> Iterator[sk.Session]:
    with open_session(2) as session:
        yield session


def test_the_loop_goes_on(session: sk.Session, tmp_path_factory: pytest.TempPathFactory) -> None:
    gate = tmp_path_factory.mktemp("gate") / "open"

    async def main() -> str | None:
        cell = session.start(f"import os\nwhile not os.path.exists({str(gate)!r}): pass\n'through'")
        gate.touch()  # Only a loop that is not blocked comes here while the cell runs.
        return (await cell).value

    assert asyncio.run(main()) == "'through'"


def test_many_are_awaited_at_once(session: sk.Session) -> None:
    async def main() -> list[str | None]:
        cells = [session.start(str(i)) for i in range(10)]

        async def value_of(cell: sk.Cell) -> str | None:
            return (await cell).value

        return await asyncio.gather(*map(value_of, cells))

    assert asyncio.run(main()) == [str(i) for i in range(10)]


def test_events_and_questions(session: sk.Session) -> None:
    async def main() -> list[str]:
        cell = session.start("print('got', input('? '))", input=True)
        kinds = []
        async for event in cell:
            kinds.append(event.kind)
            if event.kind == "input":
                cell.answer("this")
        assert (await cell).text == "got this\n"
        return kinds

    kinds = asyncio.run(main())
    assert kinds[0] == "start" and "input" in kinds and kinds[-1] == "done"


def test_an_error(session: sk.Session) -> None:
    async def main() -> None:
        await session.start("1 / 0")

    with pytest.raises(sk.CellError, match="division by zero"):
        asyncio.run(main())


def test_who_gives_up_does_not_end_the_cell(session: sk.Session) -> None:
    async def main() -> None:
        cell = session.start("from time import sleep\nsleep(600)")
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(cell._ended(), 0.05)
        session.interrupt()
        with pytest.raises(sk.CellError, match="KeyboardInterrupt"):
            await cell

    asyncio.run(main())


def test_loops_of_several_threads(session: sk.Session) -> None:
    values: list[str | None] = []

    async def main(number: int) -> None:
        for i in range(3):
            values.append((await session.start(f"{number}, {i}")).value)

    threads = [threading.Thread(target=lambda n=n: asyncio.run(main(n))) for n in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive()
    assert sorted(map(str, values)) == [f"({n}, {i})" for n in range(3) for i in range(3)]


def test_close_ends_whoever_awaits() -> None:
    async def main() -> None:
        session = open_session(1)
        cell = session.start("from time import sleep\nsleep(600)")
        waiting = asyncio.ensure_future(cell)
        await asyncio.sleep(0)
        await asyncio.to_thread(session.close)
        with pytest.raises(sk.BadHandleError, match="was closed"):
            await waiting

    asyncio.run(main())
