import pytest
from tests.builders import a_pair, a_result, a_task, decode_all

from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.wire import v2
from gandy.wire.messages import Cancel, Error, Extended, Extension, Hello, Job, Message, Ok, Reset, Stop, Update

EVERY_MESSAGE: list[Message] = [
    Ok(17, 5),
    Ok(1, 0, Extension.ATOMIC),
    Hello(4),
    Hello(0, (a_task(),), Extension.ATOMIC | Extension.CALLS),
    Job((a_task(1), a_task(2))),
    Update(a_result()),
    Update(None),
    Cancel((a_pair(3, -1),)),
    Stop(3),
    Error(2, 2),
    Reset(19),
]


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=str)
def test_every_message_comes_back_as_it_went(message: Message) -> None:
    assert decode_all(v2.encode(9, message)) == [(9, message)]


@pytest.mark.parametrize("message", [Ok(-1), Ok(0x10000), Ok(0, 0x10000), Hello(65_535), Hello(-1), Stop(-1)])
def test_what_does_not_fit_is_our_own_mistake(message: Message) -> None:
    with pytest.raises(LocalProtocolError):
        v2.encode(0, message)


def test_a_number_above_32_bits_is_our_own_mistake() -> None:
    with pytest.raises(LocalProtocolError, match="does not fit"):
        v2.encode(1 << 32, Stop(1))


@pytest.mark.parametrize("padding", [1, 0xFFFF_FFFF, 0x2147_0001])
def test_padding_that_offers_nothing_is_noise(padding: int) -> None:
    frame = v2.HEADER.pack(0xC047, v2.Type.HELLO, 0, 0, padding, 0)
    assert decode_all(frame) == [(0, Hello(0))]


def test_an_echo_of_our_offer_is_not_an_agreement() -> None:
    offer = v2.encode(0, Hello(4, (), Extension.ATOMIC))[8:12]
    frame = v2.HEADER.pack(0xC047, v2.Type.OK, 0, 0, int.from_bytes(offer, "little"), 0)
    assert decode_all(frame) == [(0, Ok(0))]


def test_bits_of_extensions_we_do_not_know_are_dropped() -> None:
    frame = v2.HEADER.pack(0xC047, v2.Type.HELLO, 0, 0, v2.OFFER << 16 | 0xFFFF, 0)
    assert decode_all(frame) == [(0, Hello(0, (), v2.KNOWN_EXTENSIONS))]


def test_extension_types_do_not_overlap() -> None:
    numbers = [number for types in v2.EXTENSION_TYPES.values() for number in types]
    assert len(numbers) == len(set(numbers))
    assert min(numbers) == 0x20


def test_extended_messages_pass_only_where_they_are_allowed() -> None:
    frame = v2.encode(7, Extended(0x21, b"payload"))
    decoder = v2.V2Decoder()
    decoder.allow(Extension.HEARTBEAT)
    decoder.receive_data(frame)
    assert decoder.next_message() == (7, Extended(0x21, b"payload"))
    decoder.allow(Extension.CALLS)
    decoder.receive_data(frame)
    with pytest.raises(RemoteProtocolError) as caught:
        decoder.next_message()
    assert caught.value.code == ErrorCode.UNKNOWN_TYPE
