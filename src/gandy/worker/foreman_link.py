"""A worker's link to a foreman: connects, connects again after a break, and cuts a link that is dead."""

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from typing import Final, Protocol

from gandy.clocks import read_monotonic
from gandy.config import Address
from gandy.core.extensions import PING
from gandy.errors import REFUSALS, LinkError, NotAllowed, RemoteProtocolError
from gandy.moments import LONG_AGO
from gandy.net.links import SocketLink
from gandy.talk.worker import WorkerSide
from gandy.wire.messages import Extended, Extension
from gandy.worker.call_service import CallService

log = logging.getLogger("gandy.worker")

FIRST_PAUSE: Final = 0.05  # seconds before the next try to reach the foreman; it doubles
LONGEST_PAUSE: Final = 5.0  # seconds; see `Policy.grace`
SHARD_PAUSE: Final = 1.0  # seconds; the longest pause if the crew has many foremen: another one takes over meanwhile
HEARTBEAT_PERIOD: Final = 5.0  # seconds between two PINGs
HEARTBEAT_EXPIRY: Final = 15.0  # seconds without a byte from the foreman after which the link counts as dead

# Connects to the foreman, with the protocol that it is given. Raises: LinkError, ConfigError.
Dial = Callable[[Callable[[Address], SocketLink]], Awaitable[SocketLink]]


class ForemanListener(Protocol):
    """Handles what the link receives."""

    def on_messages(self) -> None:
        """Handle received messages that are not about calls. Raises: RemoteProtocolError."""

    def flush(self) -> None:
        """Write what is ready to be sent."""

    def on_cut(self) -> None: ...


class ForemanLink:
    """One per conversation, on the current loop."""

    def __init__(self, dial: Dial, side: WorkerSide, calls: CallService, listener: ForemanListener) -> None:
        self.link: SocketLink | None = None  # while it is up
        self.is_welcome = False  # the foreman has answered HELLO
        self.longest_pause = LONGEST_PAUSE
        self._dial = dial
        self._side = side
        self._calls = calls
        self._listener = listener
        self._refusal: NotAllowed | None = None  # the foreman refused our key: trying again does not help
        self._cut = asyncio.Event()
        self._last_received = LONG_AGO

    def agreed(self, extension: Extension) -> bool:
        """True if there is a link, and both sides agreed to the extension."""
        return self.link is not None and extension in self._side.framing.agreed

    async def keep(self) -> None:
        """Keep a link to the foreman up, until cancelled. Raises: NotAllowed."""
        pause = FIRST_PAUSE
        while True:
            try:
                await self._dial(lambda _address: SocketLink(self))
            except LinkError as error:
                if pause == FIRST_PAUSE:
                    log.info("%s; trying again", error)
            else:
                await self._cut.wait()
                if self._refusal is not None:
                    raise self._refusal
                if self.is_welcome:
                    pause = FIRST_PAUSE
            await asyncio.sleep(pause * random.uniform(0.5, 1.0))  # noqa: S311 - so that not all come back at once
            pause = min(self.longest_pause, pause * 2)

    async def send_heartbeats(self) -> None:
        """Send a PING periodically, and cut a link that has been silent for too long."""
        number = 0
        while True:
            await asyncio.sleep(HEARTBEAT_PERIOD)
            self._calls.clock.update()
            if self.link is None or not self.agreed(Extension.HEARTBEAT):
                continue
            if read_monotonic() - self._last_received > HEARTBEAT_EXPIRY:
                log.warning("the foreman has been silent for %.0f s; connecting again", HEARTBEAT_EXPIRY)
                self.link.abort()
                continue
            number = (number + 1) & 0xFFFF_FFFF
            self._side.framing.send_extended(Extended(PING, b""), number)
            self._listener.flush()

    def send_ready(self, *, hold_results: bool = False) -> None:
        """Write what the conversation has to send."""
        if self.link is not None:
            self.link.write(self._side.data_to_send(hold_results))

    def leave(self) -> None:
        """Cut the link at once, and forget it: whatever it still brings is not for us."""
        if self.link is not None:
            link = self.link
            self.on_cut(link)
            link.abort()

    async def close(self) -> None:
        if self.link is not None:
            self.link.close()
            await self._cut.wait()

    # What `Link` reports

    def on_link(self, link: SocketLink) -> None:
        self.link = link
        self._cut.clear()
        self.is_welcome = False
        self._last_received = read_monotonic()
        self._side.connect()
        self._listener.flush()

    def on_data(self, link: SocketLink, data: bytes) -> None:
        if link is not self.link:  # we left it
            return
        self._last_received = read_monotonic()
        framing = self._side.framing
        # The hot path: calls of commands that take no time are answered straight from the bytes.
        taken = framing.take_calls(data)
        if taken:
            self._calls.flush()
            if taken == len(data):
                return
            data = data[taken:]
        try:
            if framing.receive_calls(data):
                self._calls.flush()
                return
            self._listener.on_messages()
        except RemoteProtocolError as error:
            if error.code in REFUSALS:
                self._refusal = NotAllowed(str(error))
            else:
                log.warning("the foreman broke the protocol: %s", error)
            link.write(self._side.data_to_send())
            link.close()
            return
        self._listener.flush()

    def on_cut(self, link: SocketLink) -> None:
        if link is not self.link:
            return
        self.link = None
        self._side.disconnect()
        self._listener.on_cut()
        self._cut.set()
