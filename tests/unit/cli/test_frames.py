"""Plain frames: what each type looks like, and what is refused."""

import json
from typing import Any

import msgspec
import pytest

from gandy.cli.frames import Generation, Guess, encode, make_decoder
from gandy.doors.v1 import wire as v1
from gandy.errors import ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.wire import payloads, v2
from gandy.wire.messages import (
    Cancel,
    Error,
    Extended,
    Extension,
    Hello,
    Job,
    JobDescription,
    Message,
    NewJob,
    Ok,
    Reset,
    Status,
    Stop,
    Task,
    TaskPair,
    TaskResult,
    Update,
)

DESCRIPTION = JobDescription(JobId(3), "größe", 13, "/home/foo", "/logs", "/bin/echo", Status.RUNNING)
TASK = Task(TaskNumber(6), DESCRIPTION)
RESULT = TaskResult(JobId(3), TaskNumber(6), True, "done")
PAIR = TaskPair(JobId(3), TaskNumber(-1))

PLAIN_TASK = {
    "Task": 6,
    "JobDescription": {
        "JobId": 3,
        "Name": "größe",
        "NumTasks": 13,
        "WorkingDir": "/home/foo",
        "LoggingDir": "/logs",
        "Command": "/bin/echo",
        "Status": 1,
    },
}
PLAIN_RESULT = {"JobId": 3, "Task": 6, "Success": True, "Status": "done", "NewJob": None}
PLAIN_PAIR = {"JobId": 3, "Task": -1}

V2_FRAMES: list[tuple[Message, str, int, Any]] = [
    (Ok(17, 5), "OK", 0, None),
    (Hello(4, (TASK,)), "HELLO", 0, {"NumProcs": 4, "Running": [PLAIN_TASK]}),
    (Job((TASK,)), "JOB", 0, [PLAIN_TASK]),
    (Update(RESULT), "UPDATE", 0, PLAIN_RESULT),
    (Update(None), "UPDATE", 0, None),
    (Cancel((PAIR,)), "CANCEL", 0, [PLAIN_PAIR]),
    (Stop(2), "STOP", 0, None),
    (Error(2, 7), "ERROR", 2, None),
    (Reset(9), "RESET", 0, None),
    (Extended(0x20, b"\x01\xff"), "0x20", 0, {"hex": "01ff"}),
    (Extended(0x5F, b""), "0x5f", 0, None),
]
V1_FRAMES: list[tuple[v1.V1Message, str, Any]] = [
    (Ok(70000), "OK", None),
    (Job((TASK,)), "JOB", PLAIN_TASK),
    (Update(RESULT), "UPDATE", PLAIN_RESULT),
    (Stop(2), "STOP", None),
    (Error(2), "ERROR", None),
]


def decode(generation: Generation, data: bytes) -> dict[str, Any]:
    decoder = make_decoder(generation)
    decoder.receive_data(data)
    frame = decoder.next_message()
    assert frame is not None
    assert decoder.unread == decoder.missing == 0
    return frame


def frame_v2(kind: int, payload: bytes) -> bytes:
    return v2.HEADER.pack(0xC047, kind, 0, 0, 0, len(payload)) + payload


@pytest.mark.parametrize(("message", "name", "subtype", "payload"), V2_FRAMES, ids=lambda value: str(value)[:12])
def test_v2_frame_is_its_header_and_its_payload(message: Message, name: str, subtype: int, payload: Any) -> None:
    data = v2.encode(12, message)
    arg0 = int.from_bytes(data[12:16], "little")
    expected = {"type": name, "subtype": subtype, "seq": 12, "padding": 0, "arg0": arg0, "payload": payload}
    assert decode(2, data) == expected
    assert list(decode(2, data)) == list(expected)
    assert encode(2, expected) == data


@pytest.mark.parametrize(("message", "name", "payload"), V1_FRAMES, ids=lambda value: str(value)[:12])
def test_v1_frame_is_its_header_and_its_payload(message: v1.V1Message, name: str, payload: Any) -> None:
    data = v1.encode(message)
    arg0 = int.from_bytes(data[8:12], "little")
    expected = {"type": name, "padding": 0, "arg0": arg0, "payload": payload}
    assert decode(1, data) == expected
    assert list(decode(1, data)) == list(expected)
    assert encode(1, expected) == data


