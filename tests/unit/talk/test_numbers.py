import pytest

from gandy.errors import RemoteProtocolError
from gandy.talk.law import Role
from gandy.talk.numbers import Numbers


def test_workers_are_even_and_foremen_odd() -> None:
    assert [Numbers(Role.WORKER).take(), Numbers(Role.FOREMAN).take()] == [0, 1]


def test_the_foremans_first_number_after_hello_is_three() -> None:
    numbers = Numbers(Role.FOREMAN)
    numbers.on_request(0, False)
    assert [numbers.take(), numbers.take()] == [3, 5]


def test_a_new_number_is_above_everything_heard() -> None:
    numbers = Numbers(Role.WORKER)
    numbers.take()
    numbers.on_request(101, False)
    assert numbers.take() == 102


def test_the_first_number_may_be_any() -> None:
    numbers = Numbers(Role.FOREMAN)
    numbers.on_request(100, False)
    assert numbers.take() == 103


@pytest.mark.parametrize("seq", [0, 4, 6])
def test_their_numbers_rise(seq: int) -> None:
    numbers = Numbers(Role.FOREMAN)
    numbers.on_request(6, False)
    with pytest.raises(RemoteProtocolError, match="not greater"):
        numbers.on_request(seq, False)


def test_their_numbers_rise_above_what_they_answered() -> None:
    numbers = Numbers(Role.FOREMAN)
    numbers.on_request(0, False)
    numbers.on_answer(numbers.take())
    with pytest.raises(RemoteProtocolError, match="not greater"):
        numbers.on_request(2, False)
    numbers.on_request(4, False)


def test_the_last_pair_is_kept_for_reset() -> None:
    numbers = Numbers(Role.WORKER, last=7)
    assert [numbers.take() for _ in range(3)] == [0, 2, 4]
    assert numbers.is_worn_out
    assert numbers.take() == 6


def test_only_reset_may_have_their_last_number() -> None:
    with pytest.raises(RemoteProtocolError, match="past the last"):
        Numbers(Role.WORKER, last=7).on_request(7, False)
    Numbers(Role.WORKER, last=7).on_request(7, True)


def test_nothing_is_above_the_last_number() -> None:
    with pytest.raises(RemoteProtocolError, match="past the last"):
        Numbers(Role.WORKER, last=7).on_request(9, True)


def test_the_real_limit_does_not_wrap_around() -> None:
    numbers = Numbers(Role.FOREMAN)
    numbers.on_request(0xFFFF_FFFC, False)
    assert numbers.is_worn_out
    assert numbers.take() == 0xFFFF_FFFF
