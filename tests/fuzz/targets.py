"""What is fuzzed: a function for each decoder and each side of a conversation, fed with bytes from anywhere.

A target swallows what its subject may raise, `RemoteProtocolError` (`LocalProtocolError` where it encodes), and checks
what its subject promises. Whatever comes out of a target is a finding.
"""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

import click
from tests.fuzz import boards, bus, doors, talks

from gandy.cli import frames as plain
from gandy.cli.frames import Generation
from gandy.doors.v1 import wire as v1
from gandy.errors import ConfigError, ErrorCode, LocalProtocolError, RemoteProtocolError
from gandy.terminal.text import parse_json
from gandy.wire import joining, v2
from gandy.wire.messages import Message
from gandy.wire.stream import MAGIC, Decoder

Target = Callable[[bytes], None]


class Outcome(NamedTuple):
    """All that a stream turned into. `rest` is where it stands and what is left, unless it ended in an error."""

    messages: list[Any]
    error: tuple[str, ErrorCode, int | None] | None
    rest: tuple[int, int] | None


def decode_all(decoder: Decoder[Any], pieces: Sequence[bytes]) -> Outcome:
    messages: list[Any] = []
    try:
        for piece in pieces:
            decoder.receive_data(piece)
            messages.extend(iter(decoder.next_message, None))
    except RemoteProtocolError as error:
        return Outcome(messages, (str(error), error.code, error.offset), None)
    return Outcome(messages, None, (decoder.offset, decoder.unread))


def check_pieces(make: Callable[[], Decoder[Any]], data: bytes) -> Outcome:
    """However the stream is cut, it means the same."""
    whole = decode_all(make(), [data])
    assert decode_all(make(), talks.cut(data)) == whole
    return whole


# Streams


def fuzz_v1(data: bytes) -> None:
    for message in check_pieces(v1.V1Decoder, data).messages:
        assert decode_all(v1.V1Decoder(), [v1.encode(message)]).messages == [message]


def fuzz_v2(data: bytes) -> None:
    _check_v2(v2.V2Decoder, data)


def fuzz_v2_extensions(data: bytes) -> None:
    _check_v2(_make_open_decoder, data)


def _check_v2(make: Callable[[], v2.V2Decoder], data: bytes) -> None:
    numbered: tuple[int, Message]
    for numbered in check_pieces(make, data).messages:
        assert decode_all(make(), [v2.encode(*numbered)]).messages == [numbered]


def _make_open_decoder() -> v2.V2Decoder:
    decoder = v2.V2Decoder()
    decoder.allow(v2.KNOWN_EXTENSIONS)
    return decoder


# Payloads, each in a frame of its type


def fuzz_v1_payload(kind: v1.V1Type, data: bytes) -> None:
    frame = v1.HEADER.pack(MAGIC, kind, 0, len(data)) + data
    fuzz_v1(frame)
    fuzz_plain_v1(frame)


def fuzz_v2_payload(kind: v2.Type, data: bytes) -> None:
    frame = v2.HEADER.pack(MAGIC, kind, 0, 0, 0, len(data)) + data
    fuzz_v2(frame)
    fuzz_plain_v2(frame)


# Plain frames


def fuzz_plain_v1(data: bytes) -> None:
    _check_plain(1, v1.V1Decoder, data)


def fuzz_plain_v2(data: bytes) -> None:
    _check_plain(2, _make_open_decoder, data)


def _check_plain(generation: Generation, make_typed: Callable[[], Decoder[Any]], data: bytes) -> None:
    shown = check_pieces(partial(plain.make_decoder, generation), data)
    typed = decode_all(make_typed(), [data])
    assert (len(shown.messages), shown.error) == (len(typed.messages), typed.error)
    for frame in shown.messages:
        # The length belongs to the bytes that came, which need not be the shortest for what they say.
        without_length = frame if frame["payload"] is None else {**frame, "arg0": None}
        _check_canonical(generation, plain.encode(generation, without_length), frame["payload"])


