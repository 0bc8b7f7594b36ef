import pytest
from tests.builders import a_result, a_task, some_tasks

from gandy.doors.v1 import wire as v1
from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.wire.messages import STOP_IMMEDIATELY, Error, Job, Ok, Stop, Update

EVERY_MESSAGE: list[v1.V1Message] = [
    Ok(17),
    Ok(0xFFFF_FFFF),
    Job((a_task(),)),
    Update(a_result()),
    Stop(STOP_IMMEDIATELY),
    Error(2),
]


@pytest.mark.parametrize("message", EVERY_MESSAGE, ids=str)
def test_every_message_comes_back_as_it_went(message: v1.V1Message) -> None:
    decoder = v1.V1Decoder()
    decoder.receive_data(v1.encode(message))
    assert decoder.next_message() == message
    assert decoder.next_message() is None


@pytest.mark.parametrize("message", [Ok(1, 1), Job(()), Job(some_tasks(2)), Update(None), Error(2, 1), Stop(-1)])
def test_what_v1_cannot_say_is_our_own_mistake(message: v1.V1Message) -> None:
    with pytest.raises(LocalProtocolError):
        v1.encode(message)


def test_an_update_needs_a_result() -> None:
    decoder = v1.V1Decoder()
    decoder.receive_data(v1.HEADER.pack(0xC047, v1.V1Type.UPDATE, 0, 0))
    with pytest.raises(RemoteProtocolError, match="UPDATE") as caught:
        decoder.next_message()
    assert caught.value.code == ErrorCode.BAD_PAYLOAD


def test_v2_type_numbers_mean_nothing_here() -> None:
    decoder = v1.V1Decoder()
    decoder.receive_data(v1.HEADER.pack(0xC047, 9, 0, 0))
    with pytest.raises(RemoteProtocolError, match="unknown message type 0x09"):
        decoder.next_message()
