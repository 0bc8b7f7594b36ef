"""A pretended foreman on a real socket: gandy's own side of the wire, with answers from a function."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread
from types import TracebackType
from typing import Self, cast

from gandy.client.conversation import OFFERS
from gandy.core.requests import (
    EVENT,
    REPLY,
    Answer,
    ForemanList,
    ForemanRow,
    ListForemen,
    Request,
    decode_request,
    encode,
)
from gandy.talk.events import ExtensionReceived
from gandy.talk.foreman import ForemanSide
from gandy.wire.messages import Extended, Extension

Script = Callable[[Request], "list[Answer] | None"]


def always(*answers: Answer) -> Script:
    return lambda _request: list(answers)


def in_turn(*turns: list[Answer] | None) -> Script:
    rest: Iterator[list[Answer] | None] = iter(turns)
    return lambda _request: next(rest)


class PretendForeman:
    """The script gives the answer to each request, and the events behind it. None: the link is cut instead.

    Requests for the foremen of the crew, which clients make by themselves, are only counted.
    """

    def __init__(self, path: Path, script: Script, offers: Extension = OFFERS) -> None:
        self.path = path
        self.script = script
        self.offers = offers
        self.asked: list[Request] = []
        self.foremen: tuple[ForemanRow, ...] = ()
        self.times_listed = 0
        self.reads: list[int] = []  # requests in each read from a socket
        self.links: set[asyncio.Transport] = set()

    @property
    def url(self) -> str:
        return f"unix:{self.path}"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.get_running_loop().create_unix_server(lambda: _PretendLink(self), self.path)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.close()
        for link in list(self.links):
            link.abort()
        while self.links:
            await asyncio.sleep(0)
        self.path.unlink(missing_ok=True)


class _PretendLink(asyncio.Protocol):
    def __init__(self, foreman: PretendForeman) -> None:
        self._foreman = foreman
        self._side = ForemanSide(offers=foreman.offers)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._foreman.links.add(self._transport)

    def connection_lost(self, _error: Exception | None) -> None:
        self._foreman.links.discard(self._transport)

    def data_received(self, data: bytes) -> None:
        self._side.receive_data(data)
        count = 0
        while (event := self._side.next_event()) is not None:
            if isinstance(event, ExtensionReceived):
                count += 1
                self._on_request(event)
        self._foreman.reads.append(count)
        self._transport.write(self._side.data_to_send())

    def _on_request(self, event: ExtensionReceived) -> None:
        request = decode_request(event.payload)
        if isinstance(request, ListForemen):
            self._foreman.times_listed += 1
            self._side.framing.send_extended(Extended(REPLY, encode(ForemanList(self._foreman.foremen))), event.seq)
            return
        self._foreman.asked.append(request)
        answers = self._foreman.script(request)
        if answers is None:
            self._transport.abort()
            return
        for place, answer in enumerate(answers):
            self._side.framing.send_extended(Extended(EVENT if place else REPLY, encode(answer)), event.seq)


@contextmanager
def in_a_thread(foreman: PretendForeman) -> Iterator[PretendForeman]:
    """For clients that block."""
    ready, loop, done = Event(), asyncio.new_event_loop(), asyncio.Event()

    async def serve() -> None:
        async with foreman:
            ready.set()
            await done.wait()

    thread = Thread(target=lambda: loop.run_until_complete(serve()))
    thread.start()
    ready.wait()
    try:
        yield foreman
    finally:
        loop.call_soon_threadsafe(done.set)
        thread.join()
        loop.close()