def _check_canonical(generation: Generation, data: bytes, payload: object) -> None:
    (frame,) = decode_all(plain.make_decoder(generation), [data]).messages
    assert frame["payload"] == payload
    assert plain.encode(generation, frame) == data


def fuzz_plain_encode(data: bytes) -> None:
    """JSON text for `gandy wire encode`. The first byte tells the generation."""
    generation: Generation = 1 if data[:1] == b"1" else 2
    try:
        for _, value in parse_json(data[1:].decode("utf-8", "surrogateescape")):
            encoded = plain.encode(generation, value)
            (frame,) = decode_all(plain.make_decoder(generation), [encoded]).messages
            assert plain.encode(generation, frame) == encoded
    except (LocalProtocolError, click.UsageError):
        pass


# Joining


def fuzz_join(data: bytes) -> None:
    """What strangers send: however it is cut, it means the same, and a question that is read can be written."""
    whole = _read_join([data])
    assert _read_join(talks.cut(data)) == whole or whole is None  # what comes behind a question is refused with it
    for decode in (joining.decode_join, joining.decode_answer):
        for payload in {data[4:], whole or b""}:
            try:
                message = decode(payload)
            except RemoteProtocolError:
                continue
            again = joining.JoinReader().receive(joining.encode_join(message))
            assert again is not None
            assert decode(again) == message


def _read_join(pieces: Sequence[bytes]) -> bytes | None:
    """The question, if it is complete; None where it is refused, too."""
    reader = joining.JoinReader()
    try:
        for piece in pieces:
            if (message := reader.receive(piece)) is not None:
                return message
    except RemoteProtocolError:
        pass
    return None


def fuzz_token(data: bytes) -> None:
    text = data.decode("utf-8", "surrogateescape")
    try:
        token = joining.parse_token(text)
    except ConfigError as error:
        assert len(text) < 20 or text not in str(error)  # noqa: PT017
        return
    assert joining.parse_token(joining.format_token(token)) == token


PAYLOADS: Final[Mapping[str, Target]] = {
    "v1_job": partial(fuzz_v1_payload, v1.V1Type.JOB),
    "v1_update": partial(fuzz_v1_payload, v1.V1Type.UPDATE),
    "v2_hello": partial(fuzz_v2_payload, v2.Type.HELLO),
    "v2_job": partial(fuzz_v2_payload, v2.Type.JOB),
    "v2_update": partial(fuzz_v2_payload, v2.Type.UPDATE),
    "v2_cancel": partial(fuzz_v2_payload, v2.Type.CANCEL),
    "results": talks.fuzz_results,
    "recall": talks.fuzz_recall,
    "announcement": boards.fuzz_announcement,
}
TARGETS: Final[Mapping[str, Target]] = {
    "v1": fuzz_v1,
    "v2": fuzz_v2,
    "v2_extensions": fuzz_v2_extensions,
    **PAYLOADS,
    "plain_v1": fuzz_plain_v1,
    "plain_v2": fuzz_plain_v2,
    "plain_encode": fuzz_plain_encode,
    "worker_bytes": talks.fuzz_worker_bytes,
    "foreman_bytes": talks.fuzz_foreman_bytes,
    "v1_worker_bytes": talks.fuzz_v1_worker_bytes,
    "v1_foreman_bytes": talks.fuzz_v1_foreman_bytes,
    "worker_talk": talks.fuzz_worker_talk,
    "foreman_talk": talks.fuzz_foreman_talk,
    "v1_worker_talk": talks.fuzz_v1_worker_talk,
    "v1_foreman_talk": talks.fuzz_v1_foreman_talk,
    "calls": boards.fuzz_calls,
    "calls_bytes": boards.fuzz_calls_bytes,
    "calls_talk": boards.fuzz_calls_talk,
    "roundrobin": doors.fuzz_roundrobin,
    "stream": doors.fuzz_stream,
    "pingpong": doors.fuzz_pingpong,
    "roundrobin_door": doors.fuzz_roundrobin_door,
    "pingpong_door": doors.fuzz_pingpong_door,
    "join": fuzz_join,
    "token": fuzz_token,
    **bus.TARGETS,
}
