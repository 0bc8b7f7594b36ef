import pytest

from gandy.core.model import AttemptKey, Counts, JobSpec, JobState, TaskState
from gandy.core.policy import Policy
from gandy.core.progress import LONGEST_RETRY_PAUSE
from gandy.core.reactor import Reactor
from gandy.core.records import Began
from gandy.core.rows import JobRow, Recovered, RecoveredJob, TaskRow, find_runs
from gandy.core.snapshot import restore
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId, TaskNumber


def a_row(job: int, tasks: int, **changes: object) -> JobRow:
    spec = JobSpec(command="true", tasks=tasks, **changes)  # type: ignore[arg-type]
    return JobRow(JobId(job), spec, JobState.RUNNING, False, 1.0, 2.0, Counts())


def test_a_foreman_goes_on_where_it_was() -> None:
    rows = (
        TaskRow(TaskNumber(1), TaskState.FINISHED, 1, "w"),
        TaskRow(TaskNumber(2), TaskState.RUNNING, 3, "w", failures=1, crashes=1),
        TaskRow(TaskNumber(3), TaskState.WAITING, 1, ended=48.0, due=50.0),
        TaskRow(TaskNumber(4), TaskState.ASSIGNED, 1, "w"),
    )
    reactor = Reactor(Policy(grace=10.0))
    restore(reactor, Recovered((RecoveredJob(a_row(5, 5), rows),), JobId(9)), 100.0)
    reactor.check()
    job = reactor.jobs.find(JobId(5))
    assert job is not None
    assert job.tasks.counts == Counts(waiting=2, running=1, finished=1, assigned=1)
    assert reactor.current_attempt(JobId(5), TaskNumber(2)) == AttemptKey(JobId(5), TaskNumber(2), 3)
    assert reactor.next_deadline() == 102.0
    held = [AttemptKey(JobId(5), TaskNumber(2), 3), AttemptKey(JobId(5), TaskNumber(4), 1)]
    assert reactor.on_hello(WorkerInfo("w", "w", 1, reports_begun=True), held, 101.0) == []
    assert reactor.on_begun("w", held, 102.0) == [Began("w", (held[1],), 102.0)]
    reactor.check()


def test_what_a_plain_worker_comes_back_with_runs() -> None:
    rows = (TaskRow(TaskNumber(1), TaskState.ASSIGNED, 1, "w"),)
    reactor = Reactor(Policy(grace=10.0))
    restore(reactor, Recovered((RecoveredJob(a_row(5, 1), rows),), JobId(9)), 100.0)
    held = AttemptKey(JobId(5), TaskNumber(1), 1)
    assert reactor.on_hello(WorkerInfo("w", "w", 1), [held], 101.0) == [Began("w", (held,), 101.0)]
    reactor.check()


@pytest.mark.parametrize("wall_ahead", [-86_400.0, 0.0, 86_400.0])
@pytest.mark.parametrize(
    ("ended", "due", "pause"),
    [
        (1_000.0, 1_004.0, 4.0),
        (1_000.0, 1_000.0, 0.0),  # it was lost with its worker
        (1_000.0, 0.0, 0.0),  # people let it wait again
        (-80_000.0, 0.0, 0.0),  # the same, while the time of day was before 1970
        (None, 0.0, 0.0),
        (1_000.0, 87_400.0, LONGEST_RETRY_PAUSE),  # nothing pauses for so long; something is wrong in there
    ],
)
def test_a_pause_begins_anew_with_the_foreman_whatever_the_time_of_day(
    ended: float | None, due: float, pause: float, wall_ahead: float
) -> None:
    row = TaskRow(TaskNumber(1), TaskState.WAITING, 1, ended=ended, due=due)
    reactor = Reactor()
    reactor.clocks.wall_ahead = wall_ahead
    restore(reactor, Recovered((RecoveredJob(a_row(1, 1), (row,)),), JobId(2)), 50.0)
    job = reactor.jobs.find(JobId(1))
    assert job is not None
    assert job.tasks.delayed.next_due() == 50.0 + pause


