"""A proxy between a client and its foreman that cuts the link at a chosen request.

It does so before the foreman reads it, or after the foreman has done it and before the client has the answer. Then
nothing listens there any more, as after a kill.
"""

import asyncio
from contextlib import suppress
from enum import Enum
from pathlib import Path

from gandy.core.requests import REPLY, REQUEST, Request, decode_request
from gandy.wire.v2 import HEADER


class Moment(Enum):
    """When the link is cut."""

    UNREAD = "before the foreman reads the request"
    READ = "after the foreman got the request, at once"
    DONE = "after the foreman has answered, before the client has the answer"


class CuttingProxy:
    """Listens at `path` for clients of the foreman at `target`."""

    def __init__(self, path: Path, target: str) -> None:
        self.path = path
        self._target = target
        self.kind: type[Request] | None = None
        self.moment = Moment.UNREAD
        self.cut = asyncio.Event()
        self._awaited: int | None = None  # the number of the request whose answer is awaited
        self._server: asyncio.Server
        self._writers: set[asyncio.StreamWriter] = set()
        self._tasks: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        self._server = await asyncio.start_unix_server(self._serve, self.path)

    def cut_at(self, kind: type[Request], moment: Moment) -> None:
        """Cut the link at the next request of this kind."""
        self.kind, self.moment = kind, moment

    async def close(self) -> None:
        self._cut()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._tasks.add(task)
        to_foreman_reader, to_foreman = await asyncio.open_unix_connection(self._target)
        self._writers |= {writer, to_foreman}
        with suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            await asyncio.gather(self._pass(reader, to_foreman, True), self._pass(to_foreman_reader, writer, False))
        for each in (writer, to_foreman):
            each.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, is_asking: bool) -> None:
        while True:
            head = await reader.readexactly(HEADER.size)
            _, kind, _, seq, _, size = HEADER.unpack(head)
            payload = await reader.readexactly(size) if kind >= 0x20 or kind == 2 else b""
            if is_asking and kind == REQUEST and self._is_meant(payload):
                self._awaited = seq
                if self.moment is Moment.UNREAD:
                    self._cut()
                    return
            if not is_asking and kind == REPLY and seq == self._awaited:
                self._cut()
                return
            writer.write(head + payload)
            await writer.drain()
            if is_asking and seq == self._awaited and self.moment is Moment.READ:
                self._cut()
                return

    def _is_meant(self, payload: bytes) -> bool:
        return self.kind is not None and isinstance(decode_request(payload), self.kind)

    def _cut(self) -> None:
        self._server.close()
        self.path.unlink(missing_ok=True)
        for writer in self._writers:
            writer.transport.abort()
        self._writers.clear()
        self.kind = self._awaited = None
        self.cut.set()
