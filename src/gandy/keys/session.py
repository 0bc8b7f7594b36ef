"""TLS without a socket: bytes of the network in, plain bytes out, and the reverse."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from gandy.limits import MAX_STRANGE_BYTES

READ_BYTES: Final = 16 * 1024  # a TLS record holds no more, and a read returns at most one record
NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME: our clock may be wrong


class TlsSession:
    """One end of a session. `receive` bytes from the network; send it `data_to_send` after each step."""

    def __init__(self, context: ssl.SSLContext, *, is_server: bool) -> None:
        self._context = context
        self._is_server = is_server
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._strange_bytes = 0
        self.is_open = False  # the handshake is done
        self.is_ended = False  # the peer sends nothing more

    @cached_property
    def _tls(self) -> ssl.SSLObject:
        """Made when the first bytes come or go: it takes most of the memory."""
        return self._context.wrap_bio(self._in, self._out, server_side=self._is_server)

    @property
    def certificate(self) -> bytes | None:
        """The peer's, in DER."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def protocol(self) -> str | None:
        """The protocol that both ends agreed on (ALPN)."""
        return self._tls.selected_alpn_protocol()

    def begin(self) -> None:
        """Start the handshake, if we connected. Raises: SSLError."""
        if not self._is_server:
            self._handshake()

    def receive(self, data: bytes) -> None:
        """Raises: SSLError, ConnectionError. Even then there may be an alert to send."""
        self._in.write(data)
        if self.is_open:
            return
        self._strange_bytes += len(data)
        if self._strange_bytes > MAX_STRANGE_BYTES:
            raise ConnectionError("too many bytes before the handshake was done")
        self._handshake()

    def _handshake(self) -> None:
        with suppress(ssl.SSLWantReadError):
            self._tls.do_handshake()
            self.is_open = True

    def read(self) -> Iterator[bytes]:
        """Plain bytes from the peer, once the handshake is done. Raises: SSLError."""
        while self._in.pending or self._tls.pending():  # a check is cheaper than the exception below
            try:
                data = self._tls.read(READ_BYTES)
            except ssl.SSLWantReadError:
                return
            if not data:
                self.is_ended = True
                return
            yield data

    def send(self, data: "bytes | bytearray | memoryview[Any]") -> None:
        """Raises: SSLError."""
        rest = memoryview(data)
        while rest:
            rest = rest[self._tls.write(rest) :]

    def end(self) -> None:
        """Announce the end (close_notify), so that the peer knows that it has received everything."""
        if self.is_open:
            with suppress(ssl.SSLError):  # the peer has not announced its end yet, and need not
                self._tls.unwrap()

    def data_to_send(self) -> bytes:
        """Each byte is returned once."""
        return self._out.read() if self._out.pending else b""
