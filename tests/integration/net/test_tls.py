"""TLS over real sockets: every byte, in order, of every size; and ends of every kind."""

import asyncio
import os
import ssl
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from gandy.core.roles import CrewRole
from gandy.keys.crew import CrewKeys, make_client_context
from gandy.keys.foreman import ForemanKeys
from gandy.limits import MAX_STRANGE_BYTES
from gandy.net import tls
from gandy.net.tls import NotAdmitted, TlsEnd, TlsTransport

MEGABYTE = 1_000_000


def run(test: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(test, 60))


class Listener(asyncio.Protocol):
    """Keeps what it hears."""

    def __init__(self) -> None:
        self.heard = bytearray()
        self.transport: asyncio.Transport | None = None
        self.end: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self.more = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        self.heard += data
        self.more.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.end.set_result(exc)
        self.more.set()

    def say(self, data: bytes) -> None:
        assert self.transport is not None
        self.transport.write(data)

    async def hear(self, size: int) -> bytes:
        while len(self.heard) < size:
            assert not self.end.done()
            self.more.clear()
            await self.more.wait()
        return bytes(self.heard)


class Door:
    """A foreman's door, and a client's key for it."""

    def __init__(self, folder: Path) -> None:
        folder.chmod(0o700)
        keys = ForemanKeys(folder / "keys")
        self._context = keys.make_context()
        crew = CrewKeys.find(folder / "keys" / CrewRole.CLIENT)
        assert crew is not None
        self.client_context = crew.make_context()
        self.client_context.set_alpn_protocols(["gandy"])
        self.ends: list[TlsEnd] = []
        self.dialed: list[TlsEnd] = []
        self.taken: asyncio.Queue[Listener] = asyncio.Queue()
        self.port = 0

    def make(self) -> TlsEnd:
        self.ends.append(TlsEnd(self._context, self._admit, is_server=True))
        return self.ends[-1]

    def _admit(self, _transport: TlsTransport) -> Listener:
        listener = Listener()
        self.taken.put_nowait(listener)
        return listener

    async def dial(self, admit: Callable[[TlsTransport], asyncio.Protocol | None]) -> TlsEnd:
        loop = asyncio.get_running_loop()
        end = (
            await loop.create_connection(
                lambda: TlsEnd(self.client_context, admit, is_server=False), "127.0.0.1", self.port
            )
        )[1]
        self.dialed.append(end)
        await end.done
        return end

    async def pair(self) -> tuple[Listener, Listener]:
        ours = Listener()
        await self.dial(lambda _transport: ours)
        return ours, await self.taken.get()


@asynccontextmanager
async def a_door(folder: Path) -> AsyncIterator[Door]:
    door = Door(folder)
    server = await asyncio.get_running_loop().create_server(door.make, "127.0.0.1", 0)
    door.port = server.sockets[0].getsockname()[1]
    async with server:
        yield door
        for end in (*door.ends, *door.dialed):
            end.abort()
        for _ in range(3):  # turns of the loop, until all have heard of it
            await asyncio.sleep(0)


