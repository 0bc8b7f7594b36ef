"""A byte stream cut into frames, whatever pieces it arrives in. What a frame means is its generation's business."""

from abc import abstractmethod
from collections.abc import Callable, Set
from enum import IntEnum
from typing import Final, Generic, TypeAlias, TypeVar

from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import MAX_PAYLOAD_BYTES
from gandy.wire.payloads import BROKEN, Payload

# Both generations begin a frame with it: 47 c0 on the wire.
MAGIC: Final = 0xC047

# type, subtype, seq, padding, arg0, payload; v1 has no subtype and no seq, so they are 0 there.
Frame: TypeAlias = tuple[int, int, int, int, int, Payload]

M = TypeVar("M")


class Decoder(Generic[M]):
    """Bytes in with `receive_data`, messages out with `next_message`. An error is final, and is given again."""

    _header_size: int
    _types: type[IntEnum]
    _unpack: Callable[[Payload, int], tuple[int, int, int, int, int, int]]  # with the magic first
    _plain: Set[int]  # types that are a header and nothing else
    _sized: Set[int]  # types whose arg0 is the length of a payload

    def __init__(self, payload_limit: int = MAX_PAYLOAD_BYTES) -> None:
        self._payload_limit = payload_limit
        self._buffer: bytes | bytearray = b""
        self._position = 0  # in the buffer, of the next frame
        self._forgotten = 0  # bytes of the stream before the buffer
        self._error: RemoteProtocolError | None = None

    @property
    def offset(self) -> int:
        """Where the next frame begins, in bytes since the stream began."""
        return self._forgotten + self._position

    @property
    def unread(self) -> int:
        """Bytes received and not yet part of a frame given out."""
        return len(self._buffer) - self._position

    def receive_data(self, data: bytes) -> None:
        if self._position == len(self._buffer):  # the usual case: nothing left over, nothing copied
            self._forgotten += self._position
            self._buffer, self._position = data, 0
            return
        if not isinstance(self._buffer, bytearray):
            self._buffer = bytearray(self._buffer)
        del self._buffer[: self._position]
        self._forgotten += self._position
        self._position = 0
        self._buffer += data

    def next_frame(self) -> Frame | None:
        """The next frame with its payload unopened, or None until more bytes come.

        Raises: RemoteProtocolError, as soon as the header is wrong: a claimed length costs no memory.
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
        if kind in self._plain:
            self._position = body
            return kind, subtype, seq, padding, arg0, b""
        if kind not in self._sized:
            raise self._fail(f"unknown message type 0x{kind:02x}", ErrorCode.UNKNOWN_TYPE)
        if arg0 > self._payload_limit:
            raise self._fail(
                f"a payload of {arg0} bytes is claimed, the limit is {self._payload_limit}", ErrorCode.TOO_LONG
            )
        end = body + arg0
        if end > len(buffer):
            return None
        self._position = end
        return kind, subtype, seq, padding, arg0, buffer[body:end]

    def next_message(self) -> M | None:
        """The next message, or None until more bytes come.

        Raises: RemoteProtocolError, when the stream makes no sense; all messages before that were given out.
        """
        begin = self._position
        frame = self.next_frame()
        if frame is None:
            return None
        try:
            return self.open_frame(frame)
        except BROKEN as error:
            self._position = begin
            raise self._fail(f"{self._types(frame[0]).name}: {error}", ErrorCode.BAD_PAYLOAD) from None

    @abstractmethod
    def open_frame(self, frame: Frame) -> M:
        """The message in a frame.

        Raises: one of `payloads.BROKEN`.
        """

    def _fail(self, message: str, code: ErrorCode) -> RemoteProtocolError:
        self._error = RemoteProtocolError(message, code, self.offset)
        return self._error
