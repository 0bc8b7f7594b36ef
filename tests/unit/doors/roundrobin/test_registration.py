"""A worker's registration at a round-robin server."""

from collections import deque
from math import inf

import pytest

from gandy.doors.roundrobin.heartbeat import Heartbeat
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.registration import REGISTER_DELAY, REGISTER_TIMEOUT, Registration
from gandy.doors.roundrobin.server_outbox import ServerOutbox
from gandy.doors.roundrobin.uplink_events import Deregistered, Dispatched, Event, RegisterConfirmed
from gandy.doors.roundrobin.wire import DEREGISTER, INCREMENT, PING, REGISTER, TRACKEXEC, QueueMessage, make_reply


class Harness:
    """A registration of two slots, at a server that is there."""

    def __init__(self) -> None:
        ids = MessageIds()
        heartbeat = Heartbeat(0.0, ids)
        heartbeat.on_pong(heartbeat.greet(0.0).id)
        self.events: deque[Event] = deque()
        self._outbox = ServerOutbox(heartbeat)
        self.registration = Registration(ids, self._outbox, self.events)
        self.registration.register(2, 0.0)

    def take_sent(self) -> list[QueueMessage]:
        messages = list(self._outbox.messages)
        self._outbox.messages.clear()
        return messages

    def dispatch(self) -> int:
        """The ticket."""
        self.registration.on_dispatch(QueueMessage(TRACKEXEC, b"1", (PING,)), 0.0)
        event = self.events.pop()
        assert isinstance(event, Dispatched)
        return event.ticket


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_only_free_slots_are_registered(harness: Harness) -> None:
    ticket = harness.dispatch()
    harness.registration.on_server(0.0)
    assert harness.take_sent()[-1].args == (REGISTER, b"1")
    harness.registration.finish(ticket, 0.0)
    harness.registration.on_server(0.0)
    assert harness.take_sent()[-1].args == (REGISTER, b"2")


def test_a_register_is_repeated_with_its_id_until_it_is_confirmed(harness: Harness) -> None:
    registration = harness.registration
    (first,) = harness.take_sent()
    assert registration.register_at == REGISTER_TIMEOUT
    registration.on_time(REGISTER_TIMEOUT)
    assert harness.take_sent() == [first]
    assert registration.on_response(make_reply(first))
    assert list(harness.events) == [RegisterConfirmed()]
    assert [message.command for message in harness.take_sent()] == [PING]
    assert registration.register_at == inf
    assert not registration.on_response(make_reply(first))
    registration.register(2, 9.0)
    (again,) = harness.take_sent()
    assert again.id != first.id


def test_a_slot_that_the_server_does_not_know_is_registered_again(harness: Harness) -> None:
    registration = harness.registration
    old = harness.dispatch()
    registration.on_server(0.0)
    new = harness.dispatch()
    registration.on_response(make_reply(harness.take_sent()[-1]))
    harness.take_sent()
    registration.finish(new, 1.0)
    assert registration.register_at == inf
    registration.finish(old, 2.0)
    assert registration.register_at == 2.0 + REGISTER_DELAY
    assert [message.args for message in harness.take_sent()] == [(INCREMENT,)] * 2


def test_a_deregister_is_over_when_the_ping_behind_it_is_answered(harness: Harness) -> None:
    harness.take_sent()
    harness.registration.deregister()
    goodbye, ping = harness.take_sent()
    assert (goodbye.args, ping.command) == ((DEREGISTER,), PING)
    harness.registration.on_pong(b"another")
    assert not harness.events
    harness.registration.on_pong(ping.id)
    harness.registration.on_pong(ping.id)
    assert list(harness.events) == [Deregistered()]
    assert not harness.registration.free
