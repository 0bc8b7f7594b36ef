from gandy.errors import (
    Busy,
    CallError,
    CallFailed,
    ErrorCode,
    GandyError,
    LocalProtocolError,
    NothingListens,
    OutcomeUnknown,
    RemoteProtocolError,
    ShardLost,
    SubmittedBefore,
    WorkerLost,
    name_code,
)


def test_codes_of_the_original_keep_their_numbers() -> None:
    assert (ErrorCode.OVERFLOW, ErrorCode.NO_PROCS) == (1, 2)


def test_known_and_unknown_codes_have_a_name() -> None:
    assert name_code(2) == "no_procs"
    assert name_code(99) == "error 99"


def test_a_second_submission_says_which_jobs_have_its_keys() -> None:
    error = SubmittedBefore({9: 4, 7: 2})
    assert (str(error), error.jobs) == ("these jobs were submitted before: 7 as 2, 9 as 4", {7: 2, 9: 4})
    assert error.retryable


def test_a_remote_error_says_where() -> None:
    error = RemoteProtocolError("bad", ErrorCode.BAD_MAGIC, 12)
    assert (str(error), error.code, error.offset) == ("bad", ErrorCode.BAD_MAGIC, 12)


def test_a_broken_protocol_is_not_worth_a_retry() -> None:
    assert not RemoteProtocolError("bad", ErrorCode.BAD_SEQ).retryable
    assert issubclass(LocalProtocolError, GandyError)


def test_a_failed_call_says_what_was_raised_and_where() -> None:
    error = CallFailed("no", "ValueError", "Traceback")
    assert (str(error), error.kind, error.trace) == ("no", "ValueError", "Traceback")
    assert not error.retryable


def test_a_call_that_found_no_worker_or_lost_it_is_worth_a_retry() -> None:
    assert Busy("full").retryable
    assert WorkerLost("gone").retryable
    assert not CallError("no").retryable


def test_a_foreman_that_does_not_run_is_named_by_all_its_places() -> None:
    error = NothingListens(("unix:/a", "tcp://b:1"), "start one")
    assert str(error) == "no foreman is running at unix:/a or tcp://b:1; start one"
    assert error.retryable


def test_a_commit_whose_outcome_is_unknown_is_tried_again() -> None:
    assert OutcomeUnknown("the answer was lost").retryable
    assert not ShardLost("another foreman owns it").retryable