async def hang_up(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with suppress(ConnectionError):
        await writer.wait_closed()


def test_large_messages_come_through_both_ways_at_once(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_door(tmp_path) as door:
            ours, theirs = await door.pair()
            up, down = os.urandom(10 * MEGABYTE), os.urandom(10 * MEGABYTE)
            ours.say(up)
            theirs.say(down)
            assert await theirs.hear(len(up)) == up
            assert await ours.hear(len(down)) == down

    run(test())


def test_many_small_messages_come_in_order(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_door(tmp_path) as door:
            ours, theirs = await door.pair()
            words = [b"%05d," % number for number in range(20_000)]
            for number, word in enumerate(words):
                (ours if number % 2 else theirs).say(word)
            assert await theirs.hear(6 * 10_000) == b"".join(words[1::2])
            assert await ours.hear(6 * 10_000) == b"".join(words[::2])

    run(test())


@pytest.mark.parametrize("is_ours", [True, False])
def test_a_close_lets_everything_arrive_and_says_goodbye(tmp_path: Path, is_ours: bool) -> None:
    async def test() -> None:
        async with a_door(tmp_path) as door:
            pair = await door.pair()
            one, other = pair if is_ours else pair[::-1]
            data = os.urandom(5 * MEGABYTE)
            one.say(data)
            assert one.transport is not None
            one.transport.close()
            one.say(b"too late")
            assert await other.end is None  # and no complaint: close_notify came
            assert bytes(other.heard) == data
            assert await one.end is None

    run(test())


def test_a_stranger_who_vanishes_leaves_nothing(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_door(tmp_path) as door:
            for data in (b"", b"\x16", b"\x16\x03\x01\x02\x00\x01\x00"):
                _, writer = await asyncio.open_connection("127.0.0.1", door.port)
                writer.write(data)
                await writer.drain()
                await hang_up(writer)
            while len(door.ends) < 3:
                await asyncio.sleep(0)
            for end in door.ends:
                assert isinstance(await end.done, ConnectionError)
            assert door.taken.empty()

    run(test())


def test_a_stranger_has_so_many_seconds_and_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 0.1)

    async def test() -> None:
        async with a_door(tmp_path) as door:
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            with suppress(ConnectionError):
                assert await reader.read() == b""
            assert isinstance(await door.ends[0].done, TimeoutError)
            await hang_up(writer)
            monkeypatch.setattr(tls, "HANDSHAKE_SECONDS", 60.0)
            reader, writer = await asyncio.open_connection("127.0.0.1", door.port)
            writer.write(b"\x16\x03\x01\x3f\xff" + bytes(MAX_STRANGE_BYTES))
            error = await door.ends[1].done
            assert isinstance(error, (ConnectionError, ssl.SSLError))
            await hang_up(writer)

    run(test())


def test_an_end_may_be_aborted_before_there_is_a_link(tmp_path: Path) -> None:
    """In a flood, one that was just taken is the first to go."""

    async def test() -> None:
        async with a_door(tmp_path) as door:
            make = door.make

            def make_and_abort() -> TlsEnd:
                end = make()
                end.abort()
                return end

            server = await asyncio.get_running_loop().create_server(make_and_abort, "127.0.0.1", 0)
            async with server:
                door.port = server.sockets[0].getsockname()[1]
                end = await door.dial(lambda _transport: Listener())
                assert isinstance(await end.done, ConnectionError)
                assert isinstance(await door.ends[0].done, ConnectionError)

    run(test())


def test_a_peer_that_is_not_the_one_we_know_hears_nothing_from_us(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_door(tmp_path) as door:
            end = await door.dial(lambda _transport: None)
            assert isinstance(await end.done, NotAdmitted)
            theirs = await door.taken.get()
            await theirs.end
            assert theirs.heard == b""

    run(test())


def test_damaged_records_end_the_link(tmp_path: Path) -> None:
    async def test() -> None:
        async with a_door(tmp_path) as door:
            ours, theirs = await door.pair()
            assert isinstance(ours.transport, TlsTransport)
            sock = ours.transport.get_extra_info("socket")
            os.write(sock.fileno(), b"\x17\x03\x03\x00\x20" + bytes(32))
            assert isinstance(await theirs.end, ssl.SSLError)
            assert theirs.heard == b""
            await ours.end

    run(test())


def test_no_peer_comes_back_with_an_old_session(tmp_path: Path) -> None:
    """A key that was revoked must be looked at each time."""
    tmp_path.chmod(0o700)
    context = ForemanKeys(tmp_path / "keys").make_context()
    assert context.num_tickets == 0
    assert context.minimum_version is ssl.TLSVersion.TLSv1_3
    assert make_client_context().minimum_version is ssl.TLSVersion.TLSv1_3
