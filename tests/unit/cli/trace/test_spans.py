"""What is said about a job and an attempt, and when they were."""

from typing import Any

import pytest
from msgspec.structs import replace
from tests.unit.cli.trace.rows import BAD, OK, a_row, a_task

from gandy.cli.trace.ids import JOB, find_span_id, find_trace_id
from gandy.cli.trace.spans import SpanStatus, TraceSpan, has_ended, trace_attempt, trace_job
from gandy.core.model import Cause, Counts, Ending, JobState, PythonSpec, TaskState
from gandy.core.rows import TaskRow

JOB_SPAN = trace_job(a_row(name="planets"))


def attempt_of(row: TaskRow) -> TraceSpan:
    span = trace_attempt(JOB_SPAN, row)
    assert span is not None
    return span


# Jobs


def test_span_of_a_job() -> None:
    job = trace_job(a_row(name="planets", tags=("gpu",), priority=3, retries=2))
    trace = find_trace_id(a_row())
    assert (job.job, job.changed, job.tasks, job.failed, job.name) == (7, 200.0, 2, 0, "planets")
    assert job.span == TraceSpan(
        trace,
        find_span_id(trace, *JOB),
        None,
        "job planets",
        100.0,
        200.0,
        SpanStatus.OK,
        "",
        {
            "gandy.job.id": 7,
            "gandy.job.name": "planets",
            "gandy.job.state": "finished",
            "gandy.job.priority": 3,
            "gandy.job.slots": 1,
            "gandy.job.retries": 2,
            "gandy.job.tasks.total": 2,
            "gandy.job.tasks.finished": 2,
            "gandy.job.tasks.failed": 0,
            "gandy.job.tasks.cancelled": 0,
            "gandy.job.tags": ("gpu",),
        },
    )


def test_failed_job_says_how_many_tasks_failed() -> None:
    span = trace_job(a_row(state=JobState.FAILED, counts=Counts(finished=1, failed=1_000))).span
    assert (span.status, span.problem) == (SpanStatus.ERROR, "1,000 of 1,001 tasks failed")


def test_cancelled_job_is_neither_right_nor_wrong() -> None:
    span = trace_job(a_row(state=JobState.CANCELLED, counts=Counts(failed=1, cancelled=1))).span
    assert (span.status, span.problem) == (SpanStatus.UNSET, "")


@pytest.mark.parametrize(
    ("spec", "name"),
    [
        ({"command": ("/usr/bin/tar", "x")}, "tar"),
        ({"command": ("bin/",)}, "bin"),
        ({"command": ("/",)}, "program"),
        ({"command": "PASSWORD=secret ./run"}, "sh"),
        ({"command": "PASSWORD=secret ./run", "name": "nightly\n"}, "nightly\\n"),
        ({"command": "mymodule.report", "python": PythonSpec()}, "mymodule.report"),
    ],
)
def test_name_is_one_of_few_and_has_no_secrets(spec: dict[str, Any], name: str) -> None:
    job = trace_job(a_row(**spec))
    assert (job.name, job.span.name) == (name, f"job {name}")
    assert "secret" not in str(job.span)


def test_function_is_named() -> None:
    job = trace_job(a_row(command="mymodule.report", python=PythonSpec()))
    assert job.span.attributes["code.function.name"] == "mymodule.report"


def test_command_is_there_if_it_is_asked_for() -> None:
    shell = trace_job(a_row(command="cd x; ls", cwd="/far"), with_command=True).span.attributes
    assert (shell["process.command_line"], shell["process.working_directory"]) == ("cd x; ls", "/far")
    words = trace_job(a_row(command=("tar", "x", "a b")), with_command=True).span.attributes
    assert words["process.command_args"] == ("tar", "x", "a b")
    assert "process.working_directory" not in words


def test_texts_are_cut_and_can_be_sent() -> None:
    attributes = trace_job(a_row(name="n" * 900, command=("x" * 3_999, "y", "z\udcff"), tags=tuple("abc")), True).span
    assert attributes.attributes["gandy.job.name"] == "n" * 500 + "…"
    assert attributes.attributes["process.command_args"] == ("x" * 3_999,)
    odd = trace_job(a_row(command=("a\udcff", "b" * 9_000)), with_command=True).span.attributes
    assert odd["process.command_args"] == ("a?", "b" * 3_997 + "…")


def test_times_of_a_job_are_in_order_whatever_the_clock_did() -> None:
    span = trace_job(replace(a_row(), submitted=300.0)).span
    assert (span.began, span.ended) == (200.0, 200.0)


@pytest.mark.parametrize(
    ("state", "counts", "expected"),
    [
        (JobState.FINISHED, Counts(finished=1), True),
        (JobState.RUNNING, Counts(running=1), False),
        (JobState.CANCELLED, Counts(cancelled=1, running=1), False),
        (JobState.CANCELLED, Counts(cancelled=1, assigned=1), False),
    ],
)
def test_job_has_ended_when_no_attempt_is_left(state: JobState, counts: Counts, expected: bool) -> None:
    assert has_ended(a_row(state=state, counts=counts)) is expected


