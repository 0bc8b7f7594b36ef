"""Which calls of a round-robin worker owe a response, and which an INCREMENT."""

import pytest

from gandy.doors.roundrobin.outstanding import Key, OutstandingCalls

PAUSE = 2.0


def a_key(number: int) -> Key:
    return (), bytes([number])


@pytest.fixture
def calls() -> OutstandingCalls:
    """Two calls and a cast."""
    calls = OutstandingCalls(now=0.0)
    calls.begin(1, a_key(1), is_cast=False, now=0.0)
    calls.begin(2, a_key(2), is_cast=False, now=1.0)
    calls.begin(3, a_key(3), is_cast=True, now=2.0)
    return calls


def test_an_increment_ends_an_answered_call_before_a_cast(calls: OutstandingCalls) -> None:
    assert calls.take_answered(a_key(2)) == 2
    assert calls.take_incremented(3.0) == 2
    assert calls.take_incremented(3.0) == 3
    assert calls.take_incremented(3.0) is None


def test_an_increment_without_a_response_releases_the_oldest_call(calls: OutstandingCalls) -> None:
    calls.take_incremented(3.0)  # the cast
    assert [calls.release_oldest() for _ in range(3)] == [1, 2, None]


def test_of_two_calls_with_one_key_the_older_is_answered_first() -> None:
    calls = OutstandingCalls(now=0.0)
    for number in (1, 2):
        calls.begin(number, a_key(7), is_cast=False, now=0.0)
    assert [calls.take_answered(a_key(7)) for _ in range(3)] == [1, 2, None]


def test_a_released_call_that_is_answered_is_returned(calls: OutstandingCalls) -> None:
    calls.release_oldest()
    calls.take_answered(a_key(1))
    assert calls.returned == {1}
    calls.end(1)
    assert 1 not in calls.list_begun()


def test_a_call_is_given_up_only_when_no_other_increment_is_to_come(calls: OutstandingCalls) -> None:
    calls.take_incremented(3.0)
    calls.release_oldest()
    assert calls.list_given_up(3.0 + PAUSE, PAUSE) == []  # the other call may be the one that has ended
    calls.release_oldest()
    assert calls.list_given_up(3.0 + PAUSE / 2, PAUSE) == []
    assert sorted(calls.list_given_up(3.0 + PAUSE, PAUSE)) == [1, 2]
    calls.uncertain_until = 100.0
    assert calls.list_given_up(99.0, PAUSE) == []


def test_silence_about_a_call_is_measured_from_the_last_word(calls: OutstandingCalls) -> None:
    assert calls.list_untouched(1.0) == [1, 2]
    calls.touch(1, 5.0)
    assert calls.list_untouched(2.0) == [2, 3]


@pytest.mark.parametrize("number", [1, 2, 3])
def test_nothing_is_expected_about_a_dropped_call(calls: OutstandingCalls, number: int) -> None:
    calls.take_answered(a_key(2))
    calls.drop(number)
    assert calls.list_begun() == {1, 2, 3} - {number}
