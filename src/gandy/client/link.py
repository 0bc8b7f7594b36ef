"""A client's link: the conversation over a socket. Passes answers to their requests, and fails all when it breaks."""

import asyncio
import socket
from functools import partial
from typing import Final, cast

from gandy.client.answers import AnswerFeed, OpenRequests
from gandy.client.caller import Caller, on_frame
from gandy.client.conversation import Conversation, ForemanReady, Happened, Replied
from gandy.client.pending import Pending
from gandy.client.simple import SimpleCalls
from gandy.client.write_buffer import WriteBuffer
from gandy.clocks import read_monotonic
from gandy.config import Address
from gandy.core.requests import Answer, Request, Unwatch
from gandy.errors import REFUSALS, GandyError, LinkError, NotAllowed, RemoteProtocolError
from gandy.moments import NEVER
from gandy.reach import Reach

# Seconds after which a peer that accepts the connection and sends nothing is given up.
WELCOME_PATIENCE: Final = 10.0

# Seconds of silence after which the kernel probes a peer on the network.
KEEPALIVE_SECONDS: Final = 15


class ClientLink(asyncio.Protocol):
    """One connection to a foreman, from `connection_made` until it is cut."""

    def __init__(self, address: Address, caller: Caller) -> None:
        self.address = address
        self._transport: asyncio.Transport | None = None
        self._error: GandyError | None = None  # why no more requests can be sent
        self.is_open = True
        self.lost_at = NEVER  # when it broke
        self._buffer = WriteBuffer()
        self.write_soon = self._buffer.write_soon
        self.wait_written = self._buffer.wait_written
        self.calls: dict[int, Pending] = {}  # calls that are not simple, by number
        self.simple = SimpleCalls(self._buffer.write, self.write_soon, self.calls)
        self.takes_calls = self.takes_times = self.takes_links = False
        on_call = partial(on_frame, self, caller)
        self._conversation = Conversation(on_call=on_call, take_plain_calls=self.simple.take_plain)
        self._requests = OpenRequests()
        self.ready: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def ask(self, request: Request) -> asyncio.Future[Answer]:
        """Raises: LinkError, ConfigError."""
        return self._requests.add(self._send(request))

    def follow(self, request: Request, latest_only: bool = False, limit: int | None = None) -> AnswerFeed:
        """Raises: LinkError."""
        return self._requests.follow(self._send(request), AnswerFeed(latest_only, limit))

    def unfollow(self, feed: AnswerFeed) -> None:
        self._requests.unfollow(feed)

    def unwatch(self, feed: AnswerFeed) -> None:
        """The same, and the foreman need not send any more of them."""
        for number in self._requests.unfollow(feed):
            if self.is_open:
                self._send(Unwatch(number))

    async def end(self) -> None:
        """Cut the link. Data that is not written yet is dropped: a peer that does not read must not delay us."""
        self._fail(LinkError("the client is closed"))
        if self._transport is not None:
            self._transport.abort()
            await self._lost

    def abort(self) -> None:
        """Cut the link at once: another foreman welcomed us first."""
        self._fail(LinkError(f"another foreman than the one at {self.address} is used"))
        if self._transport is not None:
            self._transport.abort()

    def _send(self, request: Request) -> int:
        if self._error is not None:
            raise self._error
        number = self._conversation.ask(request)
        self.write_soon(self._conversation.data_to_send())
        return number

    def _fail(self, error: GandyError) -> None:
        if self._error is not None:
            return
        self._error, self.is_open, self.lost_at = error, False, read_monotonic()
        if not self.ready.done():
            self.ready.set_exception(error)
        self._requests.fail(error)
        calls = list(self.calls.values())
        self.calls.clear()
        for pending in calls:
            pending.on_failure(error)
        self.simple.fail(error)
        if self._transport is not None:
            self._transport.close()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._buffer.open(self._transport)
        _keep_alive(transport.get_extra_info("socket"))
        self._buffer.write(self._conversation.data_to_send())

    def data_received(self, data: bytes) -> None:
        taken = self._conversation.take_calls(data)
        if taken == len(data):
            return
        if taken:
            data = data[taken:]
        try:
            if self._conversation.receive_data(data):
                return
            self._handle_events()
        except RemoteProtocolError as error:
            self._buffer.write(self._conversation.data_to_send())  # an ERROR with the reason
            self._fail(self._describe(error))
        except LinkError as error:
            self._fail(LinkError(f"{self.address}: {error}"))
        else:
            self._buffer.write(self._conversation.data_to_send())

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc is not None else ""
        self._fail(LinkError(f"the link to the foreman at {self.address} broke{why}"))
        if not self._lost.done():
            self._lost.set_result(None)

    def _describe(self, error: RemoteProtocolError) -> GandyError:
        if error.code in REFUSALS:
            return NotAllowed(f"{self.address}: {error}")
        if self.ready.done():
            return error
        return LinkError(f"what listens at {self.address} is not a gandy foreman: {error}")

    def _handle_events(self) -> None:
        while (event := self._conversation.next_event()) is not None:
            match event:
                case ForemanReady():
                    self.takes_calls = self._conversation.takes_calls
                    self.takes_times = self._conversation.takes_times
                    self.takes_links = self._conversation.takes_links
                    if not self.ready.done():
                        self.ready.set_result(None)
                case Replied(number, answer):
                    self._requests.on_reply(number, answer)
                case Happened(number, answer):
                    self._requests.on_event(number, answer)


def _keep_alive(link: socket.socket) -> None:
    if link.family == socket.AF_UNIX:
        return
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on every platform
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS)


async def connect(reach: Reach, caller: Caller) -> ClientLink:
    """Connect to the first foreman that welcomes us. Raises: LinkError, NotAllowed, ConfigError."""
    return await reach.dial_greeted(lambda address: ClientLink(address, caller), _wait_for_welcome, ClientLink.abort)


async def _wait_for_welcome(link: ClientLink) -> None:
    try:
        async with asyncio.timeout(WELCOME_PATIENCE):
            await link.ready
    except TimeoutError:
        await link.end()
        raise LinkError(f"what listens at {link.address} does not answer; is it a foreman?") from None
    except BaseException:
        await link.end()
        raise
