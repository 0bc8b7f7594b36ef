"""Which idle slot process gets the next task, and which ones end."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest
from tests.waiting import until_async

from gandy.worker import idle_processes
from gandy.worker.idle_processes import IdleProcesses
from gandy.worker.slot_process import SlotProcess


class FakeProcess:
    """Only what idle processes are asked for."""

    def __init__(self, code: str | None = None) -> None:
        self.code = code
        self.is_retired = False

    def retire(self) -> None:
        self.is_retired = True


def run(test: Callable[[IdleProcesses], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        idle = IdleProcesses(asyncio.get_running_loop())
        try:
            await test(idle)
        finally:
            idle.close()

    asyncio.run(go())


def add(idle: IdleProcesses, *codes: str | None) -> list[FakeProcess]:
    processes = [FakeProcess(code) for code in codes]
    for process in processes:
        idle.add(cast("SlotProcess", process))
    return processes


@pytest.mark.parametrize(
    ("fresh", "code", "chosen"),
    [(False, "a", 2), (False, "b", 3), (False, "c", 0), (True, "a", 0)],
    ids=["the one used last", "its own code", "one that has run nothing", "fresh"],
)
def test_the_process_used_last_that_fits_is_taken(fresh: bool, code: str, chosen: int) -> None:
    async def test(idle: IdleProcesses) -> None:
        processes = add(idle, None, "a", "a", "b")
        assert idle.take(fresh, code) is cast("SlotProcess", processes[chosen])
        assert len(idle) == 3

    run(test)


def test_no_process_that_ran_other_code_is_taken() -> None:
    async def test(idle: IdleProcesses) -> None:
        add(idle, "a", "b")
        assert idle.take(fresh=False, code="c") is None

    run(test)


def test_one_outdated_process_makes_room_for_a_new_one() -> None:
    async def test(idle: IdleProcesses) -> None:
        processes = add(idle, None, "old", "older", "new")
        idle.retire_outdated("new")
        assert [process.is_retired for process in processes] == [False, True, False, False]

    run(test)


def test_unused_processes_end_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(idle_processes, "IDLE_SECONDS", 0.02)

    async def test(idle: IdleProcesses) -> None:
        first = add(idle, "a")
        await asyncio.sleep(0.01)
        second = add(idle, "a")
        await until_async(lambda: first[0].is_retired)
        await until_async(lambda: second[0].is_retired)
        assert len(idle) == 0

    run(test)
