"""Many foremen over one PostgreSQL, as real processes: any of them can be killed, stopped, drained and replaced.

The long version: GANDY_CREW_SECONDS=600 GANDY_CREW_TASKS=20000 (seconds in which something is killed every two seconds,
and short tasks meanwhile), and GANDY_CREW_SEED=N for another order of events. It prints the longest pauses in results.
"""

import os
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from random import Random

import psycopg
import pytest
from tests.e2e.foremen import Book, ForemanMember, ManyForemen, Run, check_each_ran_once, many_foremen
from tests.e2e.members import Member
from tests.waiting import until

from gandy import Client
from gandy.client.foremen import shorten_id
from gandy.core.model import Cause, JobState, TaskState
from gandy.errors import CallError, LinkError

SECONDS = float(os.environ.get("GANDY_CREW_SECONDS", "12"))
TASKS = int(os.environ.get("GANDY_CREW_TASKS", "400"))
SEED = int(os.environ.get("GANDY_CREW_SEED", "1"))
KILL_PERIOD = 2.0  # seconds
PATIENCE = 120.0  # seconds, for what takes a few on a machine that is not busy


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ManyForemen]:
    """A crew for tests that kill nothing."""
    with many_foremen(tmp_path_factory.mktemp("crew"), foremen=2, workers=2) as made:
        made.wait_workers()
        yield made


def test_every_foreman_gives_tasks_to_every_worker(crew: ManyForemen) -> None:
    for number in range(2):
        with crew.client(number) as client:
            job = client.submit("sleep 0.2", tasks=12)
            assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
            names = {row.worker.rpartition("-")[0] for row in job.tasks()}
            assert names == {"w1", "w2"}


def test_numbers_of_jobs_are_one_sequence(crew: ManyForemen) -> None:
    with crew.client(0) as one, crew.client(1) as other:
        first = one.submit("true").id
        assert [other.submit("true").id, one.submit("true").id] == [first + 1, first + 2]


def test_people_see_one_crew_at_every_foreman(crew: ManyForemen) -> None:
    with crew.client(0) as one, crew.client(1) as other:
        job = one.submit("echo hello; exit 3", tasks=2, name="seen")
        held = one.submit("true", held=True)
        seen = other.job(job.id)
        assert seen.wait(timeout=PATIENCE).state is JobState.FAILED
        assert seen.status() == job.status()
        assert list(seen.tasks()) == list(job.tasks())
        assert seen.explain() == job.explain()
        assert b"".join(seen.output(1)) == b"hello\n"
        assert [row.job for row in other.jobs()] == [row.job for row in one.jobs()]
        assert [row.id for row in other.workers()] == [row.id for row in one.workers()]
        assert "held" in " ".join(other.job(held.id).explain())
        other.job(held.id).release()
        assert one.job(held.id).wait(timeout=PATIENCE).state is JobState.FINISHED
        assert (one.status().foremen, one.status().jobs) == (other.status().foremen, other.status().jobs) == (2, 0)


def test_a_job_may_come_after_a_job_of_another_foreman(crew: ManyForemen) -> None:
    with crew.client(0) as one, crew.client(1) as other:
        first = one.submit("sleep 0.5")
        good = other.submit("true", after=[first.id])
        bad = one.submit("exit 1", held=True)
        never = other.submit("true", after=[bad.id])
        assert "waits for job" in " ".join(good.explain())
        assert good.wait(timeout=PATIENCE).state is JobState.FINISHED
        bad.release()
        assert never.wait(timeout=PATIENCE).state is JobState.CANCELLED


def test_functions_and_their_large_arguments_reach_workers_by_any_foreman(crew: ManyForemen) -> None:
    large = os.urandom(3_000_000)
    for number in range(2):
        with crew.client(number) as client:
            assert client.run(pow, 2, 10).result(timeout=PATIENCE) == 1024
            assert client.run(len, large).result(timeout=PATIENCE) == len(large)
            assert sorted(client.map(abs, range(-20, 0))) == list(range(1, 21))


