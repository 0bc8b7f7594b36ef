"""A foreman and its viewers on real sockets: how many there may be, what they may ask, and what they cost."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from tests.integration.hostile.peers import a_foreman
from tests.integration.local_crews import a_client, run
from tests.integration.wire_viewers import ChangingJob, WireViewer, count_unsent, list_ports, send_large_updates
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.core import requests as ask
from gandy.core.model import JobSpec, JobState, TaskState
from gandy.core.roles import PERMITS, CrewRole
from gandy.core.views import CrewUpdate, TaskUpdate
from gandy.foreman import viewers
from gandy.foreman.server import Server
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_REQUESTS, MAX_VIEWER_BYTES, MAX_VIEWERS, MAX_VIEWS

JOB = JobId(1)


class Site(NamedTuple):
    """A foreman with a socket for each role, and a client."""

    server: Server
    client: AsyncClient
    home: Path

    async def connect(self, role: CrewRole = CrewRole.OBSERVER) -> WireViewer:
        return await WireViewer.connect(str(self.home / role))


@asynccontextmanager
async def a_site(home: Path) -> AsyncIterator[Site]:
    async with a_foreman(home) as program, a_client(home) as client:
        yield Site(program.server, client, home)


# Viewers that lag


def test_a_viewer_that_lags_gets_everything_anew_and_no_memory_meanwhile(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    send_large_updates(monkeypatch)

    async def test() -> None:
        async with a_site(tmp_path) as site:
            job = await ChangingJob.submit(site.client)
            near, slow = await site.connect(), await site.connect()
            near_tasks, near_crew = await near.watch(ask.WatchTasks(job.id)), await near.watch(ask.WatchCrew())
            tasks, crew = await slow.watch(ask.WatchTasks(job.id)), await slow.watch(ask.WatchCrew())
            slow.stop_reading()
            await job.change_until(near, near_tasks, lambda: count_unsent(site.server) > MAX_VIEWER_BYTES)

            waiting = count_unsent(site.server)
            assert waiting < 2 * MAX_VIEWER_BYTES
            for _ in range(5):
                await job.change_seen(near, near_tasks)
            assert count_unsent(site.server) == waiting, "it is sent nothing that it misses"

            slow.read_again()
            await until_async(lambda: slow.wholes[crew] == 2)
            await job.change()
            await until_async(lambda: slow.states[tasks].packed == near.states[near_tasks].packed)
            await until_async(lambda: slow.picture.jobs == near.picture.jobs)
            assert slow.failures == {}
            assert near.wholes[near_crew] == 1
            near.close()
            slow.close()

    run(test())


def test_a_viewer_that_lags_learns_that_its_job_has_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    send_large_updates(monkeypatch)

    async def test() -> None:
        async with a_site(tmp_path) as site:
            job = await ChangingJob.submit(site.client)
            near, slow = await site.connect(), await site.connect()
            near_tasks, tasks = await near.watch(ask.WatchTasks(job.id)), await slow.watch(ask.WatchTasks(job.id))
            slow.stop_reading()
            await job.change_until(near, near_tasks, lambda: count_unsent(site.server) > MAX_VIEWER_BYTES)
            await site.client.job(job.id).cancel()
            await until_async(lambda: site.server.requests.viewers.loop is None)
            slow.read_again()
            await until_async(lambda: slow.states[tasks].is_final)
            assert set(slow.states[tasks].packed) == {TaskState.CANCELLED}
            near.close()
            slow.close()

    run(test())


# How many there may be


def test_one_viewer_more_than_a_thousand_is_refused_until_another_leaves(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            crowd = [await site.connect() for _ in range(MAX_VIEWERS // MAX_VIEWS)]
            numbers = [[each.send(ask.WatchCrew()) for _ in range(MAX_VIEWS)] for each in crowd]
            for each, expected in zip(crowd, numbers, strict=True):
                await until_async(lambda each=each, expected=expected: each.wholes.keys() >= set(expected))  # type: ignore[misc]
            late = await site.connect()
            refused = await late.ask(ask.WatchCrew())
            assert isinstance(refused, ask.RequestFailure)
            assert (refused.kind, refused.retryable) == ("refused", True)
            assert refused.message == "1,000 viewers look at this foreman already"
            assert not late.lost.done()
            assert isinstance(await late.ask(ask.GetStatus()), ask.ForemanStatus)

            await crowd[0].unwatch(numbers[0][0])
            await late.watch(ask.WatchCrew())
            assert isinstance(await late.ask(ask.WatchCrew()), ask.RequestFailure)
            crowd[1].close()
            await until_async(lambda: len(list_ports(site.server)) == len(crowd) + 1)  # the late one, and the client
            await late.watch(ask.WatchCrew())
            assert [each.failures for each in crowd] == [{}] * len(crowd)
            for each in (*crowd, late):
                each.close()

    run(test())


def test_one_link_has_a_hundred_views_of_crew_and_jobs_together(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            await site.client.submit("true", held=True)
            viewer, other = await site.connect(), await site.connect()
            halves: list[ask.Request] = [ask.WatchCrew(), ask.WatchTasks(JOB)] * (MAX_VIEWS // 2)
            numbers = [viewer.send(request) for request in halves]
            await until_async(lambda: viewer.wholes.keys() >= set(numbers))
            for request in halves[:2]:
                refused = await viewer.ask(request)
                assert isinstance(refused, ask.RequestFailure)
                assert refused.message == "one link watches the crew and its jobs at most 100 times"
            assert isinstance(await viewer.ask(ask.ReadStates(JOB)), TaskUpdate), "no events follow this one"
            await other.watch(ask.WatchCrew())
            for number in numbers[:2]:
                await viewer.unwatch(number)
            numbers = numbers[2:] + [await viewer.watch(request) for request in halves[:2]]
            assert isinstance(await viewer.ask(ask.WatchCrew()), ask.RequestFailure)

            await site.client.job(JOB).cancel()  # jobs that have ended are watched no longer
            tasks = [viewer.states[number] for number in numbers if number in viewer.states]
            assert len(tasks) == MAX_VIEWS // 2
            await until_async(lambda: all(states.is_final for states in tasks))
            for _ in range(MAX_VIEWS // 2):
                await viewer.watch(ask.WatchCrew())
            assert isinstance(await viewer.ask(ask.WatchCrew()), ask.RequestFailure)
            viewer.close()
            other.close()

    run(test())


def test_views_end_with_their_link(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            await site.client.submit("true", held=True)
            viewer = await site.connect()
            for request in (ask.WatchCrew(), ask.WatchTasks(JOB)):
                await viewer.watch(request)
            assert site.server.requests.viewers.view is not None
            viewer.close()
            await until_async(lambda: site.server.requests.viewers.loop is None)
            assert site.server.requests.viewers.view is None

    run(test())


# What they may ask


def test_an_observer_sees_everything_and_changes_nothing(tmp_path: Path) -> None:
    spec = JobSpec(command="true")
    changes: list[ask.Request] = [
        ask.Submit(spec),
        ask.AddLines(1, ("a",)),
        ask.AddTasks(JOB, TaskNumber(1), (b"",)),
        ask.PutArguments("0" * 32, 0, b""),
        ask.CloseJob(JOB),
        ask.CancelJob(JOB),
        ask.RetractTasks(JOB, (TaskNumber(1),)),
        ask.RetryJob(JOB),
        ask.HoldJob(JOB),
        ask.ReleaseJob(JOB),
        ask.ForgetJobs((JOB,)),
        ask.StopWorker("hut-1"),
        ask.StopForeman(),
        ask.DrainForeman(),
        ask.LookAtShards(),
        ask.ListKeys(),
        ask.MakeKey(b"", CrewRole.CLIENT, "anna"),
        ask.RevokeKey("anna"),
        ask.Invite(CrewRole.CLIENT, 60.0),
        ask.ListAudit(10),
    ]
    assert {type(change) for change in changes} == {
        kind for kind, roles in PERMITS.items() if CrewRole.OBSERVER not in roles
    }

    async def test() -> None:
        async with a_site(tmp_path) as site:
            await site.client.submit("true", tasks=3, held=True)
            viewer = await site.connect(CrewRole.OBSERVER)
            before = (await site.client.status()).jobs, await site.client.job(JOB).status()
            for change in changes:
                refused = await viewer.ask(change)
                assert isinstance(refused, ask.RequestFailure), change
                assert refused.kind == "not_allowed", change
            assert ((await site.client.status()).jobs, await site.client.job(JOB).status()) == before
            assert not site.server.requests.should_stop.is_set()

            crew, tasks = await viewer.watch(ask.WatchCrew()), await viewer.watch(ask.WatchTasks(JOB))
            assert bytes(viewer.states[tasks].packed) == bytes([TaskState.WAITING]) * 3
            assert isinstance(await viewer.ask(ask.ReadStates(JOB)), TaskUpdate)
            assert isinstance(await viewer.ask(ask.FindTasks(JOB, (TaskNumber(1),))), ask.TaskList)
            await site.client.job(JOB).cancel()
            await until_async(lambda: viewer.states[tasks].is_final)
            await until_async(lambda: viewer.picture.jobs[JOB].state is JobState.CANCELLED)
            await viewer.unwatch(crew)
            viewer.close()

    run(test())


def test_a_number_that_has_a_view_already_gets_no_second_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            viewer = await site.connect()
            number = await viewer.watch(ask.WatchCrew())
            del viewer.answers[number]
            monkeypatch.setattr(viewer._conversation, "_number", number - 1)
            refused = await viewer.ask(ask.WatchCrew())
            assert isinstance(refused, ask.RequestFailure)
            assert refused.kind == "bad_request"
            viewer.close()

    run(test())


# What they cost


class SlowClock:
    """A clock for `foreman.viewers`: each round of updates seems to take long, and every rest is over at once."""

    def __init__(self) -> None:
        self.now = 0.0
        self.spent = 0.0
        self.rested = 0.0

    def read(self) -> float:
        """It is read before and after each turn."""
        self.now += 1.0
        return self.now

    async def sleep(self, seconds: float) -> None:
        self.rested += seconds
        await asyncio.sleep(0)


class SlowAsyncio:
    """asyncio, with another sleep."""

    def __init__(self, clock: SlowClock) -> None:
        self.sleep = clock.sleep

    def __getattr__(self, name: str) -> Any:
        return getattr(asyncio, name)


def count_calls(monkeypatch: pytest.MonkeyPatch, owner: object, name: str, calls: list[str]) -> None:
    before: Callable[..., Any] = getattr(owner, name)

    def call(*words: Any, **named: Any) -> Any:
        calls.append(name)
        return before(*words, **named)

    monkeypatch.setattr(owner, name, call)


def test_viewers_that_ask_for_everything_in_a_loop_take_a_fiftieth_of_the_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock, packed = SlowClock(), list[str]()
    monkeypatch.setattr(viewers, "read_monotonic", clock.read)
    monkeypatch.setattr(viewers, "asyncio", SlowAsyncio(clock))
    count_calls(monkeypatch, viewers, "pack_table", packed)
    rounds = 20

    async def test() -> None:
        async with a_site(tmp_path) as site:
            await site.client.submit("true", tasks=1000, held=True)
            crowd = [await site.connect() for _ in range(5)]
            for _ in range(rounds):
                asked = [(each, [each.send(ask.ReadStates(JOB)) for _ in range(MAX_REQUESTS)]) for each in crowd]
                watched = [(each, each.send(ask.WatchCrew())) for each in crowd]
                for each, numbers in asked:
                    await until_async(lambda each=each, numbers=numbers: each.answers.keys() >= set(numbers), period=0)  # type: ignore[misc]
                for each, number in watched:
                    await until_async(lambda each=each, number=number: number in each.answers, period=0)  # type: ignore[misc]
                    await each.unwatch(number)
                assert (await site.client.status()).jobs == 1  # others are answered
            spent = clock.now / 2  # a second passes at each reading, so a turn takes one, and so does what is between
            assert clock.rested >= 49 * (spent - 1)  # the last turn is still to be rested from
            assert len(packed) <= 2 * len(crowd) * rounds, "all that want the same get what is made once"
            await site.client.job(JOB).cancel()
            for each in crowd:
                assert each.failures == {}
                each.close()

    run(test())


def test_a_bug_in_a_view_ends_the_views_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    async def test() -> None:
        async with a_site(tmp_path) as site:
            await site.client.submit("true", held=True)
            viewer = await site.connect()
            crew, tasks = await viewer.watch(ask.WatchCrew()), await viewer.watch(ask.WatchTasks(JOB))

            def fail(*_words: object) -> CrewUpdate:
                raise RuntimeError("a bug")

            with monkeypatch.context() as broken, caplog.at_level(logging.CRITICAL):
                broken.setattr(site.server.requests.viewers.view, "take", fail)
                await until_async(lambda: {crew, tasks} <= viewer.failures.keys())
            assert {failure.kind for failure in viewer.failures.values()} == {"internal"}
            for _ in range(MAX_VIEWS):  # none of those that ended counts any more
                await viewer.unwatch(await viewer.watch(ask.WatchCrew()))
            assert (await site.client.job(JOB).cancel()).state is JobState.CANCELLED
            viewer.close()

    run(test())
