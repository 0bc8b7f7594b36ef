"""A dashboard in this process with a real server, and a client of HTTP that sends exactly what a test says."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple, Self

from tests.waiting import PATIENCE

from gandy import AsyncClient
from gandy.config import Address
from gandy.dashboard.bus_view import join_ensemble
from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.program import Dashboard, Options
from gandy.foreman.main import socket_address

LOOPBACK = Address("tcp", "127.0.0.1", 0)


class Reply(NamedTuple):
    """A response, read to its end."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def kind(self) -> str:
        """Of the error."""
        kind = self.json["error"]["kind"]
        assert isinstance(kind, str)
        return kind


def parse(data: bytes) -> Reply:
    head, _, body = data.partition(b"\r\n\r\n")
    lines = head.decode("latin-1").split("\r\n")
    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
    return Reply(int(lines[0].split()[1]), headers, body)


class Caller:
    """A browser or a program, with the headers that it sends each time."""

    def __init__(self, dashboard: Dashboard, headers: Mapping[str, str] | None = None) -> None:
        self.dashboard = dashboard
        self.port = dashboard.port
        self.headers = dict(headers or {})

    async def open(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port)

    async def talk(self, data: bytes) -> bytes:
        """Send bytes, and read until the server closes the connection."""
        reader, writer = await self.open()
        try:
            writer.write(data)
            async with asyncio.timeout(PATIENCE):
                return await reader.read()
        except ConnectionResetError:
            return b""
        finally:
            writer.close()

    def make_request(self, method: str, path: str, headers: Mapping[str, str], body: bytes = b"") -> bytes:
        given = {"Host": f"127.0.0.1:{self.port}", "Connection": "close", **self.headers, **headers}
        if body or method == "POST":
            given.setdefault("Content-Length", str(len(body)))
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value)]
        return "\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body

    async def get(self, path: str, method: str = "GET", **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return parse(await self.talk(self.make_request(method, path, named)))

    async def post(self, path: str, value: object = None, **headers: str) -> Reply:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        changing = {"X-Gandy": "1", "Content-Type": "application/json"}
        body = b"" if value is None else json.dumps(value).encode()
        return parse(await self.talk(self.make_request("POST", path, {**changing, **named}, body)))

    @asynccontextmanager
    async def events(self, path: str, **headers: str) -> AsyncIterator["Events"]:
        reader, writer = await self.open()
        try:
            writer.write(self.make_request("GET", path, headers))
            async with asyncio.timeout(PATIENCE):
                head = await reader.readuntil(b"\r\n\r\n")
            yield Events(parse(head), reader, writer)
        finally:
            writer.close()


class Event(NamedTuple):
    """One event of a stream."""

    name: str
    data: Any
    number: int | None


class Events:
    """A stream of events. Comments are skipped."""

    def __init__(self, reply: Reply, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reply = reply
        self.reader = reader
        self.writer = writer

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    text = (await self.reader.readuntil(b"\n\n")).decode()
                except asyncio.IncompleteReadError:
                    raise StopAsyncIteration from None
                fields = dict(line.split(": ", 1) for line in text.splitlines() if line and not line.startswith(":"))
                if fields:
                    number = int(fields["id"]) if "id" in fields else None
                    return Event(fields["event"], json.loads(fields["data"]), number)


@asynccontextmanager
async def a_dashboard_at(*foreman: str, **options: Any) -> AsyncIterator[Dashboard]:
    client = AsyncClient(foreman)
    chosen = Options(**{"foreman": foreman, "listen": LOOPBACK, **options})
    dashboard = Dashboard(chosen, ShownCrew(client, await join_ensemble(chosen.ensemble)))
    await dashboard.start()
    try:
        yield dashboard
    finally:
        await dashboard.stop()
        await client.close()


@asynccontextmanager
async def a_dashboard(home: Path, **options: Any) -> AsyncIterator[Caller]:
    """A caller with a cookie."""
    async with a_dashboard_at(str(socket_address(str(home))), **options) as dashboard:
        yield await sign_in(dashboard)


async def sign_in(dashboard: Dashboard) -> Caller:
    """Use the token, as a browser does."""
    stranger = Caller(dashboard)
    reply = await stranger.get(f"/?token={dashboard.token}")
    assert reply.status == 303, reply
    return Caller(dashboard, {"Cookie": reply.headers["set-cookie"].partition(";")[0]})
