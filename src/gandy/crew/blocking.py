"""`gandy.Crew`: a crew of the program's own, for programs without asyncio."""

from collections.abc import Iterable
from types import TracebackType
from typing import Self
from weakref import finalize

from gandy.client.blocking import Client
from gandy.crew.aio import AsyncCrew
from gandy.crew.base import OwnCrew
from gandy.crew.options import StrPath, make_options
from gandy.crew.process import CrewProcess


class Crew(OwnCrew, Client):
    """A foreman and a worker below this program, and a client of them: every method of `Client` uses this crew.

    It is there from `with` or `start()` until the end of the block, `close()` or the end of the program, however that
    ends. Nothing is left of it then, unless it has a `folder`, which keeps its jobs for the next crew with that folder.
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
        self._process.add(self._wrapped.connection)
        finalize(self, self._process.let_go).atexit = False

    def start(self) -> Self:
        """Start the crew unless it runs, and wait until it is ready. Raises: CrewFailed, ConfigError."""
        self._process.start()
        try:
            super().connect()
        except BaseException:
            self.close()
            raise
        return self

    def connect(self) -> None:
        self.start()

    def client(self) -> Client:
        """Return another client of this crew, which is connected. Raises: CrewFailed."""
        client = Client(self.address)
        self._process.add(client._wrapped.connection)
        client.connect()
        return client

    def close(self) -> None:
        """End the crew and what it still runs, and wait until it is gone. Futures without a value raise CrewFailed."""
        if self._process.is_ours:
            self._process.end()
            super().close()

    async def __aenter__(self) -> AsyncCrew:
        """Start a crew with the same options, for asyncio."""
        given = self._process.options
        folder = given.folder if given.is_kept else None
        parts = {"commands": given.commands, "preload": given.preload}
        self._async = AsyncCrew(given.slots, folder=folder, log=given.log or None, reserve=given.reserve, **parts)
        return await self._async.start()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._async.close()
