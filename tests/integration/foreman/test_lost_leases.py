"""Foremen of one crew that lose a shard, or the database, in the middle of something."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from tests.integration.local_crews import run
from tests.integration.memory_foremen import Foremen, a_crew
from tests.memory_crew import MemoryCrew
from tests.waiting import until_async

from gandy.core.hosting import BEAT_PERIOD, LEASE_MARGIN, LEASE_SECONDS
from gandy.core.model import AttemptKey, Input, JobState
from gandy.core.records import Record
from gandy.core.requests import DrainForeman
from gandy.core.shards import Directory, ForemanPlace, Lease
from gandy.core.standing import Standing
from gandy.errors import StoreError
from gandy.foreman import hosting as hosting_module
from gandy.foreman import lease_guard, main
from gandy.foreman.hosting import Hosted, Hosting
from gandy.ids import JobId, TaskNumber
from gandy.moments import LONG_AGO


@pytest.fixture
def foremen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foremen:
    made = Foremen(tmp_path)
    monkeypatch.setattr(main, "make_crew_store", lambda _url: made.crew)
    return made


def get_own(foremen: Foremen, number: int) -> Hosted:
    hosting = foremen.hosting(number)
    return hosting.hosted[hosting.own]


async def lose_asleep(foremen: Foremen, hosted: Hosted) -> None:
    """Another foreman takes a shard over while its owner sleeps, and does not notice."""
    if foremen.crew.holds(hosted.lease):
        await foremen.crew.seize(foremen.hosting(2).me.id, hosted.lease)
        hosted.guard.renew(LONG_AGO)


def test_a_foreman_that_slept_before_it_sent_something_starts_again(
    foremen: Foremen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            hosted = get_own(foremen, 1)
            commit = hosted.store.commit

            async def commit_and_sleep(records: Sequence[Record]) -> frozenset[AttemptKey]:
                lost = await commit(records)
                await lose_asleep(foremen, hosted)
                return lost

            monkeypatch.setattr(hosted.store, "commit", commit_and_sleep)
            submitting = asyncio.create_task(one.submit("true"))
            await until_async(lambda: foremen.programs[1].must_restart)
            submitting.cancel()
            assert not foremen.programs[1].has_failed
            assert (await other.job(1).wait(10)).state is JobState.FINISHED

    run(test())


def test_nothing_is_given_out_by_a_foreman_that_slept_while_it_read_the_lines_of_tasks(
    foremen: Foremen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            read, hosted = foremen.crew.jobs.read_lines, get_own(foremen, 1)

            async def read_and_sleep(job: JobId, first: TaskNumber, count: int) -> list[Input]:
                lines = await read(job, first, count)
                await lose_asleep(foremen, hosted)
                return lines

            monkeypatch.setattr(foremen.crew.jobs, "read_lines", read_and_sleep)
            submitting = asyncio.create_task(one.submit("echo {}", lines=["a"]))
            await until_async(lambda: foremen.programs[1].must_restart)
            submitting.cancel()
            job = other.job(1)
            assert (await job.wait(10)).state is JobState.FINISHED
            assert [row.attempt async for row in job.tasks()] == [2]  # the worker never got the first

    run(test())


def test_tasks_do_not_fail_while_the_database_cannot_say_what_their_lines_are(
    foremen: Foremen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, _):
            read, troubles = foremen.crew.jobs.read_lines, ["the database is away"]

            async def read_later(job: JobId, first: TaskNumber, count: int) -> list[Input]:
                if troubles:
                    raise StoreError(troubles.pop(), retryable=True)
                return await read(job, first, count)

            monkeypatch.setattr(foremen.crew.jobs, "read_lines", read_later)
            job = await one.submit("echo {}", lines=["a", "b"])
            assert (await job.wait(10)).state is JobState.FINISHED
            assert not troubles
            assert {row.attempt async for row in job.tasks()} == {1}

    run(test())


def test_a_shard_that_could_not_be_handed_over_is_served_again(
    foremen: Foremen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            job = await one.submit("true", held=True)
            shard = get_own(foremen, 1).lease.shard
            await foremen.kill(1)
            hosting = foremen.hosting(2)
            await until_async(lambda: shard in hosting.hosted)
            server = hosting.hosted[shard].server

            async def refuse(_mine: Lease, _heir: str) -> bool:
                raise StoreError("the database is away", retryable=True)

            with monkeypatch.context() as broken:
                broken.setattr(foremen.crew, "hand_over", refuse)
                with pytest.raises(StoreError):
                    await hosting._hand_over(shard, "another")
            assert not server.foreman.links.by_name
            await hosting.look()
            assert hosting.hosted[shard].server is not server
            assert not (await other.job(job.id).release()).held
            assert (await other.job(job.id).wait(10)).state is JobState.FINISHED

    run(test())


def test_a_drain_goes_on_if_its_client_hangs_up(foremen: Foremen, monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, other):
            job = await one.submit("sleep 0.3", tasks=2)
            hand_over, has_begun, may_end = foremen.crew.hand_over, asyncio.Event(), asyncio.Event()

            async def wait(mine: Lease, heir: str) -> bool:
                has_begun.set()
                await may_end.wait()
                return await hand_over(mine, heir)

            monkeypatch.setattr(foremen.crew, "hand_over", wait)
            asking = asyncio.create_task(one.connection.ask(DrainForeman(), object))  # type: ignore[type-var]
            await has_begun.wait()
            links = foremen.programs[1].server.foreman.links.by_name
            count = len(links)
            asking.cancel()
            await one.close()
            await until_async(lambda: len(links) < count)
            may_end.set()
            await asyncio.wait_for(foremen.programs[1].wait(), 10)
            assert (await other.job(job.id).wait(10)).state is JobState.FINISHED

    run(test())


def test_a_foreman_that_cannot_hand_over_all_when_it_is_drained_stops_all_the_same(
    foremen: Foremen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with a_crew(foremen) as (one, _):

            async def refuse(_mine: Lease, _heir: str) -> bool:
                raise StoreError("the database is away", retryable=True)

            monkeypatch.setattr(foremen.crew, "hand_over", refuse)
            asking = asyncio.create_task(one.connection.ask(DrainForeman(), object))  # type: ignore[type-var]
            await asyncio.wait_for(foremen.programs[1].wait(), 10)
            asking.cancel()

    run(test())


class SlowCrew(MemoryCrew):
    """It takes long to load a shard."""

    def __init__(self) -> None:
        super().__init__()
        self.now = 1_000.0
        self.beats = 0

    async def beat(self, me: ForemanPlace, leases: Sequence[Lease]) -> Any:
        self.beats += 1
        return await super().beat(me, leases)

    def open_shard(self, mine: Lease) -> Any:
        self.now += LEASE_SECONDS - LEASE_MARGIN
        return super().open_shard(mine)


def test_the_time_that_it_takes_to_load_a_shard_is_part_of_its_lease(monkeypatch: pytest.MonkeyPatch) -> None:
    async def test() -> None:
        crew = SlowCrew()
        for module in (hosting_module, lease_guard):
            monkeypatch.setattr(module, "read_monotonic", lambda: crew.now)
        me = ForemanPlace("one", "one", "0", ())
        hosting = Hosting(crew, me, "/nowhere", cast("Any", None), lambda: None, lambda: None)
        await hosting.start(lambda *_parts: asyncio.sleep(0.0, StubServer()))
        await hosting.hosted[hosting.own].guard.hold()
        assert crew.beats == 1  # it looked first

    run(test())


def test_an_outage_of_the_database_that_is_longer_than_a_lease_changes_no_owner(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """And what belongs to a foreman that does not come back is taken over a little later."""
    now = 1_000.0

    async def look(*hostings: Hosting, after: float) -> dict[int, str]:
        nonlocal now
        now += after
        for each in hostings:
            await each.look()
        return {lease.shard: lease.owner for lease in hostings[0].view.leases}

    async def test() -> None:
        for module in (hosting_module, lease_guard):
            monkeypatch.setattr(module, "read_monotonic", lambda: now)
        monkeypatch.setattr("tests.memory_crew.time", SimpleNamespace(monotonic=lambda: now))
        crew = MemoryCrew()
        foremen = [ForemanPlace(name, name, "0", ()) for name in ("one", "two")]
        one, two = (Hosting(crew, me, "/nowhere", cast("Any", None), lambda: None, lambda: None) for me in foremen)
        for each in (one, two):
            await each.start(lambda *_parts: asyncio.sleep(0.0, StubServer()))
        before = await look(one, two, after=0.0)
        assert sorted(before.values()) == ["one", "two"]
        assert await look(one, two, after=3 * LEASE_SECONDS) == before
        assert await look(one, two, after=BEAT_PERIOD) == before
        await look(one, after=3 * LEASE_SECONDS)
        await look(one, after=BEAT_PERIOD)
        assert set((await look(one, after=BEAT_PERIOD)).values()) == {"one"}

    run(test())


def test_workers_are_told_at_once_which_shard_their_tasks_are_of() -> None:
    async def test() -> None:
        me = ForemanPlace("one", "one", "0", ("tcp://127.0.0.1:9",))
        crew, server = MemoryCrew(), StubServer()
        hosting = Hosting(crew, me, "/nowhere", cast("Any", None), lambda: None, lambda: None)
        await hosting.start(lambda *_parts: asyncio.sleep(0.0, server))
        assert [directory.here for directory in server.told] == [hosting.own]
        dead = await crew.take_new("two")
        await crew.beat(me, ())
        await hosting.refresh()
        lease = await crew.seize(me.id, dead)
        assert lease is not None
        await hosting._host(lease, LONG_AGO)
        assert server.told[-1].here == lease.shard
        assert [(place.shard, place.epoch) for place in server.told[-1].shards] == [(hosting.own, 1), (lease.shard, 2)]

    run(test())


class StubServer:
    """Serves nothing, but notes what it would tell workers."""

    def __init__(self) -> None:
        self.foreman = self
        self.reactor = self
        self.jobs: list[None] = []
        self.standing = Standing()
        self.told: list[Directory] = []
        self._directory: Directory

    def set_directory(self, make: Callable[[Any], Directory]) -> None:
        self._directory = make(self)

    @property
    def port(self) -> Any:
        return SimpleNamespace(source="127.0.0.1")

    async def listen(self, _address: object) -> None:
        self.told.append(self._directory)

    async def stop(self) -> None:
        pass