def test_tasks_of_all_foremen_share_the_slots_of_a_worker(crew: ManyForemen, tmp_path: Path) -> None:
    counter = tmp_path / "running"
    counter.mkdir()
    line = (
        f"touch {counter}/$GANDY_JOB-$GANDY_TASK; ls {counter} | wc -l; sleep 0.1; rm {counter}/$GANDY_JOB-$GANDY_TASK"
    )
    with crew.client(0) as one, crew.client(1) as other:
        jobs = [one.submit(line, tasks=20), other.submit(line, tasks=20)]
        for job in jobs:
            assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
            for task in range(1, 21):
                assert int(b"".join(job.output(task))) <= 4, "two workers have two slots each"


def test_foremen_are_listed_everywhere(crew: ManyForemen) -> None:
    for number in range(2):
        with crew.client(number) as client:
            rows = client.foremen()
            assert len(rows) == 2
            assert sorted(len(row.shards) for row in rows) == [1, 1]
            assert [row.is_here for row in rows].count(True) == 1
            assert all(row.lease_seconds > 0 for row in rows)


# Kills


def find_owner(crew: ManyForemen, job: int) -> ForemanMember:
    """The foreman that owns the shard of a job."""
    with psycopg.connect(crew.postgres.url().partition("?")[0] + f"?host={crew.postgres.folder}") as database:
        schema = crew.store.partition("schema=")[2].partition("&")[0]
        found = database.execute(
            f"SELECT owner FROM {schema}.shards JOIN {schema}.jobs USING (shard) WHERE job = %s",
            [job],
        ).fetchone()
    assert found is not None
    with crew.client() as client:
        row = next(row for row in client.foremen() if row.id == found[0])
    return next(each for each in crew.foremen if each.address in row.places)


def test_running_tasks_go_on_when_their_foreman_is_killed(tmp_path: Path) -> None:
    with many_foremen(tmp_path, foremen=2, workers=2) as crew:
        crew.wait_workers()
        book = Book(tmp_path / "book")
        with crew.client(0, 1) as client:
            job = client.submit(book.command(4), tasks=4)
            until(lambda: len(list(book.read("begins"))) == 4)
            waiting = client.submit(book.command(0), tasks=20)
            crew.foremen[0].kill()
            assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
            assert waiting.wait(timeout=PATIENCE).state is JobState.FINISHED
            assert {row.attempt for row in job.tasks()} == {1}
        check_each_ran_once(book, 24)


def test_a_drained_foreman_hands_its_work_over_and_stops(tmp_path: Path) -> None:
    with many_foremen(tmp_path, foremen=2, workers=1) as crew:
        crew.wait_workers()
        book = Book(tmp_path / "book")
        with crew.client(0, 1) as client:
            job = client.submit(book.command(0.05), tasks=60)
            until(lambda: len(list(book.read("ends"))) > 10)
            crew.foremen[0].crew.run("foreman", "drain")
            assert crew.foremen[0].process.wait(PATIENCE) == 0
            assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
            assert len(client.foremen()) == 1
        check_each_ran_once(book, 60)


def test_a_foreman_whose_machine_hangs_needs_no_drain(tmp_path: Path) -> None:
    """The command waits until the other one has taken over, and says so."""
    with many_foremen(tmp_path, foremen=2, workers=1) as crew:
        crew.wait_workers()
        with crew.client(0) as first, crew.client(1) as other:
            job = first.submit("true", held=True)
            (dead,) = [row for row in other.foremen() if not row.is_here]
            crew.foremen[0].stop()
            crew.crew.environment["GANDY_FOREMAN"] = crew.foremen[1].address
            said = crew.crew.run("foreman", "drain", dead.id).stdout.decode()
            assert f"foreman {dead.name} ({shorten_id(dead.id)}) is gone: it was last heard of" in said
            assert said.endswith(" owns shards 1 and 2\n")
            assert [row["gone"] for row in crew.crew.show("foreman", "drain", dead.id)] == [True]
            assert " gone " in crew.crew.run("foreman", "list").stdout.decode()
            assert other.job(job.id).release().held is False
            crew.foremen[0].go_on()


