"""Values on their way to a caller: in pieces, and never more than the caller has room for."""

import msgspec
import pytest
from tests.crews import ClientSeat, Crew, WorkerSeat

from gandy.doors.flow import CHUNK, Flow
from gandy.limits import MAX_PIECE_BYTES
from gandy.wire import calls
from gandy.wire.calls import FRAME_COST, WHOLE, WINDOW_BYTES

Ends = tuple[ClientSeat, WorkerSeat, Flow]


@pytest.fixture
def ends() -> Ends:
    """A caller, its worker, and the flow between them."""
    crew = Crew()
    client, worker = crew.client(), crew.worker()
    client.call(7)
    worker.take()
    return client, worker, Flow(crew.board, worker.peer, worker.numbers[7])


def grant(ends: Ends, count: int) -> None:
    client, worker, flow = ends
    client.say(calls.CREDIT, 0, 7, count)
    flow.grant(sum(frame.padding for frame in worker.take_others()))


def test_a_small_value_goes_with_the_end(ends: Ends) -> None:
    client, _, flow = ends
    assert not flow.is_done
    flow.put_value(b"small")
    assert client.hear() == []
    assert flow.is_done
    assert (flow.last, flow.last_flags) == (msgspec.msgpack.encode(b"small"), WHOLE)


def test_a_large_value_goes_as_there_is_credit(ends: Ends) -> None:
    client, _, flow = ends
    flow.put_value(b"x" * 1_000_000)
    received = b""
    while not flow.is_done:
        frames = client.hear()
        assert frames
        assert {frame.subtype for frame in frames} == {0}
        assert all(len(frame.payload) == MAX_PIECE_BYTES for frame in frames)
        received += b"".join(frame.payload for frame in frames)
        grant(ends, len(frames) * (MAX_PIECE_BYTES + FRAME_COST))
    received += b"".join(frame.payload for frame in client.hear())
    assert msgspec.msgpack.decode(received + flow.last) == b"x" * 1_000_000


def test_no_more_is_sent_than_the_caller_has_room_for(ends: Ends) -> None:
    client, _, flow = ends
    flow.put_chunks(b"x" * 1_000_000)
    sent = sum(len(frame.payload) + FRAME_COST for frame in client.hear())
    assert WINDOW_BYTES <= sent < WINDOW_BYTES + CHUNK + 100
    assert not flow.is_idle
    grant(ends, 1)
    assert len(client.hear()) <= 1


def test_a_stream_is_a_value_for_each_chunk(ends: Ends) -> None:
    client, _, flow = ends
    flow.put_chunks(b"x" * (CHUNK + 1))
    flow.put_chunks(b"")
    assert flow.is_idle
    assert not flow.is_done
    flow.close()
    assert flow.is_done
    frames = client.hear()
    assert {frame.subtype for frame in frames} == {WHOLE}
    assert [len(msgspec.msgpack.decode(frame.payload)) for frame in frames] == [CHUNK, 1]
    assert (flow.last, flow.last_flags) == (b"", 0)


def test_a_stream_is_over_when_all_of_it_is_read(ends: Ends) -> None:
    client, _, flow = ends
    flow.put_chunks(b"x" * 1_000_000)
    flow.close()
    rounds = 0
    while not flow.is_done:
        client.hear()
        grant(ends, WINDOW_BYTES)
        rounds += 1
    assert rounds > 1
