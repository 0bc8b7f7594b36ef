"""Large arguments of function tasks, in pieces: any foreman takes them, and any foreman gives them to workers."""

import re
from typing import Final

from gandy.core.refusal import Refusal
from gandy.limits import MAX_PICKLE_BYTES, MAX_READ_BYTES
from gandy.store.postgres.connections import DatabaseConnections, StoreConnection, execute, fetch, fetch_one
from gandy.store.postgres.sql import Statements

NAME: Final = re.compile(r"[0-9a-f]{32}")
PIECE_BYTES: Final = 1 << 20  # of a row: the server holds it in memory several times
PART_SECONDS: Final = 3_600.0  # for the next piece; then its client is gone


class Arguments:
    """As `foreman.blobs.Blobs`: until the last piece has come, no worker can read them."""

    def __init__(self, connections: DatabaseConnections, sql: Statements) -> None:
        self._connections = connections
        self._sql = sql

    async def put(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        """Add the next piece; the first one begins anew. Raises: Refusal, StoreError."""
        _check(name)
        if not 0 <= offset <= MAX_PICKLE_BYTES - len(data):
            raise Refusal("refused", f"the arguments of one task may have {MAX_PICKLE_BYTES:,} bytes")

        async def work(db: StoreConnection) -> bool:
            return await self._put(db, name, offset, data, is_last)

        if not await self._connections.transact(work):
            raise Refusal("refused", "the pieces before this one are not there: begin with the first")

    async def _put(self, db: StoreConnection, name: str, offset: int, data: bytes, is_last: bool) -> bool:
        if not offset:
            await execute(db, self._sql["begin_arguments"], {"name": name})
            found = await fetch_one(db, self._sql["add_arguments"], {"name": name})
        else:
            found = await fetch_one(db, self._sql["find_arguments"], {"name": name})
        if found is None or found[1] < offset:
            return False
        number, size = found
        if offset < size:  # the client sends a piece again
            await execute(db, self._sql["cut_arguments"], {"id": number, "offset": offset})
        for start in range(0, len(data), PIECE_BYTES):
            piece = {"id": number, "first": offset + start, "data": data[start : start + PIECE_BYTES]}
            await execute(db, self._sql["add_piece"], piece)
        if is_last:
            await execute(db, self._sql["drop_old_whole"], {"name": name})
        grown = {"id": number, "size": offset + len(data), "is_whole": is_last}
        await execute(db, self._sql["grow_arguments"], grown)
        return True

    async def read(self, name: str, offset: int, limit: int) -> bytes | None:
        """Read a piece; behind the end, it is empty. None: there are none of that name. Raises: Refusal, StoreError."""
        _check(name)
        values = {"name": name, "offset": max(0, offset), "limit": min(max(0, limit), MAX_READ_BYTES)}
        found = await self._connections.write_again(lambda db: fetch_one(db, self._sql["use_arguments"], values))
        if found != (True,):
            return None
        rows = await self._connections.read(lambda db: fetch(db, self._sql["read_arguments"], values))
        return b"".join(data for _, data in rows)

    async def drop(self, seconds: float) -> None:
        """Remove what has not been put or read for so long."""
        values = {"seconds": seconds, "part_seconds": min(seconds, PART_SECONDS)}
        await self._connections.write_again(lambda db: execute(db, self._sql["drop_arguments"], values))


def _check(name: str) -> None:
    if NAME.fullmatch(name) is None:
        raise Refusal("bad_request", f"{name!r:.50} is not the name of arguments")
