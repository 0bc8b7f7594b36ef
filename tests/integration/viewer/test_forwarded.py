"""Viewers of shards that another foreman owns: updates pass two foremen, and wait in the memory of neither."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, cast

import pytest
from tests.integration.client.pretend import PretendForeman, always
from tests.integration.local_crews import run
from tests.integration.memory_foremen import Foremen, a_crew
from tests.integration.wire_viewers import ChangingJob, WireViewer, count_unsent, list_ports, send_large_updates
from tests.waiting import until_async

from gandy import AsyncClient
from gandy.config import parse_address
from gandy.core.links import Link
from gandy.core.model import JobState
from gandy.core.requests import Answer, Done, JobFound, Unwatch, WatchCrew, WatchJob, WatchResults, WatchTasks
from gandy.core.views import CrewUpdate, Totals
from gandy.foreman import main
from gandy.foreman.forwarder import Forwarder
from gandy.foreman.server import Server
from gandy.ids import JobId
from gandy.limits import MAX_VIEWER_BYTES, MAX_VIEWS
from gandy.moments import Wall
from gandy.net.links import SocketLink
from gandy.reach import Reach

THERE = 2  # the shard that the other foreman owns


class Two(NamedTuple):
    """Two foremen: clients of both, and a viewer that is connected to the first one."""

    here: Server
    there: Server
    client: AsyncClient  # of the first
    other: AsyncClient
    viewer: WireViewer
    path: str  # of the socket of the other


@pytest.fixture
def foremen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Foremen:
    made = Foremen(tmp_path)
    send_large_updates(monkeypatch)
    monkeypatch.setattr(main, "make_crew_store", lambda _url: made.crew)
    return made


@asynccontextmanager
async def two_foremen(foremen: Foremen) -> AsyncIterator[Two]:
    async with a_crew(foremen) as (one, other):
        await until_async(lambda: foremen.hosting(1).reach_shard(THERE) is not None)
        paths = [foremen.address(number).removeprefix("unix:") for number in (1, 2)]
        viewer = await WireViewer.connect(paths[0])
        here, there = (foremen.programs[number].server for number in (1, 2))
        yield Two(here, there, one, other, viewer, paths[1])
        viewer.close()


def test_a_viewer_that_lags_behind_another_foreman_gets_everything_anew(foremen: Foremen) -> None:
    async def test() -> None:
        async with two_foremen(foremen) as two:
            job = await ChangingJob.submit(two.other)
            near = await WireViewer.connect(two.path)
            near_tasks, near_crew = await near.watch(WatchTasks(job.id)), await near.watch(WatchCrew(THERE))
            far_tasks, far_crew = await two.viewer.watch(WatchTasks(job.id)), await two.viewer.watch(WatchCrew(THERE))
            two.viewer.stop_reading()
            await job.change_until(near, near_tasks, lambda: count_unsent(two.there) > MAX_VIEWER_BYTES)

            waiting = count_unsent(two.here), count_unsent(two.there)
            assert max(waiting) < 3 * MAX_VIEWER_BYTES
            for _ in range(5):
                await job.change_seen(near, near_tasks)
            assert (count_unsent(two.here), count_unsent(two.there)) == waiting, "it is sent nothing that it misses"

            two.viewer.read_again()
            await until_async(lambda: two.viewer.wholes[far_crew] == 2)
            await job.change()
            await until_async(lambda: two.viewer.states[far_tasks].packed == near.states[near_tasks].packed)
            await until_async(lambda: two.viewer.picture.jobs == near.picture.jobs)
            assert two.viewer.failures == {}
            assert not two.viewer.lost.done()
            assert near.wholes[near_crew] == 1
            near.close()

    run(test())


def test_a_client_that_lags_is_still_answered(foremen: Foremen) -> None:
    """Its requests pass the link whose events wait."""

    async def test() -> None:
        async with two_foremen(foremen) as two:
            job = await ChangingJob.submit(two.other)
            near = await WireViewer.connect(two.path)
            near_tasks = await near.watch(WatchTasks(job.id))
            await two.viewer.watch(WatchTasks(job.id))
            two.viewer.stop_reading()
            await job.change_until(near, near_tasks, lambda: count_unsent(two.there) > MAX_VIEWER_BYTES)
            asked = two.viewer.send(WatchJob(job.id))
            two.viewer.read_again()
            await until_async(lambda: asked in two.viewer.answers)
            assert isinstance(two.viewer.answers[asked], JobFound)
            near.close()

    run(test())


def test_a_viewer_that_lags_hears_that_the_other_foreman_is_gone(foremen: Foremen) -> None:
    async def test() -> None:
        async with two_foremen(foremen) as two:
            job = await ChangingJob.submit(two.other)
            near = await WireViewer.connect(two.path)
            near_tasks = await near.watch(WatchTasks(job.id))
            far_tasks = await two.viewer.watch(WatchTasks(job.id))
            two.viewer.stop_reading()
            await job.change_until(near, near_tasks, lambda: count_unsent(two.there) > MAX_VIEWER_BYTES)
            near.close()
            await foremen.kill(2)
            two.viewer.read_again()
            await until_async(lambda: far_tasks in two.viewer.failures)
            assert two.viewer.failures[far_tasks].kind == "moved"

    run(test())


def is_viewed(server: Server) -> bool:
    return server.requests.viewers.loop is not None


def test_what_is_watched_no_longer_is_not_made_by_the_other_foreman(foremen: Foremen) -> None:
    async def test() -> None:
        async with two_foremen(foremen) as two:
            job = await two.other.submit("true", held=True)
            requests = (WatchCrew(THERE), WatchTasks(JobId(job.id)))
            numbers = [await two.viewer.watch(request) for request in requests]
            assert is_viewed(two.there)
            for number in numbers:
                await two.viewer.unwatch(number)
            await until_async(lambda: not is_viewed(two.there))
            await job.cancel()
            for _ in range(MAX_VIEWS + 1):  # more than a link may have at once
                await two.viewer.unwatch(await two.viewer.watch(WatchCrew(THERE)))
            assert [number for number, is_event in two.viewer.order if is_event and number in numbers] == []

    run(test())


def test_what_is_watched_no_longer_before_it_is_answered_is_not_made(foremen: Foremen) -> None:
    """Also while the first foreman still connects to the other one."""

    async def test() -> None:
        async with two_foremen(foremen) as two:
            for _ in range(3):
                number = two.viewer.send(WatchCrew(THERE))
                two.viewer.send(Unwatch(number))
                await until_async(lambda number=number: number in two.viewer.answers)  # type: ignore[misc]
                assert isinstance(two.viewer.answers[number], Done)
                await until_async(lambda: not is_viewed(two.there))

    run(test())


def test_what_is_watched_no_longer_while_its_shard_is_looked_up_is_not_made(
    foremen: Foremen, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with two_foremen(foremen) as two:
            job = await two.other.submit("true", held=True)
            asked, may_end = asyncio.Event(), asyncio.Event()

            async def find_shard(_job: JobId) -> int:
                asked.set()
                await may_end.wait()
                return THERE

            monkeypatch.setattr(two.here.committer.store, "find_shard", find_shard)
            number = two.viewer.send(WatchTasks(JobId(job.id)))
            await asked.wait()
            await two.viewer.unwatch(number)
            may_end.set()
            await until_async(lambda: number in two.viewer.answers)
            assert isinstance(two.viewer.answers[number], Done)
            assert not is_viewed(two.there)

    run(test())


@pytest.mark.parametrize("follow", [WatchJob, WatchResults])
def test_a_job_that_is_watched_no_longer_sends_no_events(
    foremen: Foremen, follow: type[WatchJob | WatchResults]
) -> None:
    async def test() -> None:
        async with two_foremen(foremen) as two:
            job = await two.other.submit("true", held=True)
            number, other = two.viewer.send(follow(JobId(job.id))), two.viewer.send(WatchJob(JobId(job.id)))
            await until_async(lambda: {number, other} <= two.viewer.answers.keys())
            await two.viewer.unwatch(number)
            await job.cancel()
            await until_async(lambda: other in two.viewer.events)
            found = await two.viewer.ask(WatchJob(JobId(job.id)))
            assert isinstance(found, JobFound)
            assert found.row.state is JobState.CANCELLED
            assert number not in two.viewer.events

    run(test())


class Client:
    """A client's link, as a forwarder sees it, and what the client is sent."""

    def __init__(self) -> None:
        self.port = SocketLink(cast("Any", None))
        self.sent: list[str] = []

    def send_event(self, _link: Link, _seq: int, _event: Answer) -> None:
        self.sent.append("event")

    def flush(self) -> None:
        pass


