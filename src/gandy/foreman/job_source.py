"""Where a foreman's jobs come from: a store of its own, or the database of a crew with many foremen."""

import secrets
import socket
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Protocol

from gandy.core.rows import Recovered
from gandy.foreman.arguments import ArgumentStore, FileArguments
from gandy.foreman.server import Server
from gandy.foreman.shard import ServedShard, WholeCrew
from gandy.store.base import Store

MakeServer = Callable[[Store, Recovered, ServedShard], Awaitable[Server]]  # which is started

ARGUMENTS_NAME = "arguments"


def make_foreman_id() -> str:
    """The name of this machine and a number that no other start has."""
    return f"{socket.gethostname()}-{secrets.token_hex(4)}"


class JobSource(Protocol):
    """One for each foreman program."""

    foreman: str  # our id, new for each start

    @property
    def arguments(self) -> ArgumentStore:
        """Where large arguments of function tasks are kept."""

    async def open(self, make_server: MakeServer, is_on_network: bool, /) -> Server:
        """Open it, and return the server for our clients. Raises: StoreError, ConfigError."""

    async def announce(self, places: tuple[str, ...], /) -> None:
        """Let other foremen know where we are. Raises: StoreError."""

    def find_server(self, shard: int | None) -> Server | None:
        """The server of a shard that runs here; without a number, the one for our clients."""

    async def leave(self) -> None:
        """Let other foremen go on with what we run, if there are any."""

    async def close(self) -> None:
        """Stop all servers, and close the store."""


class OwnStore:
    """A store that no other foreman uses."""

    def __init__(self, store: Store, home: str) -> None:
        self.foreman = make_foreman_id()
        self.arguments = FileArguments(Path(home) / ARGUMENTS_NAME)
        self._store = store
        self._server: Server | None = None

    async def open(self, make_server: MakeServer, _is_on_network: bool) -> Server:
        self._server = await make_server(self._store, await self._store.open(), WholeCrew())
        return self._server

    async def announce(self, _places: tuple[str, ...]) -> None:
        return

    def find_server(self, shard: int | None) -> Server | None:
        return self._server if shard is None else None

    async def leave(self) -> None:
        return

    async def close(self) -> None:
        if self._server is not None:
            await self._server.stop()
        await self._store.close()
