import pytest
from tests.reactors import PromptReactor

from gandy.core.explain import CAUSES, describe_ending, explain_end, explain_ends, explain_waiting
from gandy.core.model import AttemptKey, Cause, Ending, JobSpec, TaskState
from gandy.core.reactor import Reactor
from gandy.core.rows import TaskRow
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId, TaskNumber

ONE = TaskNumber(1)


def explain(reactor: Reactor, job: int, now: float = 0.0) -> str:
    found = reactor.jobs.find(JobId(job))
    assert found is not None
    return " ".join(explain_waiting(reactor, found, now))


def submit(reactor: Reactor, **changes: object) -> JobId:
    job, _ = reactor.control.submit(JobSpec(command="true", **changes), 0.0)  # type: ignore[arg-type]
    return job


def a_crew(slots: int = 1, tags: tuple[str, ...] = ()) -> Reactor:
    reactor = PromptReactor()
    reactor.on_hello(WorkerInfo("w", "w", slots, frozenset(tags)), [], 0.0)
    return reactor


def test_no_worker() -> None:
    reactor = PromptReactor()
    assert "No worker is connected" in explain(reactor, submit(reactor))


def test_workers_that_only_answer_calls() -> None:
    reactor = PromptReactor()
    reactor.on_hello(WorkerInfo("w", "w", 2, takes_tasks=False), [], 0.0)
    job = submit(reactor)
    assert "only answer calls" in explain(reactor, job)
    reactor.on_hello(WorkerInfo("v", "v", 1, takes_tasks=False), [], 0.0)
    reactor.on_hello(WorkerInfo("u", "u", 1, frozenset({"cpu"})), [], 0.0)
    assert "tags: gpu" in explain(reactor, submit(reactor, tags=("gpu",)))
    other = reactor.workers.find("u")
    assert other is not None
    assert len(other.held) == 1  # of the first job


def test_held_and_waiting_for_another() -> None:
    reactor = a_crew()
    first = submit(reactor, held=True)
    second = submit(reactor, after=(first,))
    assert "held" in explain(reactor, first)
    assert "waits for job 1" in explain(reactor, second)


def test_the_limit() -> None:
    reactor = a_crew(slots=3)
    assert "limit of 1" in explain(reactor, submit(reactor, tasks=2, limit=1))


def test_tags_and_sizes() -> None:
    reactor = a_crew(slots=2, tags=("cpu",))
    assert "tags: gpu" in explain(reactor, submit(reactor, tags=("gpu",)))
    assert "needs 3 slots" in explain(reactor, submit(reactor, slots=3))


def test_workers_that_are_short_of_something() -> None:
    reactor = a_crew(slots=2)
    reactor.on_capacity("w", 0, 0, "open files")
    job = submit(reactor, slots=2)
    assert explain(reactor, job) == "Worker w is short of open files."
    reactor.on_hello(WorkerInfo("v", "v", 1), [], 0.0)
    assert explain(reactor, job) == (
        "Worker w is short of open files. Each task needs 2 slots, and the largest worker that could take it has 1."
    )


def test_a_time() -> None:
    reactor = a_crew()
    job = submit(reactor, at=1012.3, clock_ahead=1000.0)
    assert "the foreman does not know the shared time" in explain(reactor, job)
    reactor.on_clock(1000.0)
    text = explain(reactor, job)
    assert "It waits for its time, in 12.3 s." in text
    assert "No worker that could take it knows the shared time" in text
    for worker in reactor.workers:
        worker.knows_time = True
    assert explain(reactor, job) == "It waits for its time, in 12.3 s."
    assert explain(reactor, job, now=13.3) == "Its time was 1.0 s ago."


def test_everything_is_taken() -> None:
    reactor = a_crew(slots=1)
    submit(reactor, tasks=2)
    assert "All slots are taken: 1 of 1. 1 job goes before it." in explain(reactor, submit(reactor))
    assert explain(reactor, 1) == "All slots are taken: 1 of 1."


def test_slots_that_are_kept_for_another_job() -> None:
    reactor = a_crew(slots=2)
    submit(reactor)
    submit(reactor, slots=2, priority=1)
    kept_out = submit(reactor)
    assert explain(reactor, kept_out) == "Free slots are kept for job 2, whose next task needs several on one worker."
    assert explain(reactor, 2) == "All slots are taken: 1 of 2."


