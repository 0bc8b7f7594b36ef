"""Splits a TCP stream into OSC messages: by lengths (OSC 1.0) or by SLIP (OSC 1.1)."""

from typing import Final

from gandy.bus.limits import MAX_OSC_BYTES
from gandy.bus.wire.messages import Framer
from gandy.errors import ErrorCode, RemoteProtocolError


def make_framer(data: bytes) -> "Framer | SlipFramer":
    """OSC 1.0 has lengths before messages, OSC 1.1 has SLIP. The first byte decides: no length begins with END."""
    return SlipFramer() if data.startswith(END) else Framer(MAX_OSC_BYTES)


END: Final = b"\xc0"
_ESCAPED_END: Final = b"\xdb\xdc"
_ESCAPED_ESCAPE: Final = b"\xdb\xdd"
_ESCAPE: Final = b"\xdb"


class SlipFramer:
    """Bytes in, messages out, as from `Framer`: RFC 1055, with END before and after each message."""

    def __init__(self) -> None:
        self._buffer = bytearray()
        self._seen = 0  # bytes of the buffer without an END

    def receive_data(self, data: bytes) -> None:
        self._buffer += data

    def next_message(self) -> bytes | None:
        """Raises: RemoteProtocolError, when one is too long."""
        while (end := self._buffer.find(END, self._seen)) >= 0:
            message = bytes(self._buffer[:end])
            del self._buffer[: end + 1]
            self._seen = 0
            if message:
                return message.replace(_ESCAPED_END, END).replace(_ESCAPED_ESCAPE, _ESCAPE)
        self._seen = len(self._buffer)
        if self._seen > MAX_OSC_BYTES:
            raise RemoteProtocolError(f"a message of more than {MAX_OSC_BYTES:,} bytes", ErrorCode.TOO_LONG)
        return None