def make_update(**what: Any) -> CrewUpdate:
    return CrewUpdate(Wall(1.0), THERE, 0, 0, 0, 0, 0, Totals(), **what)


def test_events_come_behind_the_answer_also_if_all_came_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        client: Any = Client()
        script = always(make_update(is_whole=True), make_update(), make_update())
        async with PretendForeman(tmp_path / "foreman.sock", script) as other:
            forwarder = Forwarder(client, lambda _shard: Reach((parse_address(other.url),)))
            assert await forwarder.forward(WatchCrew(THERE), THERE, client, 7) == make_update(is_whole=True)
            client.sent.append("answer")
            await until_async(lambda: len(client.sent) == 3)
            assert client.sent == ["answer", "event", "event"]
            forwarder.close()

    run(test())


def test_the_other_foreman_forgets_a_viewer_that_hangs_up_while_it_lags(foremen: Foremen) -> None:
    async def test() -> None:
        async with two_foremen(foremen) as two:
            job = await ChangingJob.submit(two.other)
            near = await WireViewer.connect(two.path)
            near_tasks = await near.watch(WatchTasks(job.id))
            links = len(list_ports(two.there))
            await two.viewer.watch(WatchTasks(job.id))
            two.viewer.stop_reading()
            await job.change_until(near, near_tasks, lambda: count_unsent(two.there) > MAX_VIEWER_BYTES)
            two.viewer.close()
            await until_async(lambda: len(list_ports(two.there)) == links)
            await near.unwatch(near_tasks)
            assert not is_viewed(two.there)
            near.close()

    run(test())
