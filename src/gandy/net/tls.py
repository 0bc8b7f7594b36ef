"""TLS between a socket and a protocol of asyncio: the protocol above reads and writes plain bytes.

asyncio's own TLS takes any number of bytes before the handshake is done, and a quarter of a megabyte of memory for each
link. This one limits what a stranger may send, and gives it a few seconds.
"""

import asyncio
import ssl
from collections.abc import Callable
from typing import Any, Final, cast

from gandy.keys.session import TlsSession
from gandy.net.links import format_place, get_source

HANDSHAKE_SECONDS: Final = 5.0

# Returns the protocol for a peer whose handshake is done; None closes the link after what was written.
Admit = Callable[["TlsTransport"], asyncio.Protocol | None]


class NotAdmitted(ConnectionError):
    """The handshake was done, and then `admit` refused the peer."""


class TlsTransport(asyncio.Transport):
    """What the protocol above writes to."""

    def __init__(self, end: "TlsEnd", below: asyncio.Transport, session: TlsSession) -> None:
        super().__init__()
        self._end = end
        self._below = below
        self.session = session

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._end.set_protocol(protocol)

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        self._end.write(data)

    def can_write_eof(self) -> bool:
        return False  # half of a TLS connection cannot be closed

    def close(self) -> None:
        self._end.close()

    def abort(self) -> None:
        self._below.abort()

    def is_closing(self) -> bool:
        return self._below.is_closing()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return self._below.get_extra_info(name, default)

    def get_write_buffer_size(self) -> int:
        return self._below.get_write_buffer_size()

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        self._below.pause_reading()

    def resume_reading(self) -> None:
        self._below.resume_reading()


class TlsEnd(asyncio.Protocol):
    """One end of a link, whichever side opened it."""

    def __init__(
        self, context: ssl.SSLContext, admit: Admit, *, is_server: bool, server_name: str | None = None
    ) -> None:
        """`server_name`: whom we ask for at the server (SNI), if we connected."""
        self._session = TlsSession(context, is_server=is_server, server_name=server_name)
        self._admit = admit
        self._below: asyncio.Transport | None = None
        self._above: asyncio.Protocol | None = None
        self.place = ""  # where the other end is, for logs
        self.source = ""  # what it is counted as
        self.has_received = False  # the other end has sent something, which cost time
        self._is_aborted = False
        self._error: Exception | None = None
        self._timer: asyncio.TimerHandle | None = None
        self.done: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.on_handshake_begin: Callable[[TlsEnd], bool] = lambda _end: True  # False: it is not served
        self.on_handshake_end: Callable[[TlsEnd], None] = lambda _end: None  # however it ended

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = cast("asyncio.Transport", transport)
        self.place = format_place(transport)
        self.source = get_source(transport)
        if self._is_aborted or not self.on_handshake_begin(self):
            self._below.abort()
            return
        self._timer = asyncio.get_running_loop().call_later(HANDSHAKE_SECONDS, self._give_up)
        self._session.begin()
        self._flush()

    def data_received(self, data: bytes) -> None:
        self.has_received = True
        try:
            self._session.receive(data)
        except (ssl.SSLError, ConnectionError) as error:
            self._fail(error)
            return
        if self._above is None:
            self._flush()
            if self._session.is_open:
                self._open()
        if self._above is not None:
            self._read()

    def eof_received(self) -> None:
        return None  # so the transport is closed

    def pause_writing(self) -> None:
        if self._above is not None:
            self._above.pause_writing()

    def resume_writing(self) -> None:
        if self._above is not None:
            self._above.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        error = self._error or exc
        self._settle(error or ConnectionError("the link was closed before the handshake was done"))
        if self._above is not None:
            above, self._above = self._above, None
            above.connection_lost(error)
        self._below = None

    # The handshake

    def _open(self) -> None:
        assert self._below is not None
        transport = TlsTransport(self, self._below, self._session)
        above = self._admit(transport)
        if above is None:
            self._settle(NotAdmitted("this peer was not admitted"))
            self.close()
            return
        self._above = above
        self._settle(None)
        above.connection_made(transport)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Bytes that come from now on are for this protocol."""
        if self._above is not None:
            self._above = cast("asyncio.Protocol", protocol)

    def _settle(self, error: Exception | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
            self.on_handshake_end(self)
        if not self.done.done():
            self.done.set_result(error)

    def _give_up(self) -> None:
        self._timer = None
        self.on_handshake_end(self)
        self._fail(TimeoutError("the handshake took too long"))

    def _fail(self, error: Exception) -> None:
        """Close the link; an alert may have to be sent first."""
        self._error = error
        if self._below is not None:
            self._flush()
            self._below.close() if isinstance(error, ssl.SSLError) else self._below.abort()

    # Bytes

    def _read(self) -> None:
        try:
            for data in self._session.read():
                if self._above is None or self._below is None or self._below.is_closing():
                    return
                self._above.data_received(data)
        except ssl.SSLError as error:
            self._fail(error)
            return
        if self._session.is_ended:
            self.close()
        else:
            self._flush()  # keys are renewed now and then

    def write(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        if self._below is None or self._below.is_closing():
            return
        try:
            self._session.send(data)
        except ssl.SSLError as error:
            self._fail(error)
            return
        self._flush()

    def abort(self) -> None:
        """Cut the link, now or as soon as it is there."""
        self._is_aborted = True
        if self._below is not None:
            self._below.abort()

    def close(self) -> None:
        """Close the link after everything was written, so that the other end knows it has all."""
        if self._below is None or self._below.is_closing():
            return
        self._session.end()
        self._flush()
        self._below.close()

    def _flush(self) -> None:
        if self._below is not None and not self._below.is_closing() and (data := self._session.data_to_send()):
            self._below.write(data)