def test_a_foreman_that_slept_changes_nothing_that_is_not_its_own(tmp_path: Path) -> None:
    with many_foremen(tmp_path, foremen=2, workers=1) as crew:
        crew.wait_workers()
        book = Book(tmp_path / "book")
        with crew.client(0) as first, crew.client(1) as second:
            job = first.submit(book.command(0.2), tasks=100)
            until(lambda: len(list(book.read("ends"))) > 3)
            crew.foremen[0].stop()
            seen = second.job(job.id)
            finished = seen.status().counts.finished
            until(lambda: seen.status().counts.finished > finished + 20, PATIENCE)  # the other one has taken over
            crew.foremen[0].go_on()
            assert seen.wait(timeout=PATIENCE).state is JobState.FINISHED
        until(lambda: "has another owner now" in crew.foremen[0].said)
        check_each_ran_once(book, 100)


def test_foremen_are_replaced_one_by_one_while_work_runs(tmp_path: Path) -> None:
    with many_foremen(tmp_path, foremen=3, workers=2) as crew:
        crew.wait_workers()
        book = Book(tmp_path / "book")
        with crew.client() as client:
            job = client.submit(book.command(0.02), tasks=300)
            for foreman in crew.foremen:
                foreman.process.terminate()
                assert foreman.process.wait(PATIENCE) == 0, foreman.said
                foreman.start()
                foreman.wait_up()
                assert client.submit("true").wait(timeout=PATIENCE).state is JobState.FINISHED
            assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
        check_each_ran_once(book, 300)


class Progress:
    """Notes when results come, as a client sees it, whatever foreman it asks."""

    def __init__(self) -> None:
        self.moments: list[float] = []

    def find_pause(self, kill: float) -> float:
        """The longest time without a result that began at a kill, or within half a second after it."""
        times = [max((each for each in self.moments if each <= kill), default=kill)]
        times += [each for each in self.moments if each > kill]
        gaps = [(before, after) for before, after in pairwise(times) if before <= kill + 0.5]
        return max((after - max(before, kill) for before, after in gaps), default=0.0)


class Clients:
    """Clients at work until `stop`: each of them in a thread, and every error of theirs is kept."""

    def __init__(self, crew: ManyForemen, book: Book, tasks: int) -> None:
        self.crew = crew
        self.book = book
        self.jobs: dict[int, int] = {}  # number of tasks of each
        self.errors: list[BaseException] = []
        self.lost_calls = self.calls = 0
        self.progress = Progress()
        self._left = tasks
        self._is_over = threading.Event()
        work = (self._submit, self._call, self._look, self._run_functions)
        self._threads = [threading.Thread(target=self._guard, args=(each,)) for each in work]
        for thread in self._threads:
            thread.start()

    def _guard(self, work: Callable[[Client], None]) -> None:
        try:
            with self.crew.client() as client:
                work(client)
        except Exception as error:  # noqa: BLE001 - the test fails with it
            self.errors.append(error)

    def _submit(self, client: Client) -> None:
        """Short tasks all the time, and some long ones."""
        chance = Random(SEED)
        for _ in range(4):
            self._note(client, self.book.command(5), 1)
        while not self._is_over.is_set():
            if self._left > 0:
                count = min(self._left, chance.randrange(1, 100))
                self._left -= count
                self._note(client, self.book.command(chance.choice([0, 0, 0.01, 0.1])), count)
            else:
                self._note(client, "true", 5)
            self._is_over.wait(0.2)

    def _note(self, client: Client, command: str, tasks: int) -> None:
        self.jobs[client.submit(command, tasks=tasks).id] = tasks

    def _call(self, client: Client) -> None:
        while not self._is_over.wait(0.02):
            self.calls += 1
            try:
                client.call("ping")
            except (CallError, LinkError):  # its own worker or foreman died
                self.lost_calls += 1

    def _run_functions(self, client: Client) -> None:
        while not self._is_over.wait(0.1):
            assert client.run(pow, 2, 5).result(timeout=PATIENCE) == 32

    def _look(self, client: Client) -> None:
        """Count results twenty times a second."""
        last = 0
        while not self._is_over.wait(0.05):
            found = sum(row.counts.finished for row in client.jobs())
            if found > last:
                self.progress.moments.append(time.time())
            last = found
            client.workers()

    def stop(self) -> None:
        self._is_over.set()
        for thread in self._threads:
            thread.join(PATIENCE)
            assert not thread.is_alive()


