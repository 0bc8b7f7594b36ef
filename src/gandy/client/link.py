"""A client's connection: the conversation on a socket. Answers go to those who asked, and a break to all of them."""

import asyncio
import socket
from collections import deque
from functools import partial
from typing import Final, cast

from gandy.client.caller import Caller, on_frame
from gandy.client.conversation import Conversation, Happened, Replied, Welcomed, make_error
from gandy.client.pending import Pending
from gandy.client.simple import SimpleCalls
from gandy.config import Address
from gandy.core.requests import Answer, Failure, Request
from gandy.errors import REFUSALS, GandyError, LinkError, NotAllowed, RemoteProtocolError
from gandy.reach import Reach

# Seconds until a peer that accepts the connection and says nothing is given up.
WELCOME_PATIENCE: Final = 10.0

# Frames that wait for others to leave with: more would keep the foreman waiting.
MAX_PARTS: Final = 128

# Seconds of silence after which the kernel asks a peer on the network whether it is still there.
KEEPALIVE_SECONDS: Final = 15


class Watch:
    """What one request is told as time goes by. Only the newest is kept: each tells all there is."""

    def __init__(self) -> None:
        self._newest: Answer | None = None
        self._error: GandyError | None = None
        self._wake = asyncio.Event()

    def put(self, answer: Answer) -> None:
        self._newest = answer
        self._wake.set()

    def fail(self, error: GandyError) -> None:
        self._error = error
        self._wake.set()

    async def take(self) -> Answer:
        """The newest answer, once each.

        Raises: LinkError, when there can be no more.
        """
        await self._wake.wait()
        if self._newest is None:
            assert self._error is not None
            raise self._error
        newest, self._newest = self._newest, None
        if self._error is None:
            self._wake.clear()
        return newest


class Feed:
    """All that one request is told as time goes by, in order."""

    def __init__(self) -> None:
        self._answers: deque[Answer] = deque()
        self._error: GandyError | None = None
        self._wake = asyncio.Event()

    def put(self, answer: Answer) -> None:
        self._answers.append(answer)
        self._wake.set()

    def fail(self, error: GandyError) -> None:
        self._error = error
        self._wake.set()

    async def take(self) -> Answer:
        """The next answer.

        Raises: LinkError, when there can be no more.
        """
        while not self._answers:
            if self._error is not None:
                raise self._error
            self._wake.clear()
            await self._wake.wait()
        return self._answers.popleft()


