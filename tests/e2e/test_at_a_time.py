"""Calls and jobs that begin at a shared time, on several workers at once: real commands, in their own network.

All processes are on one machine, so their wall clocks are one clock, and tell when each of them began.
"""

import asyncio
import os
import time
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Final

import pytest
from tests.e2e.kitchens import Kitchen
from tests.netns.namespaces import Namespace, find_hindrance
from tests.waiting import until

import gandy
from gandy import Client
from gandy.core.model import JobState
from gandy.errors import CallTimeout, NoClock, Rejected
from gandy.keys.ensemble import open_ensemble_key

HINDRANCE = find_hindrance()
pytestmark = pytest.mark.skipif(HINDRANCE is not None, reason=str(HINDRANCE))

ENSEMBLE: Final = "the crew"
WORKERS: Final = ("w1", "w2", "w3")

IS_QUIET: Final = os.environ.get("GANDY_QUIET_MACHINE") == "1"

# Seconds. The shared clocks of one machine differ by less; nothing may begin before its time by more.
CLOCK_ERROR: Final = 0.0005 if IS_QUIET else 0.005

# Seconds in which all should have begun. On a busy machine any process may wait.
SPREAD: Final = 0.02 if IS_QUIET else 1.0


class Band(Kitchen):
    """A foreman that leads the clock, and workers that know the time."""

    def __init__(self, home: Path) -> None:
        super().__init__(home, "--ensemble", ENSEMBLE)

    def hire_all(self, slots: int = 2) -> None:
        for name in WORKERS:
            self.hire(name, slots, "--ensemble", ENSEMBLE)
        until(lambda: self.count_timed() == len(WORKERS))

    def count_timed(self) -> int:
        with Client(self.address) as client:
            return sum(row.knows_time for row in client.workers() if row.connected)

    def until_time(self) -> None:
        """The foreman leads when no other process did for two seconds."""
        with Client(self.address) as client:
            until(lambda: knows_time(client))


def knows_time(client: Client) -> bool:
    try:
        client.now()
    except NoClock:
        return False
    return True


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Band]:
    """With three workers, for those who leave it as it is."""
    with Namespace() as namespace, namespace.inside():
        band = Band(tmp_path_factory.mktemp("crew"))
        try:
            band.hire_all()
            yield band
        finally:
            band.end()


@pytest.fixture
def band(tmp_path: Path) -> Iterator[Band]:
    """Without workers."""
    with Namespace() as namespace, namespace.inside():
        band = Band(tmp_path)
        try:
            yield band
        finally:
            band.end()


def check_began(began: list[float], at: float) -> None:
    """All at the time, and none before it. Where the foreman leads, the shared time is its wall clock's."""
    assert min(began) >= at - CLOCK_ERROR, [round(each - at, 6) for each in began]
    assert max(began) - at < SPREAD, [round(each - at, 6) for each in began]


@pytest.mark.parametrize("command", ["get_time", "get_time_async", "get_time_isolated"])
def test_call_all_begins_everywhere_at_the_same_time(crew: Band, command: str) -> None:
    with gandy.Client(crew.address) as client:
        client.call_all(command)  # threads and processes are there already
        at = client.now() + 0.5
        replies = client.call_all(command, at=at, timeout=20)
        assert [reply.worker for reply in replies] == list(WORKERS)
        began = [reply.get() for reply in replies]
        print(command, [round((each - at) * 1e6) for each in began], "us")
        check_began(began, at)


def test_one_call_and_a_stream_begin_at_their_time(crew: Band) -> None:
    with gandy.Client(crew.address) as client:
        at = client.now() + 0.3
        check_began([client.call("get_time", at=at)], at)
        at = client.now() + 0.3
        check_began(list(client.stream("get_times", 2, at=at)), at)


