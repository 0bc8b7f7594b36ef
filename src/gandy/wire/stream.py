"""Splits a byte stream into frames, whatever pieces it arrives in. Each generation decodes its own frames."""

from abc import abstractmethod
from collections.abc import Callable, Set
from enum import IntEnum
from typing import Final, Generic, NamedTuple, TypeVar

from gandy.bounds import BROKEN, describe
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import MAX_PAYLOAD_BYTES
from gandy.wire.payloads import Payload

# The beginning of every frame in both generations: 47 c0 on the wire.
MAGIC: Final = 0xC047

# Bytes of an incomplete frame up to which it is copied when more of it arrives. A larger one grows in place.
SMALL_REST: Final = 4096

# The payload of a type that has none.
_NOTHING: Final[Payload] = b""

M = TypeVar("M")


class Format(NamedTuple):
    """The layout of a generation's frames."""

    header_size: int
    # magic, type, subtype, seq, padding, arg0; v1 has no subtype and no seq, so they are 0 there
    unpack: Callable[[Payload, int], tuple[int, int, int, int, int, int]]
    types: type[IntEnum]
    plain: Set[int]  # types that are a header and nothing else
    sized: Set[int]  # types whose arg0 is the length of a payload


class Decoder(Generic[M]):
    """Bytes in with `receive_data`, messages out with `next_message`. After an error, every call raises it again."""

    def __init__(self, frames: Format, payload_limit: int = MAX_PAYLOAD_BYTES) -> None:
        self._header_size, self._unpack, self._types, self._plain, self._sized = frames
        self._payload_limit = payload_limit
        self._buffer: Payload = b""
        self._position = 0  # in the buffer, of the next frame
        self._forgotten = 0  # bytes of the stream before the buffer
        self._error: RemoteProtocolError | None = None

    @property
    def offset(self) -> int:
        """Where the next frame begins, in bytes since the stream began."""
        return self._forgotten + self._position

    @property
    def unread(self) -> int:
        """Bytes that were received and are not yet part of a returned message."""
        return len(self._buffer) - self._position

    def receive_data(self, data: bytes) -> None:
        if self._position == len(self._buffer):  # the usual case: nothing left over, nothing copied
            self._forgotten += self._position
            self._buffer, self._position = data, 0
            return
        rest = len(self._buffer) - self._position
        if rest < SMALL_REST:  # the beginning of a frame: copying it is cheaper than growing a bytearray
            self._forgotten += self._position
            self._buffer, self._position = bytes(self._buffer[self._position :]) + data, 0
            return
        if not isinstance(self._buffer, bytearray):
            self._buffer = bytearray(self._buffer)
        del self._buffer[: self._position]
        self._forgotten += self._position
        self._position = 0
        self._buffer += data

    def bypass(self, data: bytes, take: Callable[[bytes, int], int]) -> int:
        """Let `take` read data without buffering it, if the buffer is empty. Returns where it stopped."""
        if self._position != len(self._buffer):
            return 0
        at = take(data, 0)
        self._forgotten += at
        return at

    def take_with(self, take: Callable[[Payload, int], int]) -> bool:
        """Let `take` read whole frames from the buffer: it gets an offset, and returns where it stopped.

        True if nothing is left.
        """
        self._position = take(self._buffer, self._position)
        return self._position == len(self._buffer)

    def next_message(self) -> M | None:
        """Return the next message, or None until more bytes come.

        Raises: RemoteProtocolError, if the stream is invalid, after all messages before that. An invalid header is
        enough, so a claimed length takes no memory.
        """
        if self._error is not None:
            raise self._error
        buffer = self._buffer
        body = self._position + self._header_size
        if body > len(buffer):
            return None
        magic, kind, subtype, seq, padding, arg0 = self._unpack(buffer, self._position)
        if magic != MAGIC:
            raise self._fail(f"bad magic 0x{magic:04x}, expected 0x{MAGIC:04x}", ErrorCode.BAD_MAGIC)
        end, payload = body, _NOTHING
        if kind not in self._plain:
            if kind not in self._sized:
                raise self._fail(f"unknown message type 0x{kind:02x}", ErrorCode.UNKNOWN_TYPE)
            if arg0 > self._payload_limit:
                text = f"a payload of {arg0} bytes is claimed, the limit is {self._payload_limit}"
                raise self._fail(text, ErrorCode.TOO_LONG)
            end = body + arg0
            if end > len(buffer):
                return None
            payload = buffer[body:end]
        try:
            message = self.open_frame(kind, subtype, seq, padding, arg0, payload)
        except BROKEN as error:
            raise self._fail(f"{self._types(kind).name}: {describe(error)}", ErrorCode.BAD_PAYLOAD) from None
        self._position = end
        return message

    @abstractmethod
    def open_frame(self, kind: int, subtype: int, seq: int, padding: int, arg0: int, payload: Payload) -> M:
        """Decode the message in a frame.

        Raises: one of `bounds.BROKEN`.
        """

    def _fail(self, message: str, code: ErrorCode) -> RemoteProtocolError:
        self._error = RemoteProtocolError(message, code, self.offset)
        return self._error
