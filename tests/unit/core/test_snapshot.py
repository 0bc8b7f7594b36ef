from gandy.core.model import AttemptKey, Counts, JobSpec, JobState, TaskState
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
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
        TaskRow(TaskNumber(3), TaskState.WAITING, 1, due=50.0),
    )
    reactor = Reactor(Policy(grace=10.0))
    restore(reactor, Recovered((RecoveredJob(a_row(5, 4), rows),), JobId(9)), 100.0)
    reactor.check()
    job = reactor.jobs.find(JobId(5))
    assert job is not None
    assert job.tasks.counts == Counts(waiting=2, running=1, finished=1)
    assert reactor.current_attempt(JobId(5), TaskNumber(2)) == AttemptKey(JobId(5), TaskNumber(2), 3)
    assert reactor.next_deadline() == 50.0
    assert reactor.on_hello(WorkerInfo("w", "w", 1), [AttemptKey(JobId(5), TaskNumber(2), 3)], 101.0) == []


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
