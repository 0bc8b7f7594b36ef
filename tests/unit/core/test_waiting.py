"""Calls that wait: who is next, and how much may wait."""

from gandy.core.calls import Call, OfferedCommand, Peer
from gandy.core.waiting import WaitingCalls
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.wire.calls import BODY


def a_worker(*commands: OfferedCommand, slots: int = 1) -> Peer:
    peer = Peer(1)
    peer.worker = KnownWorker(WorkerInfo("w", "w", slots), connected=True)
    peer.slots = peer.worker.slots
    for command in commands:
        command.offers[peer] = peer.offers[command.name] = 1
    return peer


def a_call(command: OfferedCommand) -> Call:
    return Call(None, 0, command)


def test_who_came_first_is_next_whatever_it_asks_for() -> None:
    one, other = OfferedCommand(b"one", 0.0), OfferedCommand(b"other", 0.0)
    peer, waiting = a_worker(one, other), WaitingCalls(10, 1_000)
    first, second, third = a_call(other), a_call(one), a_call(one)
    waiting.add(first, b"1")
    waiting.add(second, b"2", peer)
    waiting.add(third, b"3")
    for call in (first, second, third):
        assert waiting.find(peer) is call
        waiting.remove(call)
    assert waiting.find(peer) is None
    assert (waiting.count, waiting.bytes, waiting.commands) == (0, 0, {})


def test_no_call_is_next_where_no_slot_is_free() -> None:
    command = OfferedCommand(b"one", 0.0)
    peer, waiting = a_worker(command), WaitingCalls(10, 1_000)
    waiting.add(a_call(command), b"")
    peer.slots.by_calls = 1
    assert waiting.find(peer) is None
    peer.slots.shared, command.offers[peer] = 2, 2  # one is free, and a call needs two
    assert waiting.find(peer) is None


def test_calls_and_their_bytes_are_limited() -> None:
    command, waiting = OfferedCommand(b"one", 0.0), WaitingCalls(2, 10)
    call = a_call(command)
    assert waiting.has_room(10)
    assert not waiting.has_room(11)
    waiting.add(call, bytes(4))
    assert waiting.extend(call, BODY, 0, bytes(6))
    assert not waiting.extend(call, BODY, 0, b"1")
    assert (waiting.has_room(0), waiting.has_room(1)) == (True, False)
    waiting.add(a_call(command), b"")
    assert not waiting.has_room(0)
    waiting.remove(call)
    assert waiting.bytes == 0
