"""Messages of the round-robin queue: lists of frames that begin and end with addresses. Arguments are not decoded.

    next hops .. | '' | LMQv100 | command | id | arguments .. | '' | senders ..

Each hop removes its own address from the front, and adds the sender's at the end. Encoding a decoded message gives the
same frames.
"""

from collections.abc import Sequence
from typing import Final, NamedTuple

from gandy.doors.limits import MAX_FRAMES
from gandy.doors.roundrobin.limits import MAX_ID_BYTES
from gandy.errors import ErrorCode, RemoteProtocolError

VERSION: Final = b"LMQv100"

PING: Final = b"\x01"
PONG: Final = b"\x02"
EXEC: Final = b"\x03"  # no response is wanted
TRACKEXEC: Final = b"\x04"
TRACKADDRESS: Final = b"\x05"
RESPONSE: Final = b"\x06"
COMMANDS: Final = frozenset((PING, PONG, EXEC, TRACKEXEC, TRACKADDRESS, RESPONSE))

# First arguments of EXEC and TRACKEXEC, as is PING.
INCREMENT: Final = b"\x07"
REGISTER: Final = b"\x08"
DEREGISTER: Final = b"\x09"
RR_STREAM: Final = b"\x0a"
ONGOING: Final = b"ongoing"
MQS_MORE: Final = b"mqs_more"


# Codes of a status frame.
SUCCESS: Final = 10
FAILURE: Final = 20


class QueueMessage(NamedTuple):
    """One message. `to`: the hops to come, the next one first; `path`: the senders, the first one first."""

    command: bytes
    id: bytes
    args: tuple[bytes, ...] = ()
    to: tuple[bytes, ...] = ()
    path: tuple[bytes, ...] = ()


def decode(frames: Sequence[bytes]) -> QueueMessage:
    """Raises: RemoteProtocolError."""
    if len(frames) > MAX_FRAMES:
        raise RemoteProtocolError(f"a message of {len(frames)} frames", ErrorCode.TOO_LONG)
    try:
        first = frames.index(b"")
        last = frames.index(b"", first + 1)
    except ValueError:
        raise RemoteProtocolError("an empty frame is missing", ErrorCode.BAD_PAYLOAD) from None
    if last - first < 4 or frames[first + 1] != VERSION:
        raise RemoteProtocolError("not a message of LMQv100", ErrorCode.BAD_MAGIC)
    command, number = frames[first + 2], frames[first + 3]
    if command not in COMMANDS:
        raise RemoteProtocolError(f"unknown command {command[:8].hex()}", ErrorCode.UNKNOWN_TYPE)
    if len(number) > MAX_ID_BYTES:
        raise RemoteProtocolError(f"an id of {len(number)} bytes", ErrorCode.TOO_LONG)
    path = tuple(frames[last + 1 :])
    if b"" in path:
        raise RemoteProtocolError("an empty frame among the senders", ErrorCode.BAD_PAYLOAD)
    return QueueMessage(command, number, tuple(frames[first + 4 : last]), tuple(frames[:first]), path)


def encode(message: QueueMessage) -> list[bytes]:
    command, number, args, to, path = message
    return [*to, b"", VERSION, command, number, *args, b"", *path]


def make_reply(message: QueueMessage, command: bytes = RESPONSE, *args: bytes) -> QueueMessage:
    """The answer to a message, which goes back the same way."""
    return QueueMessage(command, message.id, args, message.path[::-1])


def make_response(request: QueueMessage, *payload: bytes) -> QueueMessage | None:
    """The answer to a request, if it wants one."""
    return make_reply(request, RESPONSE, *payload) if request.command == TRACKEXEC else None


def parse_count(frame: bytes) -> int:
    """The int at the beginning of a frame, parsed as the original does (atoi); 0 if there is none."""
    text = frame[:20].lstrip(b" \t\n\v\f\r")
    sign, digits = (-1, text[1:]) if text[:1] == b"-" else (1, text.removeprefix(b"+"))
    count = len(digits) - len(digits.lstrip(b"0123456789"))
    return sign * int(digits[:count]) if count else 0


def encode_status(status: int, code: int = 0) -> bytes:
    """A status frame: both numbers as zigzag varints."""
    return _encode_varint(status) + _encode_varint(code)


def _encode_varint(number: int) -> bytes:
    rest = 2 * number if number >= 0 else -2 * number - 1
    data = bytearray()
    while rest > 0x7F:
        data.append(rest & 0x7F | 0x80)
        rest >>= 7
    data.append(rest)
    return bytes(data)


FAILED: Final = encode_status(FAILURE)
