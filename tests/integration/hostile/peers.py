"""A real foreman on real sockets with a door for each role, and peers that send whatever bytes a test wants."""

import asyncio
import os
from collections import defaultdict
from collections.abc import AsyncIterator, Coroutine, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from gandy.config import parse_address
from gandy.core import requests as ask
from gandy.core.extensions import WORKER_OFFERS
from gandy.core.policy import Policy
from gandy.core.requests import Answer, Request
from gandy.core.roles import OFFERS, CrewRole
from gandy.foreman.main import ForemanProgram, socket_address
from gandy.net.links import SocketLink
from gandy.reach import Reach
from gandy.wire import v2
from gandy.wire.messages import About, Extended, Extension, Hello, Message
from gandy.worker.commands import Commands
from gandy.worker.service import WorkerService

COUNT = int(os.environ.get("GANDY_HOSTILE", "0"))  # values beside those that are always made
SHORT_STEP = 4  # without them, messages that cost a link or a process are every so many of those that there are
PATIENCE = 30.0  # seconds for what takes milliseconds


def run(test: Coroutine[Any, Any, None], seconds: float = 60.0) -> None:
    asyncio.run(asyncio.wait_for(test, seconds))


@asynccontextmanager
async def a_foreman(home: Path) -> AsyncIterator[ForemanProgram]:
    """With an SQLite store, and a socket for each role, called like the role."""
    program = ForemanProgram(str(home), None, Policy(grace=0.2))
    await program.start()
    for role in CrewRole:
        await program.server.serve(parse_address(f"unix:{home / role}"), _make_door(program, role))
    try:
        yield program
    finally:
        await program.stop()


def _make_door(program: ForemanProgram, role: CrewRole) -> "Any":
    return lambda: SocketLink(program.server, role)


@asynccontextmanager
async def a_worker(
    home: Path, name: str, commands: Commands | None = None, reserved: int = 0
) -> AsyncIterator[WorkerService]:
    reach = Reach((socket_address(str(home)),))
    about = About(f"{name}-1", name, 2)
    worker = WorkerService(reach, about, home / f"out-{name}", commands=commands, reserved=reserved)
    working = asyncio.create_task(worker.run())
    try:
        yield worker
    finally:
        await worker.stop()
        await working


class Peer:
    """One end of a link. Replies are kept by number; everything else that comes is counted."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._decoder = v2.V2Decoder()
        self._decoder.allow(v2.KNOWN_EXTENSIONS)
        self.replies: defaultdict[int, list[bytes]] = defaultdict(list)
        self.messages: asyncio.Queue[tuple[int, Message]] = asyncio.Queue()  # without replies and events
        self.is_cut = False
        self._followers = asyncio.Event()
        self._listening = asyncio.create_task(self._listen())
        self._number = 0

    @classmethod
    async def connect(cls, home: Path, role: CrewRole = CrewRole.OWNER) -> "Peer":
        return cls(*await asyncio.open_unix_connection(str(home / role)))

    @classmethod
    async def connect_client(cls, home: Path, role: CrewRole = CrewRole.OWNER) -> "Peer":
        peer = await cls.connect(home, role)
        peer.send(Hello(0, (), OFFERS[role] & ~Extension.UPDATES))
        await peer.hear()
        return peer

    @classmethod
    async def connect_worker(cls, home: Path, about: About, role: CrewRole = CrewRole.WORKER) -> "Peer":
        peer = await cls.connect(home, role)
        peer.send(Hello(about.slots, (), WORKER_OFFERS, about))
        return peer

    def send(self, message: Message, seq: int = 0) -> None:
        self.send_bytes(v2.encode(seq, message))

    def send_bytes(self, data: bytes) -> None:
        self._writer.write(data)

    def send_request(self, payload: bytes) -> int:
        self._number += 1
        self.send(Extended(ask.REQUEST, payload), self._number)
        return self._number

    async def ask(self, request: Request) -> Answer:
        return await self.ask_bytes(ask.encode(request))

    async def ask_bytes(self, payload: bytes) -> Answer:
        number = self.send_request(payload)
        await self.wait_replies(number)
        return ask.decode_answer(self.replies[number][0])

    async def ask_all(self, payloads: Iterable[bytes]) -> list[Answer]:
        """Each must have one answer, and the link must stay."""
        numbers = [self.send_request(payload) for payload in payloads]
        async with asyncio.timeout(PATIENCE):
            while not self.is_cut and not all(number in self.replies for number in numbers):
                self._followers.clear()
                await self._followers.wait()
        assert not self.is_cut
        replies = [self.replies.pop(number) for number in numbers]
        assert not self.replies, "a request was answered twice"
        return [ask.decode_answer(reply) for (reply,) in replies]

    async def wait_replies(self, last: int) -> None:
        """Until each request up to this one has a reply, or the link is cut."""
        async with asyncio.timeout(PATIENCE):
            while not self.is_cut and len(self.replies) < last:
                self._followers.clear()
                await self._followers.wait()

    async def hear(self) -> Message:
        """The next message that is no reply and no event."""
        async with asyncio.timeout(PATIENCE):
            return (await self.messages.get())[1]

    async def hear_or_cut(self) -> tuple[int, Message] | None:
        """The next message that is no reply and no event, with its number; None when the link is cut."""
        heard = asyncio.ensure_future(self.messages.get())
        try:
            await asyncio.wait({heard, self._listening}, return_when=asyncio.FIRST_COMPLETED)
            return heard.result() if heard.done() else None
        finally:
            heard.cancel()

    def abort(self) -> None:
        self._writer.transport.abort()
        self._writer.close()

    async def wait_cut(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._listening
        self._writer.close()

    async def drain(self) -> None:
        async with asyncio.timeout(PATIENCE):
            await self._writer.drain()

    async def close(self) -> None:
        self._writer.close()
        await self._listening

    async def _listen(self) -> None:
        try:
            while data := await self._reader.read(1 << 20):
                self._decoder.receive_data(data)
                while (numbered := self._decoder.next_message()) is not None:
                    self._take(*numbered)
                self._followers.set()
        except ConnectionError:
            pass
        self.is_cut = True
        self._followers.set()

    def _take(self, seq: int, message: Message) -> None:
        if isinstance(message, Extended) and message.type == ask.REPLY:
            self.replies[seq].append(message.payload)
        elif not isinstance(message, Extended) or message.type != ask.EVENT:
            self.messages.put_nowait((seq, message))
