"""The wall clock of the machine steps by a day while a crew works: nothing changes but what is shown.

The processes are real ones, and take a preloaded library's word for the time of day. How long something took is read
from the kernel's uptime, which no step touches. The long version: GANDY_QUIET_MACHINE=1.
"""

import json
import os
import shlex
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

import pytest
from tests.e2e.crew import Crew
from tests.e2e.members import Member
from tests.e2e.wall_clocks import DAY, WallClock
from tests.netns.namespaces import Namespace, find_hindrance
from tests.waiting import until

from gandy import Client
from gandy.client import Job
from gandy.core.liveness import HEARTBEAT_EXPIRY
from gandy.core.model import JobSpec, JobState, TaskState
from gandy.errors import NoClock

HINDRANCE = find_hindrance()
IS_LONG: Final = os.environ.get("GANDY_QUIET_MACHINE") == "1"

ENSEMBLE: Final = "stepping"
PAUSE: Final = JobSpec(command="").retry_pause  # seconds; the foreman looks at its timers meanwhile
UPTIME_ERROR: Final = 0.05  # seconds; uptime has hundredths, and shared clocks of one machine differ by less
LATE: Final = 40.0  # seconds; a busy machine is slow, but a day is longer

# A task notes when it begins. At the first try it fails.
NOTE_TIME: Final = "cut -d ' ' -f 1 /proc/uptime >> times"
FAIL_ONCE: Final = f"{NOTE_TIME}; test $GANDY_ATTEMPT -gt 1"

# A task notes that it runs, and ends once it may.
HOLD: Final = "echo $GANDY_TASK >> runs; until test -e go; do sleep 0.05; done"


class SteppedCrew(Crew):
    """A foreman and workers, all of which look at one wall clock."""

    def __init__(self, home: Path, *words: str) -> None:
        super().__init__(home)
        self.clock = WallClock(home)
        self.environment |= self.clock.environment
        self.foreman = Member(self, "foreman", "foreman", "run", *words)
        self.workers: list[Member] = []
        until(self._is_listening)
        self.client = Client(f"unix:{home}/foreman.sock")

    def _is_listening(self) -> bool:
        return b"listens at" in self.foreman.log.read_bytes()

    def step_across_a_restart(self, seconds: float) -> None:
        """While the foreman is dead. What it waits for when it is back has begun with the new time."""
        self.foreman.kill()
        self.clock.step(seconds)
        self.foreman.log.write_bytes(b"")
        self.foreman.start()
        until(self._is_listening)

    def hire(self, name: str, slots: int, *words: str) -> Member:
        self.workers.append(Member(self, name, "worker", "run", "--name", name, "--slots", str(slots), *words))
        until(lambda: any(row.name == name and row.connected for row in self.client.workers()))
        return self.workers[-1]

    def submit_retry(self, folder: Path) -> Job:
        """A job that has failed once and waits for its retry."""
        folder.mkdir()
        job = self.client.submit(FAIL_ONCE, cwd=str(folder), retries=1)
        until(lambda: any(row.state is TaskState.WAITING and row.attempt == 1 for row in job.tasks()))
        return job

    def count_lost_links(self) -> int:
        """Of workers, so far."""
        lines = (self.home / "audit.jsonl").read_text().splitlines()
        return sum(json.loads(line)["what"] == "left work" for line in lines)

    def end(self) -> None:
        self.client.close()
        for member in (*self.workers, self.foreman):
            if member.process.poll() is None:
                member.end()


@contextmanager
def a_crew(home: Path, *words: str) -> Iterator[SteppedCrew]:
    crew = SteppedCrew(home, *words)
    try:
        yield crew
    finally:
        crew.end()


def read_uptime() -> float:
    return float(Path("/proc/uptime").read_text().split()[0])


def read_times(folder: Path) -> list[float]:
    """When tasks began."""
    path = folder / "times"
    return [float(line) for line in path.read_text().split()] if path.exists() else []


def read_runs(folder: Path) -> list[str]:
    path = folder / "runs"
    return sorted(path.read_text().split()) if path.exists() else []


def read_duration(job: Job) -> float:
    """How long its one task took, as it is shown."""
    (row,) = job.tasks()
    assert row.ending is not None
    assert row.ending.started is not None
    assert row.ending.ended is not None
    return row.ending.ended - row.ending.started


def check_retried(job: Job, folder: Path) -> None:
    """After its pause, and on the same day. So the foreman has looked at all its timers since."""
    assert job.wait(LATE).state is JobState.FINISHED
    first, second = read_times(folder)
    assert second - first >= PAUSE - UPTIME_ERROR


def knows_time(client: Client) -> bool:
    try:
        client.now()
    except NoClock:
        return False
    return True


