"""The tables, read as what they promise."""

from typing import get_args

import pytest

from gandy.doors.v1.law import V1_LAW, V1State
from gandy.talk.law import LAW, Role, State, Step
from gandy.wire.messages import Answer, Cancel, Error, Hello, Job, Ok, Request, Reset, Stop, Update

BY_WORKER = {Hello, Update, Reset}
BY_FOREMAN = {Job, Cancel, Stop, Reset}


def test_steps_read_like_the_seed() -> None:
    assert str(Step(Hello)) == "HELLO"
    assert str(Step(Ok, Job)) == "OK to JOB"


def test_roles() -> None:
    assert (Role.WORKER.parity, Role.FOREMAN.parity) == (0, 1)
    assert Role.WORKER.other is Role.FOREMAN
    assert Role.FOREMAN.other is Role.WORKER


def test_each_side_asks_only_what_is_its_own() -> None:
    for _, sender, step in LAW:
        if step.answers is None:
            assert step.message in (BY_WORKER if sender is Role.WORKER else BY_FOREMAN)


def test_each_side_answers_only_what_the_other_asks() -> None:
    for _, sender, step in LAW:
        if step.answers is not None:
            assert step.answers in (BY_FOREMAN if sender is Role.WORKER else BY_WORKER)
            assert step.message in get_args(Answer)


def test_reset_and_nothing_else_answers_reset() -> None:
    for _, _, step in LAW:
        assert (step.answers is Reset) == (step.answers is not None and step.message is Reset)


@pytest.mark.parametrize("state", [state for state in State if state is not State.CLOSED])
def test_whatever_may_be_asked_in_a_state_may_be_answered_where_it_leads(state: State) -> None:
    for (before, sender, step), after in LAW.items():
        if before is state and step.answers is None:
            answers = {s.message for st, who, s in LAW if (st, who, s.answers) == (after, sender.other, step.message)}
            assert answers >= ({Reset} if step.message is Reset else {Ok, Error})


def test_nothing_is_said_on_a_closed_link() -> None:
    assert not any(state is State.CLOSED for state, _, _ in LAW)
    assert not any(state is V1State.CLOSED for state, _, _ in V1_LAW)


def test_hello_comes_first() -> None:
    asked = {step.message for state, _, step in LAW if state is State.GREETING and step.answers is None}
    assert asked == {Hello, Update}


def test_every_state_can_be_reached_and_left() -> None:
    for law, closed in ((LAW, State.CLOSED), (V1_LAW, V1State.CLOSED)):
        states = set(type(closed)) - {closed}
        assert {state for state, _, _ in law} == states
        assert set(law.values()) >= states - {V1State.GREETING}


def test_v1_has_no_other_messages() -> None:
    assert {step.message for _, _, step in V1_LAW} == {Ok, Job, Update, Stop, Error}


def test_requests_are_all_that_is_asked() -> None:
    assert {step.message for _, _, step in LAW if step.answers is None} == set(get_args(Request))


# Written out once more, by hand: what may cross a HELLO or a RESET, because it was said before that was heard.
CROSSINGS = {
    State.WELCOME: {(Role.FOREMAN, Job), (Role.FOREMAN, Cancel), (Role.FOREMAN, Stop), (Role.FOREMAN, Reset)},
    State.RESETTING: {
        *((Role.FOREMAN, message) for message in (Job, Cancel, Stop, Reset)),
        *((Role.WORKER, message) for message in (Hello, Update, Reset)),
    },
}


@pytest.mark.parametrize("state", CROSSINGS)
def test_what_crosses_is_allowed(state: State) -> None:
    asked = {(who, step.message) for before, who, step in LAW if before is state and step.answers is None}
    assert asked == CROSSINGS[state]
