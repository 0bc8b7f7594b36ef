"""TLS without a socket: bytes from the network in, plain bytes out, and the reverse."""

import ssl
from collections.abc import Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from gandy.limits import MAX_STRANGE_BYTES

READ_BYTES: Final = 16 * 1024  # what a record holds at most: more is never given at once
NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME: our clock may be wrong


class TlsSession:
    """One end. `receive` what comes; write `data_to_send` after each step."""

    def __init__(self, context: ssl.SSLContext, *, is_server: bool) -> None:
        self._context = context
        self._is_server = is_server
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._strange_bytes = 0
        self.is_open = False  # the handshake is done
        self.is_ended = False  # the other end sends nothing more

    @cached_property
    def _tls(self) -> ssl.SSLObject:
        """Made when the peer sends something: it takes most of the memory."""
        return self._context.wrap_bio(self._in, self._out, server_side=self._is_server)

    @property
    def certificate(self) -> bytes | None:
        """The other end's, in DER."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def protocol(self) -> str | None:
        """What both agreed to speak (ALPN)."""
        return self._tls.selected_alpn_protocol()

    def begin(self) -> None:
        """The end that connects sends first. Raises: SSLError."""
        if not self._is_server:
            self._handshake()

    def receive(self, data: bytes) -> None:
        """Raises: SSLError, ConnectionError. There may be an alert to send."""
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
        while self._in.pending or self._tls.pending():  # an exception costs more than a read
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
        """Say that nothing more comes, so that the other end knows it has everything."""
        if self.is_open:
            with suppress(ssl.SSLError):  # the other end has not said the same yet, and need not
                self._tls.unwrap()

    def data_to_send(self) -> bytes:
        """Each byte is returned once."""
        return self._out.read() if self._out.pending else b""
