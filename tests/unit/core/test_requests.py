"""What clients see of a job: neither the values of its environment nor its pickled code."""

from gandy.core import requests as ask
from gandy.core.model import Counts, JobSpec, JobState, PythonSpec
from gandy.core.rows import JobRow
from gandy.ids import JobId
from gandy.limits import MAX_TEXT


def a_row(**env: str) -> JobRow:
    spec = JobSpec(command="true", name="n", env=env, retries=3)
    return JobRow(JobId(1), spec, JobState.WAITING, False, 1.0, 2.0, Counts())


def test_clients_see_the_names_of_an_environment_and_not_its_values() -> None:
    row = a_row(SECRET="canary", EMPTY="")
    for answer in (ask.hide_values(ask.JobFound(row)), ask.hide_values(ask.JobList((a_row(), row)))):
        assert b"canary" not in ask.encode(answer)
        assert b"SECRET" in ask.encode(answer)
    assert row.spec.env == {"SECRET": "canary", "EMPTY": ""}  # the foreman's own stays as it is


def test_clients_see_everything_else_as_it_is() -> None:
    blank = a_row(SECRET="")
    assert ask.hide_values(ask.JobFound(a_row(SECRET="canary"))) == ask.JobFound(blank)
    for answer in (ask.JobFound(a_row()), ask.JobList((a_row(), a_row())), ask.Done(), ask.Submitted(JobId(1))):
        assert ask.hide_values(answer) == answer


def test_pickled_code_is_left_out_and_clients_see_that_there_is_some() -> None:
    row = JobRow(
        JobId(1),
        JobSpec(command="f", python=PythonSpec(shared=b"canary", fresh=True)),
        JobState.WAITING,
        False,
        1.0,
        2.0,
        Counts(),
    )
    shown = ask.hide_values(ask.JobFound(row))
    assert isinstance(shown, ask.JobFound)
    assert shown.row.spec.python == PythonSpec(fresh=True, has_shared=True)
    assert row.spec.python is not None
    assert row.spec.python.shared == b"canary"


def test_a_failure_can_be_sent_whatever_it_repeats() -> None:
    failure = ask.make_failure("not_found", "x" * (2 * MAX_TEXT), retryable=True)
    assert ask.decode_answer(ask.encode(failure)) == failure
