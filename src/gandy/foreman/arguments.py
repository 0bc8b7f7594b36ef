"""Where a foreman keeps large arguments of function tasks: in files of its own, or in the database of its crew."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from gandy.core.refusal import Refusal
from gandy.foreman.blobs import Blobs, check_name, check_size
from gandy.limits import MAX_READ_BYTES
from gandy.moments import Wall
from gandy.store.crew import CrewStore

FindOldest = Callable[[float], Wall]  # the time of day before which everything is older than so many seconds


class ArgumentStore(Protocol):
    """Clients put arguments in pieces, and workers read them in pieces."""

    async def put(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        """Keep the next piece; the first one begins anew. Raises: Refusal, StoreError."""

    async def read(self, name: str, offset: int, limit: int) -> bytes:
        """Read a piece; behind the end, it is empty. Raises: Refusal, StoreError."""

    async def drop(self, seconds: float, find_oldest: FindOldest) -> None:
        """Remove what has not been put or read for so long. Raises: StoreError."""


class FileArguments:
    """In files of this foreman."""

    def __init__(self, folder: Path) -> None:
        self._blobs = Blobs(folder)

    async def put(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        await asyncio.to_thread(self._blobs.put, name, offset, data, is_last)

    async def read(self, name: str, offset: int, limit: int) -> bytes:
        return await asyncio.to_thread(self._blobs.read, name, offset, limit)

    async def drop(self, seconds: float, find_oldest: FindOldest) -> None:
        await asyncio.to_thread(self._blobs.drop, seconds, find_oldest)


class CrewArguments:
    """In the database of the crew, where all foremen find them."""

    def __init__(self, crew: CrewStore) -> None:
        self._crew = crew

    async def put(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        check_name(name)
        check_size(offset, data)
        await self._crew.put_arguments(name, offset, data, is_last)

    async def read(self, name: str, offset: int, limit: int) -> bytes:
        check_name(name)
        data = await self._crew.read_arguments(name, max(0, offset), min(max(0, limit), MAX_READ_BYTES))
        if data is None:
            raise Refusal("not_found", "the arguments of this task are no longer kept")
        return data

    async def drop(self, seconds: float, _find_oldest: FindOldest) -> None:
        await self._crew.drop_arguments(seconds)
