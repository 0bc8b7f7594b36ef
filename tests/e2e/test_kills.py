"""kill -9 in the middle of work: nothing is lost, nothing runs twice, and no process is left behind.

The long version: GANDY_KILLS=20 GANDY_KILL_TASKS=2000 (as many kills and tasks as you like), and GANDY_KILL_SEED=N
for another order of events.
"""

import os
import shlex
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import NamedTuple

import pytest
from tests.e2e.crew import GANDY, PATIENCE, Crew
from tests.e2e.members import Member, Site, a_site
from tests.processes import find_busy, is_alive, list_descendants
from tests.waiting import until

from gandy import Client
from gandy.client import Job
from gandy.core.model import Cause, JobState, TaskState
from gandy.core.policy import POLICY
from gandy.core.rows import TaskRow
from gandy.worker.foreman_link import LONGEST_PAUSE

KILLS = int(os.environ.get("GANDY_KILLS", "8"))
TASKS = int(os.environ.get("GANDY_KILL_TASKS", "300"))
SEED = int(os.environ.get("GANDY_KILL_SEED", "1"))

# A task with a child and a grandchild; all three write their numbers to a file.
FAMILY = "sh -c 'sleep 600 & echo $! >> {path}; echo $$ >> {path}; wait' & echo $$ >> {path}; wait"


def read_pids(path: Path) -> list[int]:
    return [int(line) for line in path.read_text().split()] if path.exists() else []


# Kills at random


class Run(NamedTuple):
    """What a task wrote when it ran: its number, the attempt's, and the process of its worker."""

    task: int
    attempt: int
    worker: int


class Book:
    """The file that every task writes a line to."""

    def __init__(self, path: Path) -> None:
        self.path = path
        path.touch()
        self.command = f'echo "$GANDY_TASK $GANDY_ATTEMPT $PPID" >> {path}; sleep 0.02'

    def __len__(self) -> int:
        return self.path.read_bytes().count(b"\n")

    def __iter__(self) -> Iterator[Run]:
        for line in self.path.read_text().splitlines():
            task, attempt, worker = line.split()
            yield Run(int(task), int(attempt), int(worker))


