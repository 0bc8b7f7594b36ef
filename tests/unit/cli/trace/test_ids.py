"""The same thing has the same ids wherever and whenever they are made; other things have others."""

from tests.unit.cli.trace.rows import a_row

from gandy.cli.trace.ids import JOB, find_span_id, find_trace_id


def test_ids_never_change() -> None:
    """Written out: a backend has these from earlier versions of gandy."""
    trace = find_trace_id(a_row())
    assert f"{trace:032x}" == "aa69e25a52de30acf171aea1540e9ffc"
    assert f"{find_span_id(trace, *JOB):016x}" == "bcf9598aa76900ab"
    assert f"{find_span_id(trace, 1, 1):016x}" == "0a1260a96f425cf1"


def test_jobs_with_one_number_have_traces_of_their_own() -> None:
    """A number is given again after a backup was restored, and every crew has a job 1."""
    assert find_trace_id(a_row(identity=5)) != find_trace_id(a_row(identity=6))


def test_job_of_an_old_foreman_is_known_by_its_time() -> None:
    row = a_row(identity=0)
    assert find_trace_id(row) == find_trace_id(a_row(identity=0)) != find_trace_id(a_row())


def test_spans_differ() -> None:
    trace, other = find_trace_id(a_row(1)), find_trace_id(a_row(2))
    found = {find_span_id(each, task, attempt) for each in (trace, other) for task in range(20) for attempt in range(9)}
    assert len(found) == 360
    assert 0 not in found