def test_a_task_that_was_lost_with_its_workers() -> None:
    reactor = a_crew(slots=8)
    job = submit(reactor)
    for attempt, name in enumerate(("w", "v"), 1):
        reactor.on_given(name, [AttemptKey(job, ONE, attempt)], 0.0)
        reactor.on_gone(name, 0.0)
        if name == "w":
            reactor.on_hello(WorkerInfo("v", "v", 8), [], 0.0)
    text = explain(reactor, job)
    assert text.startswith("Task 1 was lost with 2 workers.")
    assert "It waits for 4 free slots on one worker, or for a whole worker" in text


def test_refusals() -> None:
    reactor = a_crew(slots=1)
    job = submit(reactor)
    reactor.on_refused("w", [AttemptKey(job, ONE, 1)], 1.0)
    text = "Worker w refused the last task that it was given; it is asked again in 0.0 s."
    assert explain(reactor, job, now=1.0) == explain(reactor, job, now=9.0) == text
    reactor.on_hello(WorkerInfo("other", "other", 1), [], 1.0)
    assert explain(reactor, submit(reactor)) == "All slots are taken: 1 of 1. 1 job goes before it."


def test_a_pause() -> None:
    reactor = a_crew(slots=1)
    job = submit(reactor, retries=1, retry_pause=30.0)
    reactor.on_results("w", [(AttemptKey(job, ONE, 1), Ending(cause=Cause.EXIT, exit_code=1))], 0.0)
    assert explain(reactor, job) == "The next task failed before and is tried again in 30 s."


def test_every_cause_has_a_text() -> None:
    assert set(CAUSES) == set(Cause)


@pytest.mark.parametrize(
    ("ending", "text"),
    [
        (Ending(cause=Cause.EXIT, exit_code=7), "exit code 7"),
        (Ending(cause=Cause.SIGNAL, signal=11, note="SIGSEGV"), "killed by signal 11 (SIGSEGV)"),
        (Ending(cause=Cause.TIMEOUT, note="5 s"), "took too long and was killed (5 s)"),
        (Ending(cause=Cause.CANCELLED, note="cancelled"), "cancelled"),
        (Ending(cause=Cause.CANCELLED, note="by anna"), "cancelled (by anna)"),
        (Ending(cause=Cause.NOT_STARTED, note="no such file"), "could not start (no such file)"),
        (Ending(cause=Cause.WORKER_LOST), "lost with its worker"),
        (Ending(cause=Cause.WORKER_STOPPED), "its worker was stopped"),
        (Ending(cause=Cause.RETURNED), "given back before it began"),
        (Ending(cause=Cause.MEMORY, note="9 bytes"), "used too much memory and was killed (9 bytes)"),
        (Ending(cause=Cause.RAISED, note="ValueError: no"), "raised an exception (ValueError: no)"),
    ],
)
def test_every_ending_has_a_text(ending: Ending, text: str) -> None:
    assert describe_ending(ending) == text


def test_the_end_of_the_error_output_stands_under_a_failure() -> None:
    failed = Ending(cause=Cause.EXIT, exit_code=1, tail=b"oh\xff no\n")
    rows = [
        TaskRow(ONE, TaskState.FAILED, 2, "w", ending=failed),
        TaskRow(ONE, TaskState.FINISHED, 1, "w", ending=Ending(cause=Cause.EXIT, exit_code=0, tail=b"fine")),
        TaskRow(ONE, TaskState.RUNNING, 1, "w"),
        TaskRow(ONE, TaskState.ASSIGNED, 1, "w"),
        TaskRow(ONE, TaskState.CANCELLED, 0),
    ]
    assert [explain_end(row) for row in rows] == [
        "attempt 2 on w: exit code 1\n    oh\ufffd no",
        "attempt 1 on w: exit code 0",
        "attempt 1 runs on w",
        "attempt 1 waits on w for a slot",
        "it never started",
    ]
    assert explain_ends(rows[-1:]) == ["Task 1: it never started"]
