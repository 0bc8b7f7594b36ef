"""Listens for browsers and programs, and limits how many there may be: see `core.unknown_peers` for strangers."""

import asyncio
import ssl
from typing import Final

from gandy.clocks import read_monotonic
from gandy.config import Address
from gandy.core.unknown_peers import UnknownPeers
from gandy.dashboard.app import App
from gandy.dashboard.connection import HttpConnection, HttpExchange
from gandy.dashboard.limits import HEAD_SECONDS, MAX_CONNECTIONS, MAX_STRANGERS
from gandy.dashboard.messages import HttpRequest, HttpResponse
from gandy.net.links import listen
from gandy.net.open_files import limit_by_files
from gandy.net.tls import HANDSHAKE_SECONDS, TlsEnd

LOOK_SECONDS: Final = 1.0  # between two looks at deadlines


class HttpServer:
    """`listen`, then `run` until it is cancelled, then `close`."""

    def __init__(self, app: App, context: ssl.SSLContext | None = None) -> None:
        """`context`: with TLS."""
        self._app = app
        self._context = context
        most = limit_by_files(MAX_STRANGERS)
        self._handshakes: UnknownPeers[TlsEnd] = UnknownPeers(most, HANDSHAKE_SECONDS)
        self._strangers: UnknownPeers[HttpConnection] = UnknownPeers(most, HEAD_SECONDS)
        self._connections: set[HttpConnection] = set()
        self._known = 0
        self._listener: asyncio.Server | None = None

    async def listen(self, address: Address) -> int:
        """Returns the port. Raises: ConfigError."""
        self._listener = await listen(address, self._make_protocol)
        return int(self._listener.sockets[0].getsockname()[1])

    async def run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_SECONDS)
            now = read_monotonic()
            self._handshakes.expire(now)
            self._strangers.expire(now)
            for connection in list(self._connections):
                connection.expire(now)

    def count_connections(self) -> int:
        return len(self._connections)

    async def close(self) -> None:
        if self._listener is not None:
            self._listener.close()
        for connection in list(self._connections):
            connection.abort()
        await asyncio.sleep(0)

    def _make_protocol(self) -> asyncio.Protocol:
        if self._context is None:
            return HttpConnection(self)
        end = TlsEnd(self._context, lambda _transport: HttpConnection(self), is_server=True)
        end.on_handshake_begin = self._begin_handshake
        end.on_handshake_end = self._handshakes.leave
        return end

    def _begin_handshake(self, end: TlsEnd) -> bool:
        self._handshakes.enter(end, end.source, read_monotonic())
        return True

    # What connections call

    def on_connected(self, connection: HttpConnection) -> None:
        self._connections.add(connection)
        self._strangers.enter(connection, connection.source, read_monotonic())

    def on_known(self, connection: HttpConnection) -> bool:
        self._strangers.leave(connection)
        if self._known >= MAX_CONNECTIONS:
            return False
        self._known += 1
        return True

    def on_closed(self, connection: HttpConnection) -> None:
        self._connections.discard(connection)
        self._strangers.leave(connection)
        self._known -= connection.is_known

    def admit(self, request: HttpRequest) -> HttpExchange | HttpResponse:
        return self._app.admit(request)

    def finish(self, request: HttpRequest, response: HttpResponse) -> HttpResponse:
        return self._app.finish(request, response)
