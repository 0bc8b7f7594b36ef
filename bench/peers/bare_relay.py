"""The limit for calls: three uvloop processes that pass 16-byte headers with 64-byte bodies and do nothing else.

python -m bench.peers.bare_relay server PATH
python -m bench.peers.bare_relay relay PATH SERVER_PATH
"""

import asyncio
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import cast

import uvloop

from bench.asking import BODY, IN_FLIGHT
from bench.contract import Contestant, Place, Work
from bench.processes import running, wait_until

HEADER = struct.Struct("<HBBIII")
FRAME = HEADER.size + len(BODY)


class Peer(asyncio.Protocol):
    """Splits received data into frames."""

    def __init__(self) -> None:
        self.rest = b""
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        if self.rest:
            data = self.rest + data
        at, end = 0, len(data)
        out: list[bytes] = []
        while end - at >= FRAME:
            _magic, _kind, _flags, number, _padding, size = HEADER.unpack_from(data, at)
            out += self.on_frame(number, data[at + HEADER.size : at + HEADER.size + size])
            at += HEADER.size + size
        self.rest = data[at:]
        if out:
            self.send(b"".join(out))

    def on_frame(self, number: int, body: bytes) -> tuple[bytes, ...]:
        return HEADER.pack(0xC047, 0x42, 0, number, 0, len(body)), body

    def send(self, data: bytes) -> None:
        self.transport.write(data)


class Relay(Peer):
    """Between a client and the server."""

    other: "Relay"

    def send(self, data: bytes) -> None:
        self.other.transport.write(data)


class Driver(Peer):
    """The client: keeps a number of frames in flight until enough have come back."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.left = count
        self.missing = count
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def begin(self, under_way: int) -> None:
        self.send(b"".join(part for _ in range(under_way) for part in self.next()))

    def next(self) -> tuple[bytes, ...]:
        if self.left == 0:
            return ()
        self.left -= 1
        return HEADER.pack(0xC047, 0x40, 0, self.left, 0, len(BODY)), BODY

    def on_frame(self, _number: int, _body: bytes) -> tuple[bytes, ...]:
        self.missing -= 1
        if self.missing == 0:
            self.done.set_result(None)
        return self.next()


async def call_many(path: str, count: int) -> int:
    transport, driver = await asyncio.get_running_loop().create_unix_connection(lambda: Driver(count), path)
    driver.begin(IN_FLIGHT)
    await driver.done
    transport.close()
    return count


async def call_each(path: str, count: int) -> list[float]:
    """Seconds of each, one at a time."""
    loop = asyncio.get_running_loop()
    times = []
    transport, driver = await loop.create_unix_connection(lambda: Driver(1), path)
    for _ in range(count):
        begin = time.perf_counter()
        driver.left = driver.missing = 1
        driver.done = loop.create_future()
        driver.begin(1)
        await driver.done
        times.append(time.perf_counter() - begin)
    transport.close()
    return times


@contextmanager
def relayed(place: Place) -> Iterator[str]:
    """The path at which the relay listens."""
    path, inner = place.folder / "relay.sock", place.folder / "server.sock"
    program = (sys.executable, "-m", "bench.peers.bare_relay")
    with running(*program, "server", str(inner)):
        wait_until(inner.exists, "the server")
        with running(*program, "relay", str(path), str(inner)):
            wait_until(path.exists, "the relay")
            yield str(path)


@contextmanager
def calls(place: Place, *, is_many: bool) -> Iterator[Work]:
    with relayed(place) as path, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:

        def work(count: int) -> int | list[float]:
            return runner.run(call_many(path, count)) if is_many else runner.run(call_each(path, count))

        yield work


async def _serve(path: str) -> None:
    server = await asyncio.get_running_loop().create_unix_server(Peer, path)
    await server.serve_forever()


async def _relay(path: str, server_path: str) -> None:
    loop = asyncio.get_running_loop()
    _, inner = await loop.create_unix_connection(Relay, server_path)

    def accept() -> Relay:
        outer = Relay()
        outer.other, inner.other = inner, outer
        return outer

    server = await loop.create_unix_server(accept, path)
    await server.serve_forever()


CONTESTANTS = (
    Contestant("call_latency", "bare relay", partial(calls, is_many=False), packages=("uvloop",)),
    Contestant("calls_in_flight", "bare relay", partial(calls, is_many=True), packages=("uvloop",), count=200_000),
)

if __name__ == "__main__":
    uvloop.run(_serve(*sys.argv[2:]) if sys.argv[1] == "server" else _relay(*sys.argv[2:]))
