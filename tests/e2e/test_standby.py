"""A primary with a synchronous standby under a crew with many foremen: the primary dies, or the standby does.

The long version: GANDY_DISASTERS=5 (times that the standby is lost and comes back, and seconds that the primary is away
before the standby takes over, longer than a lease; without it, no time is lost).
"""

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.foremen import Book, ManyForemen, a_crew_over, check_each_ran_once
from tests.postgres_pair import Pair, a_pair
from tests.waiting import until

from gandy import Client, Job
from gandy.core.model import JobState

ROUNDS = int(os.environ.get("GANDY_DISASTERS", "0"))
OUTAGE = 12.0 if ROUNDS else 0.0  # seconds from the death of the primary to its successor
PATIENCE = 120.0  # seconds, for what takes a few on a machine that is not busy
SILENT = "a synchronous standby of a database is away"
SHORT, LONG = 60, 2  # tasks


@pytest.fixture
def pair() -> Iterator[Pair]:
    with a_pair() as made:
        yield made


class Submitter:
    """Submits jobs of one task all the time, and notes those that were acknowledged."""

    def __init__(self, crew: ManyForemen, book: Book) -> None:
        self.jobs: list[int] = []
        self.errors: list[BaseException] = []
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(crew, book.command(0)))
        self._thread.start()

    def _run(self, crew: ManyForemen, command: str) -> None:
        try:
            with crew.client() as client:
                while not self._is_over.wait(0.05):
                    self.jobs.append(client.submit(command).id)
        except Exception as error:  # noqa: BLE001 - the test fails with it
            self.errors.append(error)

    def stop(self) -> None:
        self._is_over.set()
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()
        assert not self.errors, self.errors


def check_nobody_started_again(crew: ManyForemen) -> None:
    """An outage of the database is no reason to take over from a foreman that lives."""
    for foreman in crew.foremen:
        assert "taking over shard" not in foreman.said
        assert "starts again" not in foreman.said


def test_nothing_that_was_acknowledged_is_lost_when_the_standby_takes_over(pair: Pair, tmp_path: Path) -> None:
    with (
        a_crew_over(pair.primary, tmp_path, foremen=2, workers=2, store=pair.url()) as crew,
        crew.client() as client,
    ):
        book = Book(tmp_path / "book")
        long = client.submit(book.command(OUTAGE + 2), tasks=LONG, priority=1)
        short = client.submit(book.command(0.02), tasks=SHORT)
        submitter = Submitter(crew, book)
        until(lambda: len(list(book.read("ends"))) > 10)
        pair.fail_over(OUTAGE)
        known = len(submitter.jobs)
        until(lambda: len(submitter.jobs) > known + 3, PATIENCE)
        submitter.stop()
        for job in (long, short, *map(client.job, submitter.jobs)):
            assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
        check_each_ran_once(book, SHORT + LONG + len(submitter.jobs))
        check_nobody_started_again(crew)


@pytest.mark.skipif(not ROUNDS, reason="it takes a minute: set GANDY_DISASTERS=3, as 'make soak' does")
def test_nothing_is_acknowledged_without_the_standby_and_all_goes_on_when_it_is_back(
    pair: Pair, tmp_path: Path
) -> None:
    with (
        a_crew_over(pair.primary, tmp_path, foremen=2, workers=2, store=pair.url()) as crew,
        crew.client() as client,
    ):
        book = Book(tmp_path / "book")
        job = client.submit(book.command(0.1), tasks=SHORT * ROUNDS)
        for number in range(1, ROUNDS + 1):
            until(lambda: job.status().counts.finished > 5 * number)  # noqa: B023 - it is called here
            lose_the_standby_for_a_while(pair, crew, client, job)
        assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
        check_each_ran_once(book, SHORT * ROUNDS)
        check_nobody_started_again(crew)


def lose_the_standby_for_a_while(pair: Pair, crew: ManyForemen, client: Client, job: Job) -> None:
    """Meanwhile nothing is said to be done, and users hear why."""
    pair.standby.kill()
    hanging = crew.crew.start("submit", "--hold", "--output", "quiet", "true")
    until(lambda: SILENT in client.status().trouble, PATIENCE)
    finished = job.status().counts.finished
    assert SILENT in " ".join(job.explain())
    refused = crew.crew.run("submit", "true", code=1)  # after it has tried for a while
    assert SILENT in refused.stderr.decode()
    assert job.status().counts.finished == finished
    assert hanging.poll() != 0
    pair.standby.restart()
    until(lambda: not client.status().trouble, PATIENCE)
    told, _ = hanging.communicate(timeout=PATIENCE)
    held = [row.job for row in client.jobs([JobState.PAUSED])]
    assert held == ([int(told)] if hanging.returncode == 0 else [])
    client.forget([client.job(each).cancel().job for each in held])
