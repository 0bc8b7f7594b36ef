"""What a worker reports to have begun: what has run for a while, once on each link, after all ends before it."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, cast

import pytest

from gandy.core.model import AttemptKey
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_BEGUN
from gandy.worker import begun
from gandy.worker.begun import BegunReporter
from gandy.worker.running_tasks import RunningTasks


def key(task: int, job: int = 1) -> AttemptKey:
    return AttemptKey(JobId(job), TaskNumber(task), 1)


class StubTask:
    """It has run for as long as the test says."""

    def __init__(self, seconds: float, is_ours: bool = True) -> None:
        self._seconds = seconds
        self.is_ours = is_ours

    def has_run(self, seconds: float) -> bool:
        return self._seconds >= seconds


class StubTasks(dict[AttemptKey, StubTask]):
    on_start: Callable[[], None] = staticmethod(lambda: None)

    def start(self, *attempts: AttemptKey, seconds: float = 1.0) -> None:
        self |= dict.fromkeys(attempts, StubTask(seconds))
        self.on_start()


class Link:
    """A reporter, what it sent, and how often it looked."""

    def __init__(self) -> None:
        self.running = StubTasks()
        self.sent: list[list[AttemptKey]] = []
        self.may_report = True
        self.reporter = BegunReporter(
            cast("RunningTasks", self.running),
            lambda task: cast("StubTask", task).is_ours,
            lambda: self.may_report,
            self.sent.append,
        )
        self.running.on_start = self.reporter.look_soon

    async def wait(self) -> list[list[AttemptKey]]:
        """Two looks or more, and what was sent in them."""
        await asyncio.sleep(20 * begun.PERIOD)
        sent, self.sent[:] = list(self.sent), []
        return sent

    @property
    def is_looking(self) -> bool:
        return self.reporter._timer is not None


@pytest.fixture(autouse=True)
def _quick_looks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(begun, "PERIOD", 0.002)


def run(test: Callable[[Link], Coroutine[Any, Any, None]]) -> None:
    async def go() -> None:
        link = Link()
        link.reporter.on_welcome()
        await test(link)
        link.reporter.on_cut()

    asyncio.run(go())


def test_what_has_run_for_a_while_is_reported_once_and_together() -> None:
    async def test(link: Link) -> None:
        link.running.start(key(1))
        link.running.start(key(2))
        assert await link.wait() == [[key(1), key(2)]]
        assert not link.is_looking  # there is nothing to report
        link.running.start(key(3))
        assert await link.wait() == [[key(3)]]
        assert link.reporter.has_reported(key(1))
        assert not link.reporter.has_reported(key(9))

    run(test)


def test_what_ends_soon_or_has_not_begun_is_not_reported() -> None:
    async def test(link: Link) -> None:
        link.running.start(key(1), seconds=begun.REPORTED_SECONDS / 2)
        link.running.start(key(2), seconds=0.0)
        assert await link.wait() == []
        assert link.is_looking
        link.running.clear()
        link.running[key(2)] = StubTask(begun.REPORTED_SECONDS)
        assert await link.wait() == [[key(2)]]
        link.running.clear()
        link.running.start(key(3))
        await link.wait()
        assert not link.reporter.has_reported(key(2))  # it is over

    run(test)


def test_ends_are_reported_first() -> None:
    async def test(link: Link) -> None:
        link.may_report = False
        link.running.start(key(1))
        assert await link.wait() == []
        link.may_report = True
        assert await link.wait() == [[key(1)]]

    run(test)


def test_on_a_new_link_all_is_reported_again() -> None:
    async def test(link: Link) -> None:
        link.running.start(key(1))
        await link.wait()
        link.reporter.on_cut()
        link.running.start(key(2))
        assert not link.is_looking  # there is no foreman to report to
        link.reporter.on_welcome()
        assert await link.wait() == [[key(1), key(2)]]

    run(test)


def test_calls_of_commands_and_tasks_of_other_foremen_are_not_reported() -> None:
    async def test(link: Link) -> None:
        link.running[key(1, job=7)] = StubTask(1.0, is_ours=False)
        link.running.on_start()
        assert await link.wait() == []
        assert not link.is_looking

    run(test)


def test_a_message_has_a_bound() -> None:
    async def test(link: Link) -> None:
        link.running.start(*map(key, range(1, MAX_BEGUN + 3)))
        assert [len(part) for part in await link.wait()] == [MAX_BEGUN, 2]

    run(test)
