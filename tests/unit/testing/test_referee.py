"""The referee sees what it should: each law is broken once, by hand."""

import pytest
from tests.builders import a_result, a_task

from gandy.talk.law import Role
from gandy.testing import BrokenLaw, Referee
from gandy.wire import v2
from gandy.wire.messages import STOP_IMMEDIATELY, Error, Hello, Job, Message, Ok, Reset, Stop, Update

JOB = Job((a_task(),))
UPDATE = Update(a_result())
WORKER, FOREMAN = Role.WORKER, Role.FOREMAN


def say(referee: Referee, sender: Role, seq: int, message: Message) -> None:
    """Sent, and arrived."""
    referee.on_sent(sender, v2.encode(seq, message))
    referee.on_delivered(sender, v2.encode(seq, message))


def an_open_link() -> Referee:
    referee = Referee()
    say(referee, WORKER, 0, Hello(2))
    say(referee, FOREMAN, 0, Ok(2))
    return referee


def test_a_whole_conversation_is_fine() -> None:
    referee = an_open_link()
    say(referee, FOREMAN, 3, JOB)
    say(referee, WORKER, 3, Ok(1, 1))
    say(referee, WORKER, 4, UPDATE)
    say(referee, FOREMAN, 4, Ok(2))
    say(referee, FOREMAN, 7, Reset())
    say(referee, WORKER, 7, Reset())
    say(referee, WORKER, 0, Hello(2))
    assert referee.resets == 2


@pytest.mark.parametrize(
    ("sender", "seq", "message", "complaint"),
    [
        (FOREMAN, 4, JOB, "parity"),
        (WORKER, 0, UPDATE, "after 0"),
        (FOREMAN, 3, Ok(1), "not open"),
        (WORKER, 2, Error(2), "not open"),
    ],
)
def test_a_wrong_message_is_seen(sender: Role, seq: int, message: Message, complaint: str) -> None:
    with pytest.raises(BrokenLaw, match=complaint):
        say(an_open_link(), sender, seq, message)


def test_the_first_word_is_hello() -> None:
    with pytest.raises(BrokenLaw, match="first request"):
        say(Referee(), WORKER, 0, UPDATE)
    with pytest.raises(BrokenLaw, match="before it heard HELLO"):
        say(Referee(), FOREMAN, 1, JOB)


def test_two_requests_at_once_are_seen() -> None:
    referee = an_open_link()
    say(referee, FOREMAN, 3, JOB)
    with pytest.raises(BrokenLaw, match="outstanding"):
        say(referee, FOREMAN, 5, JOB)


def test_asking_before_answering_is_seen() -> None:
    referee = an_open_link()
    say(referee, FOREMAN, 3, JOB)
    with pytest.raises(BrokenLaw, match="before it answered"):
        say(referee, WORKER, 4, UPDATE)


def test_answering_out_of_turn_is_seen() -> None:
    referee = an_open_link()
    referee.on_sent(FOREMAN, v2.encode(3, JOB))
    say(referee, WORKER, 4, UPDATE)
    with pytest.raises(BrokenLaw, match="while it waits"):
        referee.on_sent(FOREMAN, v2.encode(4, Ok(1)))


def test_an_immediate_stop_may_be_answered_out_of_turn() -> None:
    referee = an_open_link()
    say(referee, FOREMAN, 3, Stop(STOP_IMMEDIATELY))
    say(referee, WORKER, 3, Ok(0))


def test_what_a_reset_drops_is_owed_until_it_is_sent_again() -> None:
    referee = an_open_link()
    referee.on_sent(FOREMAN, v2.encode(3, JOB))
    say(referee, WORKER, 2, Reset())
    say(referee, FOREMAN, 2, Reset())
    assert referee.owed == [JOB]
    say(referee, WORKER, 0, Hello(2))
    say(referee, FOREMAN, 0, Ok(2))
    say(referee, FOREMAN, 3, JOB)
    assert referee.owed == []


def test_asking_after_a_reset_is_seen() -> None:
    referee = an_open_link()
    referee.on_sent(WORKER, v2.encode(2, Reset()))
    referee._sides[WORKER].outstanding = None
    with pytest.raises(BrokenLaw, match="after its RESET"):
        referee.on_sent(WORKER, v2.encode(4, UPDATE))