# Attempts


def test_span_of_an_attempt() -> None:
    span = attempt_of(a_task(3, replace(OK, peak_memory_bytes=9), attempt=2))
    trace = JOB_SPAN.span.trace
    assert span == TraceSpan(
        trace,
        find_span_id(trace, 3, 2),
        JOB_SPAN.span.span,
        "attempt planets",
        118.0,
        120.0,
        SpanStatus.OK,
        "",
        {
            "gandy.job.id": 7,
            "gandy.task.number": 3,
            "gandy.attempt.number": 2,
            "gandy.attempt.state": "finished",
            "gandy.worker.id": "hut-1",
            "gandy.attempt.cause": "exit",
            "process.exit.code": 0,
            "gandy.attempt.peak_memory_bytes": 9,
        },
    )


@pytest.mark.parametrize(
    ("ending", "problem", "kind"),
    [
        (BAD, "exit code 3", "exit"),
        (Ending(cause=Cause.SIGNAL, signal=9), "killed by signal 9", "signal"),
        (Ending(cause=Cause.WORKER_LOST), "lost with its worker", "worker_lost"),
        (Ending(cause=Cause.TIMEOUT, signal=15), "took too long and was killed", "timeout"),
        (Ending(cause=Cause.RAISED, note="ValueError: no"), "raised an exception (ValueError: no)", "ValueError"),
        (Ending(cause=Cause.RAISED, note="my.Odd"), "raised an exception (my.Odd)", "my.Odd"),
        (Ending(cause=Cause.RAISED, note="it broke"), "raised an exception (it broke)", "raised"),
        (Ending(cause=Cause.NOT_STARTED, note="no such file"), "could not start (no such file)", "not_started"),
    ],
)
def test_failed_attempt_says_why(ending: Ending, problem: str, kind: str) -> None:
    """Also if its task waits for the next one."""
    span = attempt_of(a_task(ending=ending, state=TaskState.WAITING))
    assert (span.status, span.problem) == (SpanStatus.ERROR, problem)
    assert span.attributes["error.type"] == kind
    assert span.attributes["gandy.attempt.state"] == "failed"
    assert span.attributes.get("gandy.attempt.signal") == ending.signal


def test_cancelled_attempt_is_neither_right_nor_wrong() -> None:
    for row in (
        a_task(ending=Ending(cause=Cause.CANCELLED), state=TaskState.CANCELLED),
        a_task(ending=None, state=TaskState.CANCELLED),
        a_task(ending=None, state=TaskState.WAITING),  # it was retried since
    ):
        span = attempt_of(row)
        assert (span.status, span.problem, span.attributes["gandy.attempt.state"]) == (
            SpanStatus.UNSET,
            "",
            "cancelled",
        )
        assert "error.type" not in span.attributes


def test_attempt_that_failed_stays_failed_if_its_task_is_cancelled_since() -> None:
    assert attempt_of(a_task(ending=BAD, state=TaskState.CANCELLED)).status is SpanStatus.ERROR


@pytest.mark.parametrize(
    "row",
    [
        a_task(attempt=0, ending=None, claimed=None, ended=None, state=TaskState.CANCELLED),
        a_task(ending=None, ended=None, state=TaskState.RUNNING),
        a_task(ending=Ending(cause=Cause.RETURNED), state=TaskState.WAITING),
        a_task(claimed=None),
    ],
)
def test_what_never_began_or_has_not_ended_has_no_span(row: TaskRow) -> None:
    assert trace_attempt(JOB_SPAN, row) is None


@pytest.mark.parametrize(
    ("claimed", "ended", "ending", "expected"),
    [
        (110.0, 120.0, OK, (118.0, 120.0)),
        (119.0, 120.0, OK, (119.0, 120.0)),  # it cannot have begun before it was given to the worker
        (150.0, 120.0, OK, (118.0, 120.0)),  # the foreman's clock was set back
        (150.0, 120.0, None, (120.0, 120.0)),
        (110.0, 120.0, Ending(cause=Cause.WORKER_LOST), (110.0, 120.0)),
        (110.0, 120.0, replace(OK, started=1_002.0, ended=1_000.0), (120.0, 120.0)),  # the worker's clock was set back
        (110.0, 120.0, replace(OK, started=None), (110.0, 120.0)),
    ],
)
def test_times_are_by_the_clock_of_the_foreman(
    claimed: float, ended: float, ending: Ending | None, expected: tuple[float, float]
) -> None:
    span = attempt_of(a_task(claimed=claimed, ended=ended, ending=ending))
    assert (span.began, span.ended) == expected
