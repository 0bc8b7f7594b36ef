from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.model import JobSpec, JobState, TaskState
from gandy.core.tasks import TaskTable
from gandy.ids import JobId, TaskNumber


def a_job(number: int = 1, tasks: int = 2, priority: int = 0, awaited: set[JobId] | None = None) -> ActiveJob:
    spec = JobSpec(command="true", tasks=tasks, priority=priority)
    return ActiveJob(JobId(number), spec, TaskTable(tasks), 0.0, False, awaited=awaited or set())


def end(job: ActiveJob, *states: TaskState) -> ActiveJob:
    for number, state in enumerate(states, 1):
        job.tasks.move(TaskNumber(number), state)
    return job


def test_the_state_of_a_job_follows_from_its_tasks() -> None:
    assert a_job().compute_state() is JobState.WAITING
    assert end(a_job(), TaskState.RUNNING).compute_state() is JobState.RUNNING
    assert end(a_job(), TaskState.FINISHED).compute_state() is JobState.RUNNING
    assert end(a_job(), TaskState.FINISHED, TaskState.FINISHED).compute_state() is JobState.FINISHED
    assert end(a_job(), TaskState.FINISHED, TaskState.FAILED).compute_state() is JobState.FAILED
    assert end(a_job(), TaskState.FINISHED, TaskState.CANCELLED).compute_state() is JobState.CANCELLED
    assert end(a_job(), TaskState.FAILED, TaskState.CANCELLED).compute_state() is JobState.FAILED


def test_a_job_that_was_cancelled_is_cancelled_whatever_its_tasks_did() -> None:
    job = end(a_job(), TaskState.FAILED, TaskState.CANCELLED)
    job.is_cancelled = True
    assert job.compute_state() is JobState.CANCELLED


def test_a_held_job_is_paused_when_nothing_runs() -> None:
    job = a_job()
    job.held = True
    assert job.compute_state() is JobState.PAUSED
    assert end(job, TaskState.RUNNING).compute_state() is JobState.RUNNING


def test_jobs_stand_in_the_order_of_their_rank() -> None:
    table = JobTable()
    for job in (a_job(3), a_job(1), a_job(2, priority=1)):
        table.add(job)
    assert [job.id for job in table.in_order()] == [2, 1, 3]
    table.check()


def test_only_jobs_that_might_start_something_stand_in_line() -> None:
    table = JobTable()
    held, waiting, busy = a_job(1), a_job(2, awaited={JobId(9)}), end(a_job(3, tasks=1), TaskState.RUNNING)
    held.held = True
    for job in (held, waiting, busy):
        table.add(job)
    assert list(table.in_order()) == []
    held.held = False
    waiting.awaited.clear()
    busy.tasks.wait(TaskNumber(1), 5.0)
    for job in (held, waiting, busy):
        table.settle(job)
    assert list(table.in_order()) == [held, waiting, busy]
    assert list(table.delayed) == [3]
    table.check()


def test_removing_a_job_returns_the_jobs_that_waited_for_it() -> None:
    table = JobTable()
    first, second, third = a_job(1), a_job(2, awaited={JobId(1)}), a_job(3, awaited={JobId(1)})
    for job in (first, second, third):
        table.add(job)
    table.remove(third)
    assert table.remove(first) == [second]
    assert (len(table), list(table), table.find(JobId(1))) == (1, [second], None)
