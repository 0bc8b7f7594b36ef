"""Rows at a glance: buckets of histograms, and titles of jobs."""

import msgspec
import pytest
from tests.unit.core.played import a_spec

from gandy.core.model import Counts, JobState
from gandy.core.rows import JobRow
from gandy.core.views import JobGlance, TaskUpdate, find_bucket, find_lower_bound, glance_at, make_title
from gandy.ids import JobId, TaskNumber
from gandy.limits import LAST_INTEGER, MAX_BUCKETS, MAX_TITLE


def test_small_numbers_have_a_bucket_each() -> None:
    assert [find_bucket(value) for value in range(8)] == list(range(8))
    assert [find_lower_bound(bucket) for bucket in range(8)] == list(range(8))


def test_buckets_follow_one_another_without_a_gap() -> None:
    assert [find_bucket(value) for value in (8, 9, 10, 15, 16, 19, 20, 31, 32)] == [8, 8, 9, 11, 12, 12, 13, 15, 16]
    for bucket in range(MAX_BUCKETS - 1):
        assert find_bucket(find_lower_bound(bucket + 1) - 1) == bucket
        assert find_bucket(find_lower_bound(bucket + 1)) == bucket + 1


def test_every_number_that_can_be_stored_has_a_bucket() -> None:
    assert find_bucket(LAST_INTEGER) < MAX_BUCKETS


@pytest.mark.parametrize(
    ("spec", "title"),
    [
        (a_spec(name="night run"), "night run"),
        (a_spec(), "true"),
        (a_spec(name="two\nlines\tof it"), "two lines of it"),
        (a_spec(name="\x1b[2J"), "\\x1b[2J"),
        (a_spec(name="x" * MAX_TITLE), "x" * MAX_TITLE),
        (a_spec(name="x" * (MAX_TITLE + 1)), "x" * (MAX_TITLE - 1) + "…"),
    ],
    ids=["name", "command", "one line", "no escapes", "just fits", "too long"],
)
def test_a_title_is_the_name_or_the_command(spec: object, title: str) -> None:
    assert make_title(spec) == title  # type: ignore[arg-type]


def test_a_title_of_a_program_has_its_arguments() -> None:
    spec = msgspec.structs.replace(a_spec(), command=("./train.sh", "--epochs", "7"))
    assert make_title(spec) == "./train.sh --epochs 7"
    huge = msgspec.structs.replace(spec, command=("y" * 4_000_000, *["z"] * 100_000))
    assert len(make_title(huge)) == MAX_TITLE


def test_a_glance_at_a_row_is_that_of_a_foreman() -> None:
    spec, counts = a_spec(5, name="n", priority=3, is_open=True), Counts(waiting=5)
    row = JobRow(JobId(7), spec, JobState.PAUSED, True, 1.0, 2.0, counts)
    assert glance_at(row) == JobGlance(JobId(7), "n", JobState.PAUSED, True, 1.0, counts, 3, True)


@pytest.mark.parametrize("bad", [{"first": 0}, {"runs": ((0, 1, 2),)}, {"runs": ((1, 1, 9),)}])
def test_states_of_tasks_that_cannot_be_are_refused(bad: dict[str, object]) -> None:
    update = msgspec.to_builtins(TaskUpdate(JobId(1), TaskNumber(3))) | bad
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(update, TaskUpdate)
