"""Whether a round-robin server answers, and what to do if it does not."""

import pytest

from gandy.doors.roundrobin.heartbeat import (
    GREETING_TIMEOUT,
    HEARTBEAT_EXPIRY,
    HEARTBEAT_PERIOD,
    PAUSE,
    Beat,
    Heartbeat,
)
from gandy.doors.roundrobin.message_ids import MessageIds


@pytest.fixture
def heartbeat() -> Heartbeat:
    """Connected at 0."""
    heartbeat = Heartbeat(0.0, MessageIds())
    assert heartbeat.on_pong(heartbeat.greet(0.0).id)
    return heartbeat


def test_only_the_answer_to_the_greeting_connects() -> None:
    heartbeat = Heartbeat(0.0, MessageIds())
    assert not heartbeat.on_pong(heartbeat.make_ping().id)
    greeting = heartbeat.greet(0.0)
    assert heartbeat.repeat_greeting() == greeting
    assert not heartbeat.on_pong(heartbeat.make_ping().id)
    assert not heartbeat.is_connected
    assert heartbeat.on_pong(greeting.id)
    assert heartbeat.is_connected
    assert not heartbeat.on_pong(greeting.id)


def test_a_greeting_without_an_answer_is_tried_again_after_a_pause() -> None:
    heartbeat = Heartbeat(0.0, MessageIds())
    heartbeat.greet(0.0)
    assert heartbeat.on_time(GREETING_TIMEOUT - 1) is Beat.NOTHING
    assert heartbeat.on_time(GREETING_TIMEOUT) is Beat.UNANSWERED
    assert heartbeat.next_deadline() == GREETING_TIMEOUT + PAUSE
    assert heartbeat.on_time(GREETING_TIMEOUT + PAUSE) is Beat.TRY_AGAIN


def test_a_silent_server_is_asked_and_then_lost(heartbeat: Heartbeat) -> None:
    assert heartbeat.next_deadline() == HEARTBEAT_PERIOD
    beats = [heartbeat.on_time(float(now)) for now in range(1, 11)]
    assert beats == [Beat.NOTHING, Beat.PING] * 4 + [Beat.NOTHING, Beat.LOST]
    assert HEARTBEAT_EXPIRY == 10.0
    assert heartbeat.since == 0.0


def test_any_message_is_a_sign_of_life(heartbeat: Heartbeat) -> None:
    for now in range(2, 100, 2):
        assert heartbeat.on_time(float(now)) is Beat.PING
        heartbeat.on_heard(float(now))


def test_a_process_that_was_stopped_asks_before_it_gives_the_server_up(heartbeat: Heartbeat) -> None:
    assert heartbeat.on_time(1000.0) is Beat.PING
    assert heartbeat.on_time(1001.0) is Beat.NOTHING