def test_pauses_links_and_durations_do_not_mind_a_step(tmp_path: Path) -> None:
    with a_crew(tmp_path) as crew:
        crew.hire("w1", 3)
        held = crew.client.submit(HOLD, cwd=str(tmp_path))
        call = crew.client.functions(name="call").run(os.system, f"cd {shlex.quote(str(tmp_path))} && {HOLD}")
        until(lambda: read_runs(tmp_path) == ["1", "1"])
        for name, step in (("ahead", DAY), ("back", -2 * DAY)):
            job = crew.submit_retry(tmp_path / name)
            crew.clock.step(step)
            check_retried(job, tmp_path / name)
        (tmp_path / "go").touch()
        assert held.wait(LATE).state is JobState.FINISHED
        assert call.result(LATE) == 0
        called = next(crew.client.job(row.job) for row in crew.client.jobs() if row.spec.name == "call")
        for job in (held, called):
            assert 2 * PAUSE - UPTIME_ERROR < read_duration(job) < LATE
        assert crew.count_lost_links() == 0
        assert read_runs(tmp_path) == ["1", "1"]
        assert all(worker.silent_seconds < LATE for worker in crew.client.workers())
        assert crew.client.status().uptime_seconds < 2 * LATE


def test_an_absent_worker_keeps_its_tasks_when_the_clock_goes_ahead(tmp_path: Path) -> None:
    with a_crew(tmp_path, "--grace", "60s") as crew:
        absent = crew.hire("w1", 2)
        held = crew.client.submit(HOLD, cwd=str(tmp_path), tasks=2)
        until(lambda: read_runs(tmp_path) == ["1", "2"])
        crew.hire("w2", 3)
        job = crew.submit_retry(tmp_path / "retry")
        absent.stop()
        crew.step_across_a_restart(DAY)
        crew.clock.step(DAY)
        check_retried(job, tmp_path / "retry")
        absent.go_on()
        (tmp_path / "go").touch()
        assert held.wait(LATE).state is JobState.FINISHED
        assert read_runs(tmp_path) == ["1", "2"], "a task ran twice though its worker came back within the grace"


def test_an_absent_worker_is_given_up_when_the_clock_goes_back(tmp_path: Path) -> None:
    with a_crew(tmp_path, "--grace", "1s") as crew:
        absent = crew.hire("w1", 2)
        crew.client.submit(HOLD, cwd=str(tmp_path), tasks=2)
        until(lambda: read_runs(tmp_path) == ["1", "2"])
        crew.hire("w2", 3)
        job = crew.submit_retry(tmp_path / "retry")
        absent.stop()
        crew.step_across_a_restart(-DAY)
        crew.clock.step(-DAY)
        until(lambda: read_runs(tmp_path) == ["1", "1", "2", "2"])
        check_retried(job, tmp_path / "retry")


def test_results_are_kept_as_long_as_they_should_be(tmp_path: Path) -> None:
    with a_crew(tmp_path, "--keep-results", "1h") as crew:
        crew.hire("w1", 1)
        assert list(crew.client.map(abs, [-7])) == [7]
        (row,) = crew.client.jobs()
        job = crew.client.job(row.job)
        assert job.wait(LATE).state is JobState.FINISHED
        crew.step_across_a_restart(DAY)
        assert list(job.results()) == [7]


@pytest.mark.skipif(HINDRANCE is not None, reason=str(HINDRANCE))
def test_a_job_with_a_time_begins_then(tmp_path: Path) -> None:
    """Ahead while the foreman runs; and back while it is dead, so that it begins to lead with another time."""
    with Namespace() as namespace, namespace.inside(), a_crew(tmp_path, "--ensemble", ENSEMBLE) as crew:
        crew.hire("w1", 2, "--ensemble", ENSEMBLE)
        until(lambda: any(row.knows_time for row in crew.client.workers()))
        for seconds, step in ((2.5, DAY), (4.0, -2 * DAY)):
            folder = tmp_path / str(seconds)
            folder.mkdir()
            before = read_uptime()
            done = crew.run("submit", "--cwd", str(folder), "--at", f"+{seconds}", NOTE_TIME)
            if step > 0:
                crew.clock.step(step)
            else:
                crew.step_across_a_restart(step)
            assert crew.client.job(int(done.stdout.split()[1])).wait(LATE).state is JobState.FINISHED
            assert read_times(folder)[0] - before >= seconds - UPTIME_ERROR


@pytest.mark.skipif(not IS_LONG, reason=f"waits {HEARTBEAT_EXPIRY} s and more; GANDY_QUIET_MACHINE=1 runs it")
def test_a_silent_worker_is_cut_when_the_clock_goes_back(tmp_path: Path) -> None:
    with a_crew(tmp_path, "--grace", "1s") as crew:
        silent = crew.hire("w1", 2)
        crew.client.submit(HOLD, cwd=str(tmp_path), tasks=2)
        until(lambda: read_runs(tmp_path) == ["1", "2"])
        crew.hire("w2", 2)
        silent.stop()
        crew.clock.step(-DAY)
        until(lambda: read_runs(tmp_path) == ["1", "1", "2", "2"])