@pytest.mark.parametrize("message", [message for message, *_ in V2_FRAMES], ids=lambda value: str(value)[:12])
def test_frames_pass_through_json(message: Message) -> None:
    data = v2.encode(12, message)
    assert encode(2, json.loads(msgspec.json.encode(decode(2, data)))) == data


@pytest.mark.parametrize("generation", [1, 2])
def test_padding_of_any_value_is_kept(generation: Generation) -> None:
    data = encode(generation, {"type": "STOP", "padding": 0xFFFF_FFFF, "arg0": 1})
    assert decode(generation, data)["padding"] == 0xFFFF_FFFF


def test_padding_of_an_offer_is_kept() -> None:
    data = v2.encode(0, Hello(4, (), Extension.ATOMIC | Extension.CALLS))
    assert encode(2, decode(2, data)) == data


@pytest.mark.parametrize("payload", ["", "82a84e756d50726f637304a752756e6e696e67c0"], ids=["absent", "nil list"])
def test_hello_of_an_idle_go_program_comes_back_as_it_was(payload: str) -> None:
    data = frame_v2(v2.Type.HELLO, bytes.fromhex(payload))
    assert encode(2, decode(2, data)) == data


def test_subtype_and_seq_outside_their_use_are_kept() -> None:
    data = encode(2, {"type": "OK", "subtype": 255, "seq": 0xFFFF_FFFF, "arg0": 0})
    assert decode(2, data) == {
        "type": "OK",
        "subtype": 255,
        "seq": 0xFFFF_FFFF,
        "padding": 0,
        "arg0": 0,
        "payload": None,
    }


def test_flat_task_comes_out_nested() -> None:
    flat = {"Task": 6, **PLAIN_TASK["JobDescription"]}  # type: ignore[dict-item]
    assert decode(2, frame_v2(v2.Type.JOB, payloads.encode([flat])))["payload"] == [PLAIN_TASK]


def test_bad_payload_is_an_error_at_its_frame() -> None:
    decoder = make_decoder(2)
    decoder.receive_data(v2.encode(0, Ok(1)) + frame_v2(v2.Type.JOB, b"\x91\xc0"))
    assert decoder.next_message() is not None
    with pytest.raises(RemoteProtocolError, match="JOB: Expected `object`") as caught:
        decoder.next_message()
    assert (caught.value.code, caught.value.offset) == (ErrorCode.BAD_PAYLOAD, 16)


def test_type_that_no_extension_owns_is_an_error() -> None:
    decoder = make_decoder(2)
    decoder.receive_data(frame_v2(0x7C, b""))
    with pytest.raises(RemoteProtocolError, match="unknown message type 0x7c"):
        decoder.next_message()


@pytest.mark.parametrize(
    ("generation", "length", "missing"), [(1, 0, 0), (1, 5, 7), (1, 12, 30), (2, 0, 0), (2, 5, 11), (2, 20, 26)]
)
def test_missing_counts_what_the_last_frame_lacks(generation: Generation, length: int, missing: int) -> None:
    decoder = make_decoder(generation)
    header = v1.HEADER.pack(0xC047, 2, 0, 30) if generation == 1 else v2.HEADER.pack(0xC047, 3, 0, 0, 0, 30)
    decoder.receive_data(encode(generation, {"type": "OK", "arg0": 1}) + (header + bytes(30))[:length])
    assert decoder.next_message() is not None
    assert decoder.next_message() is None
    assert (decoder.unread, decoder.missing) == (length, missing)


def test_guess_is_right_while_all_bytes_are_frames() -> None:
    guess = Guess(1)
    guess.receive_data(v1.encode(Ok(0)) + v1.encode(Ok(4))[:5])
    assert not guess.is_right
    guess.receive_data(v1.encode(Ok(4))[5:])
    assert guess.is_right


def test_guess_stays_wrong_after_bytes_that_are_no_frame() -> None:
    guess = Guess(2)
    guess.receive_data(bytes(16))
    assert not guess.is_right
    guess.receive_data(v2.encode(0, Ok(0)))
    assert not guess.is_right


