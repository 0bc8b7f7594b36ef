"""A link to another foreman of the crew, as a client of it. Answers and events are passed on as they are."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import Any, Final, cast

from gandy.client.conversation import Conversation, ForemanReady, Happened, Replied
from gandy.config import Address
from gandy.core.requests import Answer, Request, Unwatch
from gandy.errors import GandyError, LinkError, RemoteProtocolError
from gandy.reach import Reach

WELCOME_SECONDS: Final = 3.0  # that the other foreman has to answer HELLO

OnAnswer = Callable[[Answer, bool], None]  # an answer, and whether it is an event that follows one


class CrewLink(asyncio.Protocol):
    """One connection. `lost` is done when it is closed, whichever side closed it."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.lost: asyncio.Future[None] = loop.create_future()
        self._transport: asyncio.Transport | None = None
        self._conversation = Conversation()
        self._listeners: dict[int, OnAnswer] = {}

    def ask(self, request: Request, on_answer: OnAnswer) -> int:
        """Send a request; `on_answer` gets its answer, and the events that follow, until `forget`. Raises: LinkError.

        Returns the number of the request.
        """
        if self.lost.done() or self._transport is None:
            raise LinkError("the link to the other foreman is closed")
        number = self._conversation.ask(request)
        self._listeners[number] = on_answer
        self._flush()
        return number

    def forget(self, number: int) -> None:
        """Drop what still comes for the request with this number."""
        self._listeners.pop(number, None)

    def unwatch(self, number: int) -> None:
        """The same, and the other foreman need not send any more of it."""
        self.forget(number)
        with suppress(LinkError):  # then nothing comes
            self.forget(self.ask(Unwatch(number), lambda _answer, _is_event: None))

    async def request(self, request: Request) -> Answer:
        """Send a request that has no events, and return its answer. Raises: LinkError."""
        answered: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()

        def take(answer: Answer, _is_event: bool) -> None:
            if not answered.done():
                answered.set_result(answer)

        number = self.ask(request, take)
        try:
            await self.wait_for(answered)
        finally:
            self.forget(number)
        return answered.result()

    async def wait_for(self, answered: "asyncio.Future[Answer]") -> None:
        """Return when the answer is there. Raises: LinkError, if the link breaks before."""
        both: set[asyncio.Future[Any]] = {answered, self.lost}
        await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        if not answered.done():
            raise LinkError("the link to the other foreman broke")

    def pause_reading(self) -> None:
        """Until `resume_reading`, what comes waits at the other foreman. We learn only then if the link has broken."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_reading(self) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    # What asyncio calls

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._flush()

    def data_received(self, data: bytes) -> None:
        try:
            if not self._conversation.receive_data(data):
                self._handle_events()
        except (LinkError, RemoteProtocolError) as error:
            self._fail(error)
            self.close()
        else:
            self._flush()

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(LinkError(f"the link to the other foreman broke: {exc or 'closed'}"))
        if not self.lost.done():
            self.lost.set_result(None)

    def _handle_events(self) -> None:
        while (event := self._conversation.next_event()) is not None:
            match event:
                case ForemanReady():
                    if not self.ready.done():
                        self.ready.set_result(None)
                case Replied(number, answer):
                    self._pass(number, answer, False)
                case Happened(number, answer):
                    self._pass(number, answer, True)

    def _pass(self, number: int, answer: Answer, is_event: bool) -> None:
        listener = self._listeners.get(number)
        if listener is not None:
            listener(answer, is_event)

    def _fail(self, error: GandyError) -> None:
        if not self.ready.done():
            self.ready.set_exception(error)
            self.ready.exception()  # looked at, so that asyncio does not complain if no coroutine waits for it

    def _flush(self) -> None:
        data = self._conversation.data_to_send()
        if data and self._transport is not None:
            self._transport.write(data)


def _make(_place: Address) -> CrewLink:
    return CrewLink()


async def connect(reach: Reach, shard: int = 0) -> CrewLink:
    """Connect to another foreman, or to one of its shards. Raises: LinkError, ConfigError."""
    link = await (reach.dial_shard(shard, reach.places, _make) if shard else reach.dial(_make))
    try:
        async with asyncio.timeout(WELCOME_SECONDS):
            await link.ready
    except TimeoutError:
        link.close()
        raise LinkError("the other foreman does not answer") from None
    except BaseException:
        link.close()
        raise
    return link
