"""TLS without a socket: bytes of the network in, plain bytes out, and the reverse."""

import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import cached_property
from typing import Any, Final

from gandy.limits import MAX_STRANGE_BYTES

READ_BYTES: Final = 16 * 1024  # a TLS record holds no more, and a read returns at most one record
NO_CHECK_TIME: Final = ssl.VerifyFlags(0x200000)  # OpenSSL's X509_V_FLAG_NO_CHECK_TIME: our clock may be wrong


class _ServerObject(ssl.SSLObject):
    """Remembers whom the peer asked for: OpenSSL tells it only while it reads the first message."""

    asked_for: str | None = None


def note_server_names(
    context: ssl.SSLContext, choose: Callable[[str | None], ssl.SSLContext | None] = lambda _name: None
) -> None:
    """Let sessions of a server know whom peers ask for. `choose` may return another context, with another key."""

    def on_name(tls: ssl.SSLObject | ssl.SSLSocket, name: str | None, _context: ssl.SSLContext) -> None:
        if isinstance(tls, _ServerObject):  # else it is a plain socket, and no session
            tls.asked_for = name
        if (other := choose(name)) is not None:
            tls.context = other

    context.sslobject_class = _ServerObject
    context.sni_callback = on_name


class TlsSession:
    """One end of a session. `receive` bytes from the network; send it `data_to_send` after each step."""

    def __init__(self, context: ssl.SSLContext, *, is_server: bool, server_name: str | None = None) -> None:
        """`server_name`: whom we ask for at the server (SNI), if we connected."""
        self._context = context
        self._is_server = is_server
        self._server_name = server_name
        self._in, self._out = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._strange_bytes = 0
        self.is_open = False  # the handshake is done
        self.is_ended = False  # the peer sends nothing more

    @cached_property
    def _tls(self) -> ssl.SSLObject:
        """Made when the first bytes come or go: it takes most of the memory."""
        return self._context.wrap_bio(self._in, self._out, self._is_server, self._server_name)

    @property
    def certificate(self) -> bytes | None:
        """The peer's, in DER."""
        return self._tls.getpeercert(binary_form=True)

    @property
    def alternative_names(self) -> tuple[str, ...]:
        """The DNS names in the peer's certificate. Empty unless its signature was verified."""
        names: Any = (self._tls.getpeercert() or {}).get("subjectAltName", ())
        return tuple(name for kind, name in names if kind == "DNS")

    @property
    def asked_for(self) -> str | None:
        """Whom the peer asked for (SNI), if it connected to a context with `note_server_names`."""
        return self._tls.asked_for if isinstance(self._tls, _ServerObject) else None

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
