"""When a foreman is told how many slots it may use: at once if its tasks wait for that, else later, and never twice."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from gandy.core.extensions import Capacity
from gandy.core.shards import Want
from gandy.ids import JobId
from gandy.talk.worker import WorkerSide
from gandy.worker import capacity
from gandy.worker.begun import BegunReporter
from gandy.worker.capacity import CapacityReporter
from gandy.worker.function_inputs import FunctionInputs
from gandy.worker.running_tasks import RunningTasks
from gandy.worker.shard_queue import ShardQueue


class Link:
    """A reporter, and how many slots it told."""

    def __init__(self) -> None:
        begun = BegunReporter(RunningTasks(), lambda _task: True, lambda: True, lambda _attempts: None)
        self.queue = ShardQueue(WorkerSide(4), FunctionInputs(lambda _fetch, _number: True), begun)
        self.slots = 4
        self.told: list[int] = []
        self.has_calls = False
        self.reporter = CapacityReporter(
            self.queue,
            lambda: Capacity(self.slots),
            lambda it: self.told.append(it.slots),
            lambda: self.has_calls,
        )

    def share(self, slots: int) -> list[int]:
        """What was told at once, when the shard may use so many slots."""
        self.slots = slots
        self.told.clear()
        self.reporter.look()
        return list(self.told)

    async def wait(self) -> list[int]:
        """What is told later."""
        await asyncio.sleep(0.02)
        return self.told


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(capacity, "DAMPING", 0.001)
    monkeypatch.setattr(capacity, "IDLE_DAMPING", 0.001)


def run(test: Callable[[Link], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        link = Link()
        link.reporter.on_welcome(Capacity(4))
        await test(link)
        link.reporter.on_cut()

    asyncio.run(go())


def test_a_foreman_that_waits_for_slots_is_told_of_more_at_once() -> None:
    async def test(link: Link) -> None:
        link.queue.on_want(Want(3, 0, JobId(1)))
        assert link.share(0) == [0]
        for slots in (1, 2):
            assert link.share(slots) == [slots]
        assert link.share(2) == []

    run(test)


def test_a_foreman_whose_calls_wait_is_told_of_more_at_once() -> None:
    async def test(link: Link) -> None:
        link.slots = 0
        link.reporter.look_now()
        assert link.share(1) == []
        link.has_calls = True
        assert link.share(2) == [2]

    run(test)


def test_fewer_slots_are_told_after_a_while_if_they_were_told_just_now(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test(link: Link) -> None:
        link.queue.on_want(Want(3, 0, JobId(1)))
        assert link.share(3) == [3]
        assert link.share(2) == []
        assert link.share(1) == []
        assert await link.wait() == [1]

    monkeypatch.setattr(capacity, "BRIEF", 0.005)
    run(test)


def test_what_no_task_waits_for_is_told_later_if_it_lasts() -> None:
    async def test(link: Link) -> None:
        assert link.share(3) == []
        assert link.share(4) == []
        assert await link.wait() == []
        assert link.share(3) == []
        assert await link.wait() == [3]

    run(test)


def test_nothing_is_told_without_a_link_and_a_new_one_is_told_what_differs() -> None:
    async def test(link: Link) -> None:
        assert link.share(3) == []
        link.reporter.on_cut()
        link.reporter.look_now()
        assert link.share(2) == []
        assert await link.wait() == []
        link.reporter.on_welcome(Capacity(4))
        assert link.told == [2]

    run(test)
