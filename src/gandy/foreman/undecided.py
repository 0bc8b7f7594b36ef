"""A link whose key is being looked up in the crew's database. What it sends meanwhile is kept, and not handled."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import cast

from gandy.limits import MAX_EARLY_BYTES
from gandy.net.tls import TlsTransport


class Undecided(asyncio.Protocol):
    """Becomes the protocol that `decide` returns, or is closed."""

    def __init__(
        self, decide: Callable[[], Awaitable[asyncio.Protocol | None]], on_end: Callable[["Undecided"], None]
    ) -> None:
        self._decide = decide
        self._on_end = on_end  # it is decided, or cut
        self._transport: TlsTransport | None = None
        self._early = bytearray()
        self._task: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("TlsTransport", transport)
        self._transport.pause_reading()
        self._task = asyncio.get_running_loop().create_task(self._wait(self._transport))

    def data_received(self, data: bytes) -> None:
        self._early += data
        if len(self._early) > MAX_EARLY_BYTES:
            self.abort()

    def connection_lost(self, _exc: Exception | None) -> None:
        self._transport = None
        if self._task is not None:
            self._task.cancel()
        self._on_end(self)

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    async def _wait(self, transport: TlsTransport) -> None:
        above = await self._decide()
        self._task = None
        if above is None:
            transport.close()
            return
        self._on_end(self)
        transport.set_protocol(above)
        above.connection_made(transport)
        if self._early:
            above.data_received(bytes(self._early))
        if not transport.is_closing():
            transport.resume_reading()
