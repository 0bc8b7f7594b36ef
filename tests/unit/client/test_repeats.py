"""Which requests are sent again, when, and for how long."""

from typing import get_args

import pytest

from gandy.client.repeats import (
    REFUSAL_PAUSES,
    REPEATABLE,
    REQUEST_PATIENCE,
    RETURN_PAUSES,
    Patience,
    draw_key,
    growing,
    is_passing,
    may_repeat,
)
from gandy.core import requests as ask
from gandy.core.model import JobSpec
from gandy.errors import GandyError, JobMoved, JobNotFound, Rejected, StoreError, StoreFull
from gandy.ids import JobId
from gandy.limits import LAST_INTEGER
from gandy.moments import LONG_AGO

TRUE = JobSpec(command="true")


def test_every_request_is_in_the_table() -> None:
    assert set(REPEATABLE) == set(get_args(ask.Request))


@pytest.mark.parametrize(
    ("request_", "may"),
    [
        (ask.Submit(TRUE), False),
        (ask.Submit(TRUE, key=5), True),
        (ask.DrainForeman(), False),
        (ask.DrainForeman("f1"), True),
        (ask.CancelJob(JobId(1)), True),
        (ask.StopForeman(), False),
        (ask.Invite("client", 1.0), False),
    ],
)
def test_what_would_do_more_the_second_time_is_not_sent_again(request_: ask.Request, may: bool) -> None:
    assert may_repeat(request_) is may


def test_keys_fit_a_store_and_are_never_zero() -> None:
    keys = {draw_key() for _ in range(100)}
    assert len(keys) == 100
    assert all(0 < key <= LAST_INTEGER for key in keys)


def test_a_link_that_broke_is_replaced_at_once_and_then_after_growing_pauses() -> None:
    patience = Patience()
    assert [patience.on_link_error(100.0, 100.0) for _ in range(4)] == [0.0, *(RETURN_PAUSES[0] * n for n in (1, 2, 4))]


def test_patience_ends_however_often_a_link_breaks() -> None:
    """Else a request that kills foremen would kill them all, one after the other."""
    patience = Patience()
    assert patience.on_link_error(100.0, 100.0) is not None
    assert patience.on_link_error(110.0, 110.0) is not None
    end = 100.0 + REQUEST_PATIENCE
    last = patience.on_link_error(end - 0.01, end - 0.01)
    assert last is not None
    assert last <= 0.011
    assert patience.on_link_error(end, end) is None


def test_a_client_that_never_had_a_link_has_no_patience() -> None:
    assert Patience().on_link_error(LONG_AGO, 100.0) is None


def test_a_client_that_lost_its_link_long_ago_tries_once() -> None:
    assert Patience().on_link_error(100.0, 100.0 + REQUEST_PATIENCE) is None


def test_a_foreman_that_refuses_is_asked_again_for_a_while() -> None:
    patience = Patience()
    assert patience.on_refusal(100.0) == REFUSAL_PAUSES[0]
    assert patience.on_refusal(101.0) == 2 * REFUSAL_PAUSES[0]
    assert patience.on_refusal(100.0 + REQUEST_PATIENCE) is None


AWAY = GandyError("worker hut is not connected")
AWAY.retryable = True


@pytest.mark.parametrize(
    ("error", "alone", "among_many", "just_moved"),
    [
        (JobMoved("m"), True, True, True),
        (StoreError("away", retryable=True), False, True, True),
        (StoreFull("full"), False, False, False),
        (StoreError("damaged"), False, False, False),
        (AWAY, False, False, True),
        (JobNotFound("n"), False, False, False),
        (Rejected("r"), False, False, False),
    ],
)
def test_refusals_that_pass(error: GandyError, alone: bool, among_many: bool, just_moved: bool) -> None:
    assert is_passing(error, has_many_foremen=False, has_just_moved=False) is alone
    assert is_passing(error, has_many_foremen=True, has_just_moved=False) is among_many
    assert is_passing(error, has_many_foremen=False, has_just_moved=True) is just_moved


def test_pauses_grow_to_the_last_one() -> None:
    pauses = growing(1.0, 5.0)
    assert [next(pauses) for _ in range(5)] == [1.0, 2.0, 4.0, 5.0, 5.0]
