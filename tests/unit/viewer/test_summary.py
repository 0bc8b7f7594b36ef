"""A summary of the tasks that were looked at."""

from typing import Any

import msgspec
from tests.unit.client.builders import NOW, a_row, a_task_row

from gandy.core.model import Cause, Counts, Ending, TaskState
from gandy.core.rows import TaskRow
from gandy.ids import TaskNumber
from gandy.viewer.failures import FailureGroup
from gandy.viewer.summary import JobSample, make_summary, summarise_durations, summarise_memory


def a_finished_row(task: int, seconds: float, memory: int | None = None) -> TaskRow:
    how: dict[str, Any] = {"exit_code": 0, "started": NOW, "ended": NOW + seconds, "peak_memory_bytes": memory}
    return a_task_row(task, TaskState.FINISHED, **how)


def test_durations_have_bars_and_percentiles() -> None:
    found = summarise_durations(
        [a_finished_row(number, 0.000_002) for number in range(1, 100)] + [a_finished_row(100, 1)]
    )
    assert (found.bars[0], found.bars[-1][2], sum(bar[2] for bar in found.bars)) == ((2, 3, 99), 1, 100)
    assert (found.p50_us, found.p99_us, found.max_us) == (2.0, 2.0, 1_000_000)


def test_no_percentile_exceeds_the_largest_value() -> None:
    found = summarise_memory([a_finished_row(1, 1.0, memory=1_048_577)])
    assert (found.p50_bytes, found.p99_bytes, found.max_bytes) == (1_048_577.0, 1_048_577.0, 1_048_577)


def test_tasks_that_measured_nothing_are_in_no_histogram() -> None:
    rows = [TaskRow(TaskNumber(1), TaskState.WAITING, 0), a_task_row(2, started=None)]
    assert summarise_durations(rows).bars == ()
    assert summarise_memory(rows).max_bytes is None
    assert summarise_memory(rows).p50_bytes is None


def test_summary_says_how_many_tasks_of_how_many_it_saw() -> None:
    failed = a_task_row(2, tail=b"no\n")
    row = a_row(tasks=4_000, counts=Counts(waiting=1, finished=2_999, failed=1_000))
    found = make_summary(JobSample(row, (a_finished_row(1, 1.0), failed), (failed, a_task_row(3, tail=b"no"))))
    assert (found.sampled, found.of, found.failures_sampled, found.failures_of) == (2, 4_000, 2, 1_000)
    assert found.failures == (FailureGroup("no", "exit code 1", 2, (TaskNumber(2), TaskNumber(3))),)
    assert found.failures_left_out == 0
    assert sorted(each.task for each in found.timeline) == [1, 2, 3]


def test_tasks_that_failed_while_it_was_asked_are_not_more_than_all() -> None:
    found = make_summary(JobSample(a_row(tasks=0, counts=Counts()), (a_task_row(),), (a_task_row(),)))
    assert (found.of, found.failures_of) == (1, 1)


def test_summary_as_json_has_the_promised_keys() -> None:
    row = TaskRow(TaskNumber(1), TaskState.FAILED, 1, "hut", 5.0, 6.0, ending=Ending(Cause.WORKER_LOST))
    made = msgspec.to_builtins(make_summary(JobSample(a_row(counts=Counts(failed=1)), (row,), (row,))))
    assert {"sampled", "of", "durations", "memory", "failures", "timeline"} < set(made)
    assert set(made["durations"]) == {"bars", "p50_us", "p99_us", "max_us"}
    assert set(made["memory"]) == {"bars", "p50_bytes", "p99_bytes", "max_bytes"}
    assert made["failures"] == ({"words": "", "cause": "lost with its worker", "count": 1, "tasks": (1,)},)
    attempt = {"worker": "hut", "lane": 0, "task": 1, "attempt": 1, "state": "failed", "began": 5.0, "ended": 6.0}
    assert made["timeline"] == (attempt,)