class Killer:
    """Kills something every two seconds, and starts it again a moment later."""

    def __init__(self, crew: ManyForemen, seconds: float) -> None:
        self.crew = crew
        self.kills: dict[str, list[float]] = defaultdict(list)  # moments, by kind
        chance = Random(SEED)
        end = time.monotonic() + seconds
        number = 0
        while time.monotonic() < end:
            time.sleep(KILL_PERIOD)
            number += 1
            if number % 8 == 5:
                self._kill_postgres()
            else:
                self._kill(chance.choice([*crew.foremen, *crew.foremen, *crew.workers]))

    def _kill(self, victim: Member) -> None:
        self.kills["foreman" if isinstance(victim, ForemanMember) else "worker"].append(time.time())
        victim.kill()
        time.sleep(0.3)
        victim.start()

    def _kill_postgres(self) -> None:
        self.kills["postgres"].append(time.time())
        self.crew.postgres.kill()
        self.crew.postgres.restart()


def check_runs(crew: ManyForemen, book: Book, clients: Clients) -> None:
    """No task is lost, no attempt ran twice, none that ended ran again, none whose worker lives was started again."""
    began, ended = Counter(book.read("begins")), Counter(book.read("ends"))
    assert not began or began.most_common(1)[0][1] == 1, began.most_common(3)
    killed = {pid for worker in crew.workers for pid in worker.killed}
    again = defaultdict(list)
    for run in began:
        again[run.job, run.task].append(run)
    with crew.client() as client:
        for number, count in clients.jobs.items():
            job = client.job(number)
            row = job.wait(timeout=PATIENCE)
            assert (row.state, row.counts.finished) == (JobState.FINISHED, count)
            for task in job.tasks():
                assert task.state is TaskState.FINISHED
                check_task(client, number, task.task, again.pop((number, task.task), []), ended, killed)
    assert not again


def check_task(client: Client, job: int, task: int, runs: list[Run], ended: Counter[Run], killed: set[int]) -> None:
    if len(runs) <= 1:
        return
    attempts = {row.attempt: row for row in client.job(job).attempts(task)}
    for run in sorted(runs, key=lambda run: run.attempt)[:-1]:
        ending = attempts[run.attempt].ending
        assert ending is not None
        assert ending.cause in (Cause.WORKER_LOST, Cause.WORKER_STOPPED), (run, ending)
        assert run.worker in killed, f"{run} ran again, though its worker lives"


def test_nothing_is_lost_or_done_twice_whatever_is_killed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with many_foremen(tmp_path, foremen=3, workers=4) as crew:
        crew.wait_workers()
        book = Book(tmp_path / "book")
        clients = Clients(crew, book, TASKS)
        try:
            killer = Killer(crew, SECONDS)
        finally:
            clients.stop()
        assert not clients.errors, clients.errors
        check_runs(crew, book, clients)
    pauses = sorted(clients.progress.find_pause(moment) for moment in killer.kills["foreman"])
    with capsys.disabled():
        counts = {kind: len(moments) for kind, moments in killer.kills.items()}
        done = sum(clients.jobs.values())
        print(f"\nkills: {counts}; tasks: {done}")
        print(f"calls: {clients.calls}, of which {clients.lost_calls} were lost with their worker or foreman")
        print(f"pauses in results after the kill of a foreman, longest: {[round(each, 2) for each in pauses[-5:]]} s")