class Killer:
    """Chooses whom to kill and when, from a seed. When is told by progress: so many lines in the book."""

    def __init__(self, seed: int, site: Site, kills: int, tasks: int) -> None:
        chance = Random(seed)
        self.moments = sorted(chance.sample(range(tasks // 20, tasks * 9 // 10), kills))
        # A worker that dies while there is no foreman is missed only by the next one.
        choices: list[tuple[Member, ...]] = [(site.foreman,), (site.foreman,), *((worker,) for worker in site.workers)]
        choices += [(site.foreman, worker) for worker in site.workers[:1]]
        self.victims = [chance.choice(choices) for _ in range(kills)]

    def go(self, book: Book) -> None:
        for moment, victims in zip(self.moments, self.victims, strict=True):
            until(lambda moment=moment: len(book) >= moment)  # type: ignore[misc]
            for victim in victims:
                victim.kill()
            for victim in victims:
                victim.start()


def check_runs(site: Site, book: Book, job: Job, rows: list[TaskRow]) -> None:
    """Every line in the book is of an attempt that counts, or of one that was lost with a worker that was killed."""
    runs = {(run.task, run.attempt): run for run in book}
    assert len(runs) == len(book), Counter((run.task, run.attempt) for run in book).most_common(3)
    names = {pid: worker.name for worker in site.workers for pid in (*worker.killed, worker.busy_pid)}
    killed = {pid: moment for worker in site.workers for pid, moment in worker.killed.items()}
    for row in rows:
        last = runs.pop((row.task, row.attempt))
        assert names[last.worker] == row.worker.rpartition("-")[0]
        *former, _ = job.attempts(row.task) if row.attempt > 1 else (row,)
        assert [attempt.attempt for attempt in former] == list(range(1, row.attempt))
        for attempt in former:
            assert attempt.ending is not None
            run = runs.pop((row.task, attempt.attempt), None)
            if attempt.ending.cause is Cause.WORKER_LOST:
                # A shell whose worker is dead before it has begun knows only process 1.
                assert run is None or run.worker not in names or killed[run.worker] <= (attempt.ended or 0.0)
            else:
                assert run is None or (attempt.ending.cause, run.worker in killed) == (Cause.WORKER_STOPPED, True)
                assert attempt.ending.cause in (Cause.RETURNED, Cause.WORKER_STOPPED)
    assert not runs


def test_every_task_finishes_once_whatever_is_killed(tmp_path: Path) -> None:
    with a_site(tmp_path, workers=3) as site, Client(f"unix:{site.home}/foreman.sock") as client:
        book = Book(tmp_path / "book")
        killer = Killer(SEED, site, KILLS, TASKS)
        job = client.submit(book.command, tasks=TASKS)
        killer.go(book)
        assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
        rows = list(job.tasks())
        assert [row.task for row in rows] == list(range(1, TASKS + 1))
        assert {row.state for row in rows} == {TaskState.FINISHED}
        assert {row.ending and row.ending.exit_code for row in rows} == {0}
        check_runs(site, book, job, rows)


def test_output_is_followed_over_the_death_of_the_foreman(tmp_path: Path) -> None:
    with a_site(tmp_path, workers=1) as site:
        go, more = tmp_path / "go", tmp_path / "more"
        wait = "until [ -e {path} ]; do sleep 0.02; done"
        line = f"echo one; {wait.format(path=go)}; echo two; {wait.format(path=more)}; echo three"
        job = site.submit(line)
        with site.start("job", "output", job, "--task", "1", "-f", stdout=subprocess.PIPE) as follower:
            assert follower.stdout is not None
            assert follower.stdout.readline() == b"one\n"
            site.foreman.kill()
            go.touch()
            site.restart_foreman()
            assert follower.stdout.readline() == b"two\n"
            more.touch()
            assert follower.stdout.read() == b"three\n"
            assert follower.wait(PATIENCE) == 0


def test_worker_looks_for_the_foreman_more_often_than_the_grace_period_ends() -> None:
    """However long the foreman was away: a worker that comes back too late has its tasks run twice."""
    assert POLICY.grace >= 2 * LONGEST_PAUSE


@pytest.mark.parametrize("workers", [1, 2])
def test_worker_that_comes_back_too_late_is_fenced(tmp_path: Path, workers: int) -> None:
    """Its task was given to another worker, or waits for one, and must not run twice at the same time for long."""
    with a_site(tmp_path, workers=1, grace="1s") as site, Client(f"unix:{site.home}/foreman.sock") as client:
        path = tmp_path / "pids"
        late = site.workers[0]
        job = client.submit(f"echo $$ >> {path}; test $GANDY_ATTEMPT != 1 || sleep 600")
        until(lambda: len(read_pids(path)) == 1)
        site.foreman.kill()
        late.stop()
        site.restart_foreman()
        until(lambda: job.status().counts.waiting == 1)  # its worker's time is over
        if workers == 2:
            site.workers.append(Member(site, "w2", "worker", "run", "--name", "w2", "--slots", "2"))
            assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
        late.go_on()
        assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
        until(lambda: not any(map(is_alive, read_pids(path))))
        first, *_, last = job.attempts(1)
        assert first.ending is not None
        assert (first.ending.cause, last.state) == (Cause.WORKER_LOST, TaskState.FINISHED)
        assert len(read_pids(path)) == 2
        assert client.submit("true", tasks=10).wait(timeout=PATIENCE).state is JobState.FINISHED  # all is well again


def test_task_that_is_retried_before_it_is_dead_runs_again(tmp_path: Path) -> None:
    """It does not end when it is asked to, so for a while its worker has the old attempt and is wanted for the new."""
    crew = Crew(tmp_path)
    path = tmp_path / "pids"
    with crew.running("up", "--slots", "2"):
        job = crew.submit(f"trap '' TERM; echo $$ >> {path}; test $GANDY_ATTEMPT != 1 || while :; do sleep 0.1; done")
        until(lambda: len(read_pids(path)) == 1)
        crew.run("job", "cancel", job)
        crew.run("job", "retry", job)
        crew.run("job", "wait", job)
        first, *_, last = crew.show("job", "show", job, "--task", "1")
        assert (first["state"], last["state"]) == ("cancelled", "finished")
        assert len(read_pids(path)) == 2
        until(lambda: not any(map(is_alive, read_pids(path))))


def test_task_that_kills_its_workers_does_not_take_others_with_it(tmp_path: Path) -> None:
    """A worker has tasks that wait for a slot. When it dies three times, they have died not once."""
    with a_site(tmp_path, workers=1, slots=1) as site, Client(f"unix:{site.home}/foreman.sock") as client:
        (worker,) = site.workers
        job = client.submit("test $GANDY_TASK != 1 || kill -9 $PPID", tasks=5)
        for _ in range(POLICY.crash_limit):
            assert worker.process.wait(PATIENCE) == -signal.SIGKILL
            worker.start()
        assert job.wait(timeout=PATIENCE).state is JobState.FAILED
        states = [row.state for row in job.tasks()]
        assert states == [TaskState.FAILED, *[TaskState.FINISHED] * 4]


# Nothing is left behind


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", "2"):
        yield crew


@pytest.mark.parametrize("words", [(), ("--task", "1")], ids=["job", "task"])
def test_cancel_leaves_no_grandchildren(crew: Crew, tmp_path: Path, words: tuple[str, ...]) -> None:
    path = tmp_path / "pids"
    job = crew.submit(FAMILY.format(path=path))
    until(lambda: len(read_pids(path)) == 3)
    crew.run("job", "cancel", job, *words)
    crew.run("job", "wait", job, code=3)
    until(lambda: not any(map(is_alive, read_pids(path))))


def test_timeout_leaves_no_grandchildren(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "pids"
    done = crew.run("submit", "--output", "quiet", "--timeout", "3s", "--wait", FAMILY.format(path=path), code=1)
    job = done.stdout.decode().strip()
    assert read_pids(path)
    assert not any(map(is_alive, read_pids(path)))
    assert b"ran longer than 3 seconds" in crew.run("job", "explain", job).stdout


# A child in a session of its own, with a child of its own; both write their numbers to a file.
RUNAWAY = "setsid sh -c 'sleep 600 & echo $! >> {path}; echo $$ >> {path}; wait' & "
IMPOSTOR = RUNAWAY.replace("wait'", "wait; : python -m gandy.worker.recovery'")  # which no watchdog runs
RUNAWAYS = pytest.mark.parametrize(
    "runaway", [RUNAWAY, f"env -i {RUNAWAY}", IMPOSTOR], ids=["setsid", "env", "impostor"]
)


@RUNAWAYS
def test_what_left_the_session_of_a_cancelled_task_dies_with_it(crew: Crew, tmp_path: Path, runaway: str) -> None:
    path = tmp_path / "pids"
    job = crew.submit(runaway.format(path=path) + "wait")
    until(lambda: len(read_pids(path)) == 2)
    crew.run("job", "cancel", job)
    until(lambda: not any(map(is_alive, read_pids(path))))


@RUNAWAYS
@pytest.mark.parametrize("end", ["exit 3", "kill -9 $$"])
def test_what_left_the_session_of_a_failed_task_is_dead_before_that_is_told(
    crew: Crew, tmp_path: Path, end: str, runaway: str
) -> None:
    """So the next attempt does not run beside it."""
    path = tmp_path / "pids"
    wait_for_both = f"until [ $(cat {path} | wc -l) = 2 ]; do :; done; "
    crew.run("submit", "--wait", runaway.format(path=path) + wait_for_both + end, code=1)
    assert [is_alive(pid) for pid in read_pids(path)] == [False, False]


@RUNAWAYS
def test_what_left_the_session_of_a_finished_task_dies_too(crew: Crew, tmp_path: Path, runaway: str) -> None:
    path = tmp_path / "pids"
    crew.run("submit", "--wait", runaway.format(path=path) + f"until [ $(cat {path} | wc -l) = 2 ]; do :; done")
    until(lambda: not any(map(is_alive, read_pids(path))))


@RUNAWAYS
def test_what_left_the_session_of_a_task_that_runs_goes_on(crew: Crew, tmp_path: Path, runaway: str) -> None:
    path = tmp_path / "pids"
    job = crew.submit("(" + runaway.format(path=path) + ") & sleep 600")  # its parent is dead
    until(lambda: len(read_pids(path)) == 2)
    for _ in range(3):  # each of them ends, and lets the worker look for what it left
        crew.run("submit", "--wait", "exit 3", code=1)
    assert all(map(is_alive, read_pids(path)))
    crew.run("job", "cancel", job)
    until(lambda: not any(map(is_alive, read_pids(path))))


def test_orphans_leave_no_zombies(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("up", "--slots", "2") as up:
        crew.run("submit", "--wait", "--tasks", "20", "setsid true &")
        until(lambda: all(map(is_alive, list_descendants(up.pid))))


@RUNAWAYS
@pytest.mark.parametrize("with_guardian", [True, False])
def test_what_left_the_session_of_a_task_dies_with_its_worker(
    tmp_path: Path, runaway: str, with_guardian: bool
) -> None:
    path = tmp_path / "pids"
    with a_site(tmp_path, workers=1) as site:
        site.submit(runaway.format(path=path) + "wait")
        until(lambda: len(read_pids(path)) == 2)
        (worker,) = site.workers
        if not with_guardian:
            worker.stop()  # so it cannot tidy up when its guardian dies
        worker.kill()
        if not with_guardian:
            os.kill(next(iter(worker.killed)), signal.SIGKILL)
        until(lambda: not any(map(is_alive, read_pids(path))))


@pytest.mark.parametrize("with_guardian", [True, False])
def test_tasks_of_a_worker_that_is_a_task_die_with_it(crew: Crew, tmp_path: Path, with_guardian: bool) -> None:
    """They have its label, and not that of the task. Its own watchdog, which is no part of the task, kills them."""
    path = tmp_path / "pids"
    worker = f"{GANDY} worker run --name inner --tag inner"
    program = "import gandy; gandy.Worker(name='inner', tags=('inner',), jobs=True).run()"
    job = crew.submit(worker if with_guardian else shlex.join([sys.executable, "-c", program]))
    crew.submit("--tag", "inner", RUNAWAY.format(path=path) + "wait")
    until(lambda: len(read_pids(path)) == 2)
    crew.run("job", "cancel", job)
    until(lambda: not any(map(is_alive, read_pids(path))))


def _run_away(path: str) -> None:
    subprocess.Popen(["sh", "-c", RUNAWAY.format(path=path)], start_new_session=True)


def _fork_away(path: str) -> None:
    """A daemon in the manner of old: it shares nothing with this process but its program."""
    if os.fork() == 0:
        os.setsid()
        is_child = os.fork() == 0
        with Path(path).open("a") as file:
            file.write(f"{os.getpid()}\n")
        if is_child:
            time.sleep(600)
        os._exit(0)


def _go_away_and_wait(leave: Callable[[str], None], path: str) -> None:
    leave(path)
    time.sleep(600)


def _go_away_and_return(leave: Callable[[str], None], path: str) -> None:
    leave(path)
    until(lambda: len(read_pids(Path(path))) == 2)


LEAVING = pytest.mark.parametrize("leave", [_run_away, _fork_away])


@LEAVING
def test_what_left_the_session_of_a_cancelled_call_dies_with_it(
    crew: Crew, tmp_path: Path, leave: Callable[[str], None]
) -> None:
    path = tmp_path / "pids"
    with Client(f"unix:{crew.home}/foreman.sock") as client:
        future = client.run(_go_away_and_wait, leave, str(path))
        until(lambda: len(read_pids(path)) == 2)
        client.job(future.job).cancel()
        until(lambda: not any(map(is_alive, read_pids(path))))


@LEAVING
def test_what_left_the_session_of_a_finished_call_dies_too(
    crew: Crew, tmp_path: Path, leave: Callable[[str], None]
) -> None:
    path = tmp_path / "pids"
    with Client(f"unix:{crew.home}/foreman.sock") as client:
        client.run(_go_away_and_return, leave, str(path)).result(PATIENCE)
        until(lambda: not any(map(is_alive, read_pids(path))))


def _go_away_and_raise(leave: Callable[[str], None], path: str) -> None:
    _go_away_and_return(leave, path)
    raise ValueError("no luck")


@LEAVING
def test_what_left_the_session_of_a_call_that_raised_is_dead_before_that_is_told(
    crew: Crew, tmp_path: Path, leave: Callable[[str], None]
) -> None:
    path = tmp_path / "pids"
    with Client(f"unix:{crew.home}/foreman.sock") as client:
        with pytest.raises(ValueError, match="no luck"):
            client.run(_go_away_and_raise, leave, str(path)).result(PATIENCE)
        assert [is_alive(pid) for pid in read_pids(path)] == [False, False]


def test_interrupt_of_up_leaves_no_process(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    path = tmp_path / "pids"
    with crew.start("up", "--slots", "2", start_new_session=True) as up:
        try:
            assert up.stderr is not None
            assert up.stderr.readline()
            job = crew.submit("--tasks", "10", FAMILY.format(path=path))
            until(lambda: len(read_pids(path)) == 6)
            below = list_descendants(up.pid)
            assert set(read_pids(path)) <= set(below)
            os.killpg(up.pid, signal.SIGINT)  # as a terminal does
            _, said = up.communicate(timeout=PATIENCE)
        finally:
            up.kill()
    assert up.returncode == 0
    assert not [pid for pid in {*below, *read_pids(path)} if is_alive(pid)]
    assert b"did not take the last results" not in said
    with crew.running("foreman", "run"):
        (row,) = crew.show("job", "show", job)
        assert (row["waiting"], row["running"]) == (10, 0)  # no task has to wait for a worker that left in order


def test_interrupted_worker_hands_its_tasks_to_another(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    path = tmp_path / "pids"
    with (
        crew.running("foreman", "run", "--grace", "1h"),
        crew.running("worker", "run", "--name", "other", "--slots", "2"),
        crew.running("worker", "run", "--name", "leaver", "--slots", "2") as leaver,
    ):
        job = crew.submit("--tasks", "4", f"echo $$ >> {path}; test $PPID != {find_busy(leaver.pid)} || sleep 600")
        until(lambda: len(read_pids(path)) >= 2)
        leaver.send_signal(signal.SIGINT)
        assert leaver.wait(PATIENCE) == 0
        crew.run("job", "wait", job)
        assert not any(map(is_alive, read_pids(path)))


def test_killed_up_goes_on_when_it_is_started_again(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    book = Book(tmp_path / "book")
    with crew.running("up", "--slots", "2") as first:
        job = crew.submit("--tasks", "40", book.command)
        until(lambda: len(book) >= 10)
        below = list_descendants(first.pid)
        first.kill()
        first.wait(PATIENCE)
        until(lambda: not any(map(is_alive, below)))
        with crew.running("up", "--slots", "2") as second:
            crew.run("job", "wait", job)
            tasks = crew.show("job", "show", job, "--tasks")
            assert [(task["task"], task["state"]) for task in tasks] == [(n, "finished") for n in range(1, 41)]
    runs = Counter((run.task, run.attempt) for run in book)
    assert set(runs.values()) == {1}
    again = {run.task for run in book if run.attempt > 1}
    # A shell that looks when its worker is dead already has another parent.
    assert not [run for run in book if run.task in again and run.attempt == 1 and run.worker == second.pid]
