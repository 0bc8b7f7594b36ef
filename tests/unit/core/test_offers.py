"""Who offers a command, and whose turn it is."""

from itertools import count

from gandy.core.calls import Peer
from gandy.core.offers import Offers
from gandy.core.workers import KnownWorker, WorkerInfo

NAME = b"sum"
numbers = count(1)


def a_worker(offers: Offers, slots: int = 1, knows_time: bool = False) -> Peer:
    peer = Peer(next(numbers))
    peer.worker = KnownWorker(WorkerInfo("w", "w", slots), connected=True)
    peer.slots, peer.knows_time = peer.worker.slots, knows_time
    offers.add_worker(peer)
    offers.add(peer, NAME, 1, 0.0)
    offers.line_up(peer)
    return peer


def test_workers_take_turns_as_long_as_they_have_a_slot() -> None:
    offers = Offers()
    first, second = a_worker(offers, slots=2), a_worker(offers)
    command = offers.commands[NAME]
    assert [offers.find_worker(command) for _ in range(3)] == [first, second, first]
    second.slots.by_calls = 1
    assert offers.find_worker(command) is first
    first.slots.by_calls = 2
    assert offers.find_worker(command) is None
    assert first.missing == second.missing == {command}
    second.slots.by_calls = 0
    offers.line_up(second)
    assert offers.find_worker(command) is second
    offers.check()


def test_who_does_not_offer_it_any_more_has_no_turn() -> None:
    offers = Offers()
    first, second = a_worker(offers), a_worker(offers)
    command = offers.commands[NAME]
    offers.withdraw(first, command, 5.0)
    assert [offers.find_worker(command) for _ in range(2)] == [second, second]
    offers.withdraw(second, command, 6.0)
    assert (offers.find_worker(command), command.gone_since) == (None, 6.0)
    offers.check()


def test_a_time_is_for_who_knows_it_and_rather_for_who_is_free() -> None:
    offers = Offers()
    a_worker(offers)
    command = offers.commands[NAME]
    assert offers.find_timely(command) is None
    busy, free = a_worker(offers, knows_time=True), a_worker(offers, knows_time=True)
    busy.slots.by_calls = 1
    assert offers.find_timely(command) is free
    free.slots.by_calls = 1
    assert offers.find_timely(command) is busy