def test_ok_takes_its_two_numbers_instead_of_arg0() -> None:
    assert encode(2, {"type": "OK", "nproc": 17, "nrun": 5}) == v2.encode(0, Ok(17, 5))
    assert encode(2, {"type": "OK", "nproc": 17}) == v2.encode(0, Ok(17))
    assert encode(2, {"type": "OK", "nrun": 5}) == v2.encode(0, Ok(0, 5))
    assert encode(2, {"type": "OK", "nproc": 0, "nrun": 5, "arg0": 5}) == v2.encode(0, Ok(0, 5))
    assert encode(1, {"type": "OK", "nproc": 70000}) == v1.encode(Ok(70000))


def test_result_keeps_its_request_for_more_work() -> None:
    result = TaskResult(JobId(1), TaskNumber(2), False, "no", NewJob(3))
    assert decode(2, v2.encode(0, Update(result)))["payload"]["NewJob"] == {"NumProc": 3}


@pytest.mark.parametrize(
    ("generation", "frame", "text"),
    [
        (2, [], "not a frame of generation 2: Expected `object`, got `array`"),
        (2, {"seq": 1}, "missing required field `type`"),
        (2, {"type": 3}, "Expected `str`, got `int` - at `$.type`"),
        (2, {"type": "OK", "arg": 0}, "unknown field `arg`"),
        (2, {"type": "OK", "\ud800": 0}, "not a frame of generation 2: .*surrogates"),
        (1, {"type": "OK", "arg0": 0, "seq": 1}, "not a frame of generation 1: Object contains unknown field `seq`"),
        (2, {"type": "OK", "arg0": -1}, "`$.arg0`"),
        (2, {"type": "OK", "arg0": 1 << 32}, "`$.arg0`"),
        (2, {"type": "OK", "nproc": 0x10000}, "`$.nproc`"),
        (2, {"type": "LIST"}, "generation 2 has no type 'LIST'; known are OK, HELLO"),
        (2, {"type": "0x7c"}, "has no type '0x7c'"),
        (1, {"type": "HELLO"}, "generation 1 has no type 'HELLO'; known are OK, JOB, UPDATE, STOP, ERROR"),
        (2, {"type": "STOP"}, "STOP needs arg0"),
        (2, {"type": "STOP", "arg0": 1, "payload": {}}, "STOP carries no payload"),
        (2, {"type": "STOP", "nproc": 1}, "nproc and nrun are for OK, not for STOP"),
        (2, {"type": "CANCEL", "payload": [], "nrun": 1}, "nproc and nrun are for OK, not for CANCEL"),
        (2, {"type": "OK", "arg0": 7, "nproc": 1}, "arg0 of OK is 7, but 65536 follows"),
        (2, {"type": "CANCEL", "arg0": 7, "payload": []}, "arg0 of CANCEL is 7, but 1 follows"),
        (2, {"type": "JOB"}, "JOB payload: Expected `array`, got `null`"),
        (1, {"type": "UPDATE"}, "UPDATE payload: Expected `object`, got `null`"),
        (2, {"type": "JOB", "payload": [{"Task": 1}]}, "missing required field `JobDescription` - at `$[0]`"),
        (2, {"type": "CANCEL", "payload": [{"JobId": -1, "Task": 1}]}, "CANCEL payload: Expected `int` >= 0"),
        (2, {"type": "CANCEL", "payload": [{"JobId": 1 << 64, "Task": 1}]}, "CANCEL payload: Expected `int` <= "),
        (2, {"type": "UPDATE", "payload": {**PLAIN_RESULT, "Status": "\ud800"}}, "UPDATE payload: .*surrogates"),
        (2, {"type": "HELLO", "payload": {"NumProcs": 65535, "Running": []}}, "HELLO payload: Expected `int` <= 65534"),
        (2, {"type": "0x20", "payload": "00"}, "0x20 payload: Expected `object`, got `str`"),
        (2, {"type": "0x20", "payload": {"hex": "0g"}}, "0x20 payload: non-hexadecimal"),
    ],
)
def test_refuses_what_the_type_does_not_allow(generation: Generation, frame: Any, text: str) -> None:
    with pytest.raises(LocalProtocolError, match=text.replace("[", r"\[").replace("$", r"\$")):
        encode(generation, frame)