@pytest.mark.parametrize(
    ("boot", "clock_ahead"),
    [("this", 700.0), ("another", 950.0), ("", 950.0)],
    ids=["by the monotonic clock", "by the wall clock", "by the wall clock, where boots are not known"],
)
def test_a_job_remembers_how_far_the_shared_time_was_ahead(boot: str, clock_ahead: float) -> None:
    """950 is 100 before the wall clock, which is 850 before the monotonic one now."""
    reactor = Reactor(boot="this" if boot else "")
    reactor.clocks.wall_ahead = 850.0
    row = a_row(1, 1, at=1_000.0, clock_ahead=100.0, boot=boot, boot_ahead=700.0)
    restore(reactor, Recovered((RecoveredJob(row, ()),), JobId(2)), 50.0)
    job = reactor.jobs.find(JobId(1))
    assert job is not None
    assert job.clock_ahead == clock_ahead


def test_two_tasks_of_one_absent_worker_are_both_expected() -> None:
    rows = tuple(TaskRow(TaskNumber(n), TaskState.RUNNING, 1, "w") for n in (1, 2))
    reactor = Reactor(Policy(grace=10.0))
    restore(reactor, Recovered((RecoveredJob(a_row(1, 2), rows),), JobId(2)), 0.0)
    reactor.check()
    reactor.on_time(10.0)
    reactor.check()
    assert len(reactor.workers) == 0


def test_tasks_without_a_row_may_be_cancelled() -> None:
    reactor = Reactor()
    restore(reactor, Recovered((RecoveredJob(a_row(1, 3), (), TaskState.CANCELLED),), JobId(2)), 0.0)
    job = reactor.jobs.find(JobId(1))
    assert job is not None
    assert job.tasks.counts == Counts(cancelled=3)


def test_jobs_still_wait_for_jobs() -> None:
    reactor = Reactor()
    jobs = tuple(RecoveredJob(a_row(n, 1, after=after), ()) for n, after in ((1, ()), (2, (JobId(1), JobId(99)))))
    restore(reactor, Recovered(jobs, JobId(3)), 0.0)
    second = reactor.jobs.find(JobId(2))
    assert second is not None
    assert second.awaited == {JobId(1)}


def test_runs_of_finished_tasks_are_taken_up_whole() -> None:
    reactor = Reactor()
    runs = find_runs(map(TaskNumber, (1, 2, 3, 5, 8, 9)))
    restore(reactor, Recovered((RecoveredJob(a_row(1, 9), (), finished=runs),), JobId(2)), 0.0)
    job = reactor.jobs.find(JobId(1))
    assert job is not None
    assert list(job.tasks.in_states(TaskState.WAITING)) == [4, 6, 7]
    assert [job.tasks.attempts(TaskNumber(task)) for task in range(1, 10)] == [1, 1, 1, 0, 1, 0, 0, 1, 1]
    assert job.tasks.find_ready(0.0) == 4
    reactor.check()


def test_jobs_of_other_shards_are_waited_for_and_those_that_failed_are_heard_of() -> None:
    waits = RecoveredJob(a_row(5, 1, after=(JobId(1), JobId(2), JobId(3))), ())
    tried = RecoveredJob(
        a_row(6, 2, after=(JobId(3),)), (TaskRow(TaskNumber(1), TaskState.WAITING, 1, ended=1.0, due=1.0),)
    )
    elsewhere = {JobId(1): JobState.RUNNING, JobId(2): JobState.FINISHED, JobId(3): JobState.FAILED}
    reactor = Reactor()
    restore(reactor, Recovered((waits, tried), JobId(9)), 100.0, elsewhere)
    assert reactor.jobs.get(JobId(5)).awaited == {1, 3}
    assert reactor.jobs.get(JobId(6)).awaited == set()  # a user had it tried again all the same
    assert sorted(reactor.jobs.list_awaited_elsewhere()) == [1, 3]
    assert reactor.control.on_end_elsewhere(JobId(1), JobState.FINISHED, 101.0) == []
    assert reactor.jobs.get(JobId(5)).awaited == {3}
    assert reactor.control.on_end_elsewhere(JobId(3), JobState.FAILED, 102.0)
    assert reactor.jobs.find(JobId(5)) is None
    assert reactor.control.on_end_elsewhere(JobId(3), JobState.FAILED, 103.0) == []
