"""Whatever can be said comes back as it went, in whatever pieces it travels."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st
from tests.strategies import cut_into_pieces, extended, plain_tasks, u32, v1_messages, v2_numbered

from gandy.doors.v1 import wire as v1
from gandy.wire import payloads, v2
from gandy.wire.messages import Extended, Message, Task


@given(st.lists(v2_numbered, max_size=6), st.lists(st.integers(0), max_size=8))
def test_v2(numbered: list[tuple[int, Message]], cuts: list[int]) -> None:
    stream = b"".join(v2.encode(seq, message) for seq, message in numbered)
    decoder, decoded = v2.V2Decoder(), []
    for piece in cut_into_pieces(stream, cuts):
        decoder.receive_data(piece)
        while (found := decoder.next_message()) is not None:
            decoded.append(found)
    assert decoded == numbered
    assert (decoder.offset, decoder.unread) == (len(stream), 0)


@given(st.lists(v1_messages, max_size=6), st.lists(st.integers(0), max_size=8))
def test_v1(messages: list[v1.V1Message], cuts: list[int]) -> None:
    decoder, decoded = v1.V1Decoder(), []
    for piece in cut_into_pieces(b"".join(map(v1.encode, messages)), cuts):
        decoder.receive_data(piece)
        while (found := decoder.next_message()) is not None:
            decoded.append(found)
    assert decoded == messages


@given(u32, extended)
def test_extended_messages(seq: int, message: Extended) -> None:
    decoder = v2.V2Decoder()
    decoder.allow(v2.KNOWN_EXTENSIONS)
    decoder.receive_data(v2.encode(seq, message))
    assert decoder.next_message() == (seq, message)


@given(st.lists(plain_tasks, max_size=4).map(tuple))
def test_flat_tasks_are_the_nested_ones(tasks: tuple[Task, ...]) -> None:
    nested = msgspec.to_builtins(tasks)
    flat = [{"Task": task["Task"], **task["JobDescription"]} for task in nested]
    assert payloads.decode_tasks(msgspec.msgpack.encode(flat)) == tasks
