"""Endings and reports have the same content."""

import pytest
from msgspec import UNSET
from msgspec.structs import fields, replace

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reports import make_result, read_attempt, read_ending, read_shard
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_TEXT
from gandy.wire import payloads
from gandy.wire.messages import Report, TaskResult

KEY = AttemptKey(JobId(3), TaskNumber(5), 2)
FULL = Ending(
    cause=Cause.RAISED,
    exit_code=1,
    signal=9,
    started=1.5,
    ended=2.5,
    peak_memory_bytes=7,
    tail=b"alas",
    note="ValueError",
    result=b"pickle",
    result_bytes=6,
    out_bytes=8,
    err_bytes=4,
)


@pytest.mark.parametrize("ending", [FULL, Ending(cause=Cause.EXIT, exit_code=0), Ending(cause=Cause.RETURNED)])
def test_an_ending_comes_back_from_its_result(ending: Ending) -> None:
    result = payloads.decode_result(payloads.encode(make_result(KEY, ending)))
    assert (read_attempt(result), read_ending(result)) == (KEY, ending)
    assert result.success == ending.is_success


@pytest.mark.parametrize(
    ("ending", "status"),
    [
        (Ending(cause=Cause.EXIT, exit_code=0, note="late"), "done"),
        (Ending(cause=Cause.EXIT, exit_code=4), "exit status 4"),
        (FULL, "ValueError"),
    ],
)
def test_a_plain_foreman_reads_one_line(ending: Ending, status: str) -> None:
    plain = replace(make_result(KEY, ending), report=UNSET)
    assert plain.status == status
    assert read_attempt(plain) == KEY._replace(attempt=0)
    code = 0 if ending.is_success else 1
    assert read_ending(plain) == Ending(cause=Cause.EXIT, exit_code=code, note=status)


def test_a_report_has_the_fields_of_an_ending_between_attempt_and_identity() -> None:
    names = [field.name for field in fields(Ending)]
    assert [field.name for field in fields(Report)] == ["attempt", *names, "identity", "shard"]


def test_a_note_of_any_length_fits_a_report() -> None:
    assert read_ending(make_result(KEY, replace(FULL, note="x" * (MAX_TEXT + 1)))).note == "x" * MAX_TEXT


def test_a_cause_of_a_younger_worker_is_an_exit() -> None:
    result = make_result(KEY, FULL)
    assert result.report is not UNSET
    assert read_ending(replace(result, report=replace(result.report, cause=99))).cause is Cause.EXIT


def test_a_result_says_which_shard_its_task_came_from() -> None:
    assert read_shard(make_result(KEY, FULL, shard=3)) == 3
    assert read_shard(TaskResult(JobId(1), TaskNumber(1), True, "")) == 0
