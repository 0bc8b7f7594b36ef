"""Slots that tasks of jobs leave to calls."""

import pytest

from gandy.core.calls import Call, OfferedCommand, Peer
from gandy.core.held import Held
from gandy.core.model import AttemptKey
from gandy.core.sharing import TURN, Sharing
from gandy.core.waiting import WaitingCalls
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.errors import RemoteProtocolError
from gandy.ids import JobId, TaskNumber

COMMAND = b"sum"


class Shop:
    """One worker that is full of tasks, and a call that waits for it."""

    def __init__(self, slots: int, shares: bool = False) -> None:
        self.waiting = WaitingCalls(10, 1_000)
        self.sharing = Sharing(self.waiting)
        command = OfferedCommand(COMMAND, 0.0)
        self.peer = Peer(1)
        self.peer.worker = KnownWorker(WorkerInfo("w", "w", slots, shares_slots=shares), connected=True)
        self.peer.slots = self.peer.worker.slots
        for number in range(1, slots + 1):
            self.peer.worker.held.take(AttemptKey(JobId(1), TaskNumber(number), 1), Held(1))
        command.offers[self.peer] = self.peer.offers[COMMAND] = 1
        self.call = Call(None, 0, command)
        self.waiting.add(self.call, b"")

    def ask(self, now: float) -> list[int]:
        return [peer.slots.request.slots for peer in self.sharing.decide([self.peer], now)]


def test_half_of_the_slots_are_asked_for_while_calls_wait() -> None:
    shop = Shop(slots=4)
    assert shop.ask(0.0) == [2]
    assert shop.ask(5.0) == []
    shop.waiting.remove(shop.call)
    assert shop.ask(6.0) == [0]
    assert not shop.sharing.asked


def test_calls_and_tasks_take_turns_at_an_only_slot() -> None:
    shop = Shop(slots=1)
    assert shop.ask(0.0) == [1]
    assert shop.ask(TURN * 9) == []  # the task is still there
    assert shop.sharing.on_yielded(shop.peer, shop.peer.slots.request.count, 1, 10.0)
    assert shop.ask(10.0 + TURN / 2) == []
    assert shop.ask(10.0 + TURN) == [0]
    assert shop.ask(10.0 + TURN * 1.5) == []
    assert shop.ask(10.0 + TURN * 2) == [1]


def test_a_worker_that_uses_fewer_slots_by_now_may_leave_as_many_as_it_was_asked_for() -> None:
    shop = Shop(slots=4)
    assert shop.ask(0.0) == [2]
    shop.peer.slots.resize(1)
    assert shop.sharing.on_yielded(shop.peer, shop.peer.slots.request.count, 2, 1.0)
    assert shop.peer.slots.yielded == 1


def test_an_answer_to_an_earlier_question_is_none() -> None:
    shop = Shop(slots=2)
    shop.ask(0.0)
    assert not shop.sharing.on_yielded(shop.peer, shop.peer.slots.request.count - 1, 1, 1.0)
    assert shop.peer.slots.yielded == 0
    with pytest.raises(RemoteProtocolError, match="than there are"):
        shop.sharing.on_yielded(shop.peer, shop.peer.slots.request.count, 3, 1.0)


def test_a_worker_whose_slots_tasks_of_other_shards_have_is_asked_too() -> None:
    shop = Shop(slots=4, shares=True)
    worker = shop.peer.worker
    assert worker is not None
    for attempt in list(worker.held):
        worker.held.release(attempt)
    assert shop.ask(0.0) == []  # it should have room for the call
    shop.peer.slots.resize(4)
    shop.peer.slots.resize(0)
    assert shop.ask(1.0) == [2]
    shop.peer.slots.resize(1)  # it has left one, and the call can go out
    shop.waiting.remove(shop.call)
    assert shop.ask(2.0) == [0]