def test_worker_without_a_shared_clock_gets_no_call_with_a_time(band: Band) -> None:
    band.until_time()
    band.hire("plain")
    with gandy.Client(band.address) as client:
        (reply,) = client.call_all("get_time", at=client.now() + 0.1)
        with pytest.raises(NoClock, match="does not know the shared time"):
            reply.get()
        with pytest.raises(NoClock, match="no worker that offers get_time knows the shared time"):
            client.call("get_time", at=client.now() + 0.1)
        assert client.call("get_time") > 0


def test_time_that_is_over_is_refused(crew: Band) -> None:
    with gandy.Client(crew.address) as client, pytest.raises(CallTimeout, match="its time had passed"):
        client.call("get_time", at=client.now() - 1)


def test_timeout_counts_from_the_time_on(crew: Band, tmp_path: Path) -> None:
    with gandy.Client(crew.address) as client:
        at = client.now() + 1.0
        assert client.call("get_time", at=at, timeout=0.9) >= at - CLOCK_ERROR
        at = client.now() + 0.5
        with pytest.raises(CallTimeout):
            client.call("hold", str(tmp_path / "book"), str(tmp_path / "go"), at=at, timeout=0.2)
        assert client.now() >= at + 0.2 - CLOCK_ERROR


def test_held_call_can_be_cancelled_and_its_slot_is_free(band: Band) -> None:
    band.hire("w1", 1, "--ensemble", ENSEMBLE)
    until(lambda: band.count_timed() == 1)

    async def work(client: gandy.AsyncClient) -> None:
        call = client.call("get_time", at=await client.now() + 3600)
        while not any(row.calls for row in await client.workers()):
            await asyncio.sleep(0.01)
        call.cancel()
        assert await client.call("add", 1, 2) == 3  # there is but one slot

    band.talk(work)
    assert band.count_calls() == 0


def test_foreman_without_an_ensemble_refuses_a_time(tmp_path: Path) -> None:
    kitchen = Kitchen(tmp_path)
    try:
        with gandy.Client(kitchen.address) as client:
            with pytest.raises(NoClock, match="start it with --ensemble"):
                client.now()
            with pytest.raises(NoClock, match="start it with --ensemble"):
                client.submit("true", at=1e9)
        done = kitchen.run("submit", "--at", "+1", "true", code=1)
        assert b"start it with --ensemble" in done.stderr
    finally:
        kitchen.end()


def test_gandy_call_begins_everywhere_at_its_time(crew: Band) -> None:
    with gandy.Client(crew.address) as client:
        before = client.now()
    done = crew.run("call", "--all", "--at", "+0.5", "--timeout", "10", "get_time")
    began = [float(line.partition(": ")[2]) for line in done.stdout.decode().splitlines()]
    assert len(began) == len(WORKERS)
    assert min(began) >= before + 0.5 - CLOCK_ERROR
    assert max(began) - min(began) < SPREAD


# Jobs

NOTE_TIME: Final = "date +%s.%N >> times"


def read_times(folder: Path) -> list[float]:
    """When tasks began."""
    path = folder / "times"
    return [float(line) for line in path.read_text().splitlines()] if path.exists() else []


def test_tasks_begin_on_all_workers_at_their_time(crew: Band, tmp_path: Path) -> None:
    with gandy.Client(crew.address) as client:
        before = client.now()
        done = crew.run("submit", "--cwd", str(tmp_path), "--tasks", "3", "--at", "+1", "--wait", NOTE_TIME)
        job = client.job(int(done.stdout.split()[1]))
        at = job.status().spec.at
        assert at is not None
        assert before + 1.0 <= at <= client.now()
        assert {row.worker.rpartition("-")[0] for row in job.tasks()} == set(WORKERS)
        started = [row.ending.started for row in job.tasks() if row.ending is not None and row.ending.started]
        print("spawned", [round((each - at) * 1e6) for each in started], "us")
        print("began", [round((each - at) * 1e6) for each in read_times(tmp_path)], "us")
        check_began(started, at)
        check_began(read_times(tmp_path), at)