class Link(asyncio.Protocol):
    """One connection. Requests made in one turn of the loop leave in one write."""

    def __init__(self, address: Address, caller: Caller) -> None:
        self.address = address
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._flush_is_due = False
        self._error: GandyError | None = None  # why nothing more can be asked
        self.is_open = True
        self._parts: list[bytes] = []  # that are to be written
        self.calls: dict[int, Pending] = {}  # under way, by number, beside the simple ones
        self.simple = SimpleCalls(self.write, self.write_soon, self.calls)
        self.takes_calls = self.takes_times = False
        on_call = partial(on_frame, self, caller)
        self._conversation = Conversation(on_call=on_call, take_plain_calls=self.simple.take_plain)
        self._asked: dict[int, asyncio.Future[Answer]] = {}
        self._watches: dict[int, Watch | Feed] = {}
        self.welcome: asyncio.Future[None] = self._loop.create_future()
        self._gone: asyncio.Future[None] = self._loop.create_future()

    def ask(self, request: Request) -> asyncio.Future[Answer]:
        """Raises: LinkError, ConfigError."""
        answer: asyncio.Future[Answer] = self._loop.create_future()
        self._asked[self._send(request)] = answer
        return answer

    def watch(self, request: Request) -> Watch:
        """Raises: LinkError."""
        watch = Watch()
        self._watches[self._send(request)] = watch
        return watch

    def feed(self, request: Request) -> Feed:
        """Raises: LinkError."""
        feed = Feed()
        self._watches[self._send(request)] = feed
        return feed

    def unwatch(self, watch: Watch | Feed) -> None:
        """Nobody listens any more; what the foreman still tells is dropped."""
        self._watches = {number: other for number, other in self._watches.items() if other is not watch}

    async def wait_written(self, patience: float) -> None:
        """Until what was said has left, for a while: casts have no answer that somebody could wait for."""
        self._flush()
        deadline = self._loop.time() + patience
        while self.is_open and self._transport is not None and self._transport.get_write_buffer_size():
            if self._loop.time() > deadline:
                return
            await asyncio.sleep(0.005)

    async def end(self) -> None:
        """Break off. What was not written yet is dropped: a peer that reads nothing must not keep us here."""
        self._fail(LinkError("the client is closed"))
        if self._transport is not None:
            self._transport.abort()
            await self._gone

    def _send(self, request: Request) -> int:
        if self._error is not None:
            raise self._error
        number = self._conversation.ask(request)
        self.write_soon(self._conversation.data_to_send())
        return number

    def write_soon(self, data: bytes) -> None:
        """With whatever else is written in this turn of the loop."""
        self._parts.append(data)
        if len(self._parts) >= MAX_PARTS:
            self._flush()
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def write(self, data: bytes) -> None:
        """Now, behind whatever waits."""
        self._parts.append(data)
        self._flush()

    def _flush(self) -> None:
        self._flush_is_due = False
        data = b"".join(self._parts)
        self._parts.clear()
        if data and self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _fail(self, error: GandyError) -> None:
        if self._error is not None:
            return
        self._error, self.is_open = error, False
        if not self.welcome.done():
            self.welcome.set_exception(error)
        for answer in self._asked.values():
            if not answer.done():
                answer.set_exception(error)
        for watch in self._watches.values():
            watch.fail(error)
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
        self._transport.set_write_buffer_limits(0)  # what we write goes out now, and not at the end of the turn
        _keep_alive(transport.get_extra_info("socket"))
        self.write(self._conversation.data_to_send())

    def data_received(self, data: bytes) -> None:
        taken = self._conversation.take_calls(data)
        if taken == len(data):
            return
        if taken:
            data = data[taken:]
        try:
            if self._conversation.receive_data(data):
                return
            self._pull()
        except RemoteProtocolError as error:
            self.write(self._conversation.data_to_send())  # the last word tells the peer why
            self._fail(self._describe(error))
        except LinkError as error:
            self._fail(LinkError(f"{self.address}: {error}"))
        else:
            self.write(self._conversation.data_to_send())

    def connection_lost(self, exc: Exception | None) -> None:
        why = f": {exc}" if exc is not None else ""
        self._fail(LinkError(f"the link to the foreman at {self.address} broke{why}"))
        if not self._gone.done():
            self._gone.set_result(None)

    def _describe(self, error: RemoteProtocolError) -> GandyError:
        if error.code in REFUSALS:
            return NotAllowed(f"{self.address}: {error}")
        if self.welcome.done():
            return error
        return LinkError(f"what listens at {self.address} is not a gandy foreman: {error}")

    def _pull(self) -> None:
        while (event := self._conversation.next_event()) is not None:
            match event:
                case Welcomed():
                    self.takes_calls = self._conversation.takes_calls
                    self.takes_times = self._conversation.takes_times
                    if not self.welcome.done():
                        self.welcome.set_result(None)
                case Replied(number, answer) if number in self._watches:
                    self._tell_watch(number, answer)
                case Replied(number, answer):
                    self._settle(number, answer)
                case Happened(number, answer):
                    self._tell_watch(number, answer)

    def _settle(self, number: int, answer: Answer) -> None:
        future = self._asked.pop(number, None)
        if future is None or future.done():
            return
        if isinstance(answer, Failure):
            future.set_exception(make_error(answer))
        else:
            future.set_result(answer)

    def _tell_watch(self, number: int, answer: Answer) -> None:
        watch = self._watches.get(number)
        if watch is None:
            return
        if isinstance(answer, Failure):
            watch.fail(make_error(answer))
        else:
            watch.put(answer)


def _keep_alive(link: socket.socket) -> None:
    if link.family == socket.AF_UNIX:
        return
    link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if hasattr(socket, "TCP_KEEPIDLE"):  # not on every platform
        link.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, KEEPALIVE_SECONDS)


async def connect(reach: Reach, caller: Caller) -> Link:
    """Raises: LinkError, NotAllowed or ConfigError, with what to do about it."""
    link = await reach.dial(lambda address: Link(address, caller))
    try:
        async with asyncio.timeout(WELCOME_PATIENCE):
            await link.welcome
    except TimeoutError:
        await link.end()
        raise LinkError(f"what listens at {link.address} does not answer; is it a foreman?") from None
    except BaseException:
        await link.end()
        raise
    return link
