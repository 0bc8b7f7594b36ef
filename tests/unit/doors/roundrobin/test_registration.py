"""A worker's registration at a round-robin server."""

from math import inf

import pytest

from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.registration import REGISTER_DELAY, REGISTER_TIMEOUT, Registration
from gandy.doors.roundrobin.wire import DEREGISTER, INCREMENT, PING, REGISTER


@pytest.fixture
def registration() -> Registration:
    """With two slots."""
    registration = Registration(MessageIds())
    registration.open(2)
    return registration


def test_only_free_slots_are_registered(registration: Registration) -> None:
    ticket, has_room = registration.take_ticket()
    assert has_room
    assert registration.register(0.0).args == (REGISTER, b"1")
    registration.finish(ticket)
    assert registration.register(0.0).args == (REGISTER, b"2")


def test_a_register_is_repeated_with_its_id_until_it_is_confirmed(registration: Registration) -> None:
    first = registration.register(0.0)
    assert registration.register_at == REGISTER_TIMEOUT
    assert registration.register(REGISTER_TIMEOUT).id == first.id
    assert registration.is_answered_by(first.id)
    registration.confirm()
    assert registration.register_at == inf
    assert registration.register(9.0).id != first.id


def test_a_slot_that_the_server_does_not_know_is_registered_again(registration: Registration) -> None:
    old, _ = registration.take_ticket()
    registration.on_new_server()
    new, _ = registration.take_ticket()
    registration.finish(new)
    assert registration.increment(new, 1.0).args == (INCREMENT,)
    assert registration.register_at == inf
    registration.finish(old)
    assert registration.increment(old, 2.0).args == (INCREMENT,)
    assert registration.register_at == 2.0 + REGISTER_DELAY


def test_a_deregister_is_over_when_the_ping_behind_it_is_answered(registration: Registration) -> None:
    goodbye, ping = registration.close()
    assert (goodbye.args, ping.command) == ((DEREGISTER,), PING)
    assert not registration.is_wanted
    assert registration.is_goodbye(ping.id)
    assert [registration.end_goodbye(), registration.end_goodbye()] == [True, False]