def test_time_may_be_that_of_a_wall_clock(crew: Band, tmp_path: Path) -> None:
    at = time.time() + 4.0  # a busy machine takes seconds to start the command
    text = datetime.fromtimestamp(at).strftime("%Y-%m-%d %H:%M:%S.%f")
    crew.run("submit", "--cwd", str(tmp_path), "--at", text, "--wait", NOTE_TIME)
    check_began(read_times(tmp_path), at)


def test_worker_without_a_shared_clock_gets_no_task_with_a_time(band: Band, tmp_path: Path) -> None:
    band.until_time()
    band.hire("plain")
    with gandy.Client(band.address) as client:
        job = client.submit(NOTE_TIME, cwd=str(tmp_path), at=client.now() + 0.2)
        assert client.submit("true").wait(20).state is JobState.FINISHED  # another one passes it
        until(lambda: "Its time was" in " ".join(job.explain()))
        assert "No worker that could take it knows the shared time" in " ".join(job.explain())
        assert job.status().state is JobState.WAITING
        band.hire("w1", 1, "--ensemble", ENSEMBLE)
        assert job.wait(30).state is JobState.FINISHED  # late, and it says so
        assert "after its time" in " ".join(job.explain(1))
        with pytest.raises(Rejected, match=r"was 60\.\d s ago"):
            client.submit("true", at=client.now() - 60)


def test_job_says_that_it_waits_for_its_time_and_can_be_cancelled(crew: Band, tmp_path: Path) -> None:
    with gandy.Client(crew.address) as client:
        job = client.submit(NOTE_TIME, cwd=str(tmp_path), tasks=3, at=client.now() + 60)
        assert "It waits for its time, in " in " ".join(job.explain())
        job.cancel()
        at = client.now() + 1.0
        job = client.submit(NOTE_TIME, cwd=str(tmp_path), tasks=3, at=at)
        until(lambda: job.status().counts.assigned == len(WORKERS))  # held by the workers, with their slots
        assert job.cancel().state is JobState.CANCELLED
        assert client.submit("true", tasks=3).wait(20).counts.finished == 3
        until(lambda: client.now() > at + 0.1)
        assert read_times(tmp_path) == []


def test_job_begins_at_its_time_though_the_foreman_was_killed_meanwhile(band: Band, tmp_path: Path) -> None:
    band.hire_all(slots=1)
    with gandy.Client(band.address) as client:
        at = client.now() + 12.0
        number = client.submit(NOTE_TIME, cwd=str(tmp_path), tasks=3, at=at).id
    band.foreman.kill()
    band.restart_foreman()
    with gandy.Client(band.address) as client:
        assert client.job(number).wait(40).counts.finished == len(WORKERS)
        rows = list(client.job(number).tasks())
    assert {row.worker.rpartition("-")[0] for row in rows} == set(WORKERS)
    check_began(read_times(tmp_path), at)


def test_foreman_follows_where_another_process_leads(tmp_path: Path) -> None:
    key = open_ensemble_key(str(tmp_path)).secret
    with Namespace() as namespace, namespace.inside(), gandy.Ensemble(ENSEMBLE, clock="lead", key=key) as leader:
        assert leader.wait_for_clock(20)
        band = Band(tmp_path)
        try:
            band.hire_all(slots=1)
            band.until_time()
            with gandy.Client(band.address) as client:
                at = client.now() + 1.5
                assert at < 1e6  # the leader's time, and not Unix time
                replies = client.call_all("get_time", at=at - 1.0)
                client.submit(NOTE_TIME, cwd=str(tmp_path), tasks=3, at=at).wait(20)
                ahead = time.time() - leader.now()
            check_began([reply.get() - ahead for reply in replies], at - 1.0)
            check_began([each - ahead for each in read_times(tmp_path)], at)
        finally:
            band.end()
