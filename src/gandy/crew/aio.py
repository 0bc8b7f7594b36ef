"""`gandy.AsyncCrew`: a crew of the program's own, for programs on asyncio."""

import asyncio
from collections.abc import Iterable
from typing import Self
from weakref import finalize

from gandy.client.aio import AsyncClient
from gandy.crew.base import OwnCrew
from gandy.crew.options import StrPath, make_options
from gandy.crew.process import CrewProcess


class AsyncCrew(OwnCrew, AsyncClient):
    """A foreman and a worker below this program, and a client of them: every method of `AsyncClient` uses this crew.

    It is there from `async with` or `start()` until the end of the block, `close()` or the end of the program, however
    that ends. Nothing is left of it then, unless it has a `folder`, which keeps its jobs for the next crew with that
    folder.
    """

    def __init__(
        self,
        slots: int | None = None,
        *,
        folder: StrPath | None = None,
        log: StrPath | None = None,
        commands: Iterable[str] = (),
        preload: Iterable[str] = (),
        reserve: int = 0,
    ) -> None:
        """`slots`: by default, one for each processor that this program may use. `log`: a file to add its log to.

        `commands`, `preload` and `reserve` are those of `gandy up`. Raises: ConfigError.
        """
        self._process = CrewProcess(make_options(slots, folder, log, commands, preload, reserve))
        super().__init__(self._process.address)
        self._process.add(self.connection)
        finalize(self, self._process.let_go).atexit = False

    async def start(self) -> Self:
        """Start the crew unless it runs, and wait until it is ready. Raises: CrewFailed, ConfigError."""
        try:
            await asyncio.to_thread(self._process.start)
            await super().connect()
        except BaseException:
            await self.close()
            raise
        return self

    async def connect(self) -> None:
        await self.start()

    async def client(self) -> AsyncClient:
        """Return another client of this crew, which is connected. Raises: CrewFailed."""
        client = AsyncClient(self.address)
        self._process.add(client.connection)
        await client.connect()
        return client

    async def close(self) -> None:
        """End the crew and what it still runs, and wait until it is gone. Futures without a value raise CrewFailed."""
        if self._process.is_ours:
            await asyncio.to_thread(self._process.end)
            await super().close()
