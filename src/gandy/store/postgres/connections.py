"""The few connections of a foreman to its database: made when they are needed, and shared by its shards.

No session state is kept, so that each transaction may run on another server connection, as behind PgBouncer.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any, Final, TypeVar

import psycopg
from psycopg.abc import Buffer
from psycopg.adapt import Dumper
from psycopg.conninfo import conninfo_to_dict
from psycopg.pq import Format, TransactionStatus
from psycopg.waiting import wait_async

from gandy.errors import StoreError
from gandy.store.postgres.arrays import PACKED, PackedArray
from gandy.store.postgres.explain import Disconnected, explain_no_connection, explained
from gandy.store.postgres.url import DatabaseUrl

T = TypeVar("T")
Values = Mapping[str, object]

# One for reads, so that a long list holds up no commit; and two for writes, so that two shards can commit at once.
READERS: Final = 1
WRITERS: Final = 2

# For libpq, unless the URL says otherwise. A server that is silently gone is noticed within about ten seconds, and a
# standby is not taken for the primary.
DEFAULTS: Final = {
    "application_name": "gandy",
    "connect_timeout": "5",
    "keepalives_idle": "5",
    "keepalives_interval": "2",
    "keepalives_count": "3",
    "tcp_user_timeout": "10000",
    "target_session_attrs": "read-write",
}

SLICE: Final = 1_000  # rows that are converted at once: a few milliseconds

WAKING_PERIOD: Final = 0.1  # seconds, as in the driver: without one, it asks all the time whether the answer is there

STANDBY_WAIT: Final = "SyncRepWaitForLSN"  # of the server; it warns if the wait is cancelled, in the user's language

BEGIN_READ: Final = "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY"


class _PackedDumper(Dumper):
    """Sends an array that is packed already."""

    format = Format.BINARY

    def dump(self, obj: PackedArray) -> Buffer:
        return obj


def _make_dumper(kind: type[PackedArray]) -> type[Dumper]:
    return type(f"{kind.__name__}Dumper", (_PackedDumper,), {"oid": kind.oid})


_DUMPERS: Final = {kind: _make_dumper(kind) for kind in PACKED}


class StoreConnection(psycopg.AsyncConnection[tuple[Any, ...]]):
    """One of the driver that leaves a cancelled statement at once, and that notices what is not on the standby."""

    is_unconfirmed = False  # the server has committed, and has stopped to wait for its synchronous standby

    async def wait(self, gen: Any, interval: float = WAKING_PERIOD, timeout: float | None = None) -> Any:
        """As in the driver, but the server is not asked to cancel the statement: that would take time, and it would end
        the wait of a commit for the standby. A connection that was left so is closed."""
        return await wait_async(gen, self.pgconn.socket, interval, timeout)

    def on_notice(self, notice: psycopg.errors.Diagnostic) -> None:
        if notice.source_function == STANDBY_WAIT:
            self.is_unconfirmed = True


class DatabaseConnections:
    """Connects again by itself. A connection that has a problem is closed, and never used again."""

    def __init__(self, url: DatabaseUrl) -> None:
        self.url = url
        self._free: list[StoreConnection] = []
        self._reading = asyncio.Semaphore(READERS)
        self._writing = asyncio.Semaphore(WRITERS)
        self._is_closed = True

    def open(self) -> None:
        """Connections are made when they are needed."""
        self._is_closed = False

    async def close(self) -> None:
        self._is_closed = True
        while self._free:
            await self._free.pop().close()

    async def read(self, do: Callable[[StoreConnection], Awaitable[T]]) -> T:
        """Read, again if the connection turned out to be broken. Raises: StoreError."""
        for _ in range(READERS + WRITERS):  # each may have broken since it was used
            with suppress(Disconnected):
                return await self._read_once(do)
        return await self._read_once(do)

    async def _read_once(self, do: Callable[[StoreConnection], Awaitable[T]]) -> T:
        async with self._reading, self._borrowed() as db:
            with explained(self.url):
                return await do(db)

    async def snapshot(self, do: Callable[[StoreConnection], Awaitable[T]]) -> T:
        """Several reads that see one state of the database. Raises: StoreError."""

        async def work(db: StoreConnection) -> T:
            await db.execute("SET LOCAL jit = off")  # compiling a statement takes longer than any of ours
            return await do(db)

        return await self.read(lambda db: _transact(db, BEGIN_READ, work))

    async def write(self, do: Callable[[StoreConnection], Awaitable[T]]) -> T:
        """Write, once. Raises: Disconnected, if it is not known whether it was done; StoreError."""
        async with self._writing, self._borrowed() as db:
            with explained(self.url):
                done = await do(db)
            if db.is_unconfirmed:
                raise Disconnected(f"{self.url}: a user ended the wait of a commit for its standby", retryable=True)
            return done

    async def write_again(self, do: Callable[[StoreConnection], Awaitable[T]]) -> T:
        """Write what may be done twice, again if the connection turned out to be broken. Raises: StoreError."""
        for _ in range(READERS + WRITERS):
            with suppress(Disconnected):
                return await self.write(do)
        return await self.write(do)

    async def transact(self, do: Callable[[StoreConnection], Awaitable[T]]) -> T:
        """Several statements, all or none. Raises: as `write`."""
        return await self.write(lambda db: _transact(db, "BEGIN", do))

    @asynccontextmanager
    async def _borrowed(self) -> AsyncIterator[StoreConnection]:
        db = self._free.pop() if self._free else await self._connect()
        try:
            yield db
        finally:
            is_usable = db.info.transaction_status is TransactionStatus.IDLE and not db.is_unconfirmed
            if is_usable and not self._is_closed:
                self._free.append(db)
            else:
                await db.close()

    async def _connect(self) -> StoreConnection:
        """Raises: StoreError. Never Disconnected: nothing was sent."""
        if self._is_closed:
            raise StoreError(f"{self.url}: not open")
        try:
            with explained(self.url):
                given = conninfo_to_dict(self.url.conninfo)
                more = {name: value for name, value in DEFAULTS.items() if name not in given}
                db = await StoreConnection.connect(
                    self.url.conninfo,
                    autocommit=True,
                    prepare_threshold=None,  # behind PgBouncer, the next statement may meet another server process
                    **more,  # type: ignore[arg-type]  # these are parameters of libpq, all of them texts
                )
        except Disconnected as error:
            raise explain_no_connection(error) from None
        except psycopg.ProgrammingError:
            raise StoreError(f"{self.url}: libpq cannot read this URL") from None
        db.add_notice_handler(db.on_notice)
        for kind, dumper in _DUMPERS.items():
            db.adapters.register_dumper(kind, dumper)
        return db


async def _transact(db: StoreConnection, begin: str, do: Callable[[StoreConnection], Awaitable[T]]) -> T:
    """All statements of a transaction. If one fails, the connection stays usable: on a full disk there is no other."""
    await db.execute(begin)
    try:
        done = await do(db)
    except psycopg.Error:
        if db.info.transaction_status is TransactionStatus.INERROR:
            await db.execute("ROLLBACK")
        raise
    await db.execute("COMMIT")
    return done


async def fetch(db: StoreConnection, statement: str, values: Values | None = None) -> list[tuple[Any, ...]]:
    """All rows of a statement. Many are converted in slices, so that they do not hold up the foreman."""
    async with db.cursor(binary=True) as cursor:
        await cursor.execute(statement, values)
        rows = more = await cursor.fetchmany(SLICE)
        while len(more) == SLICE:
            await asyncio.sleep(0)
            more = await cursor.fetchmany(SLICE)
            rows += more
        return rows


async def fetch_one(db: StoreConnection, statement: str, values: Values | None = None) -> tuple[Any, ...] | None:
    rows = await fetch(db, statement, values)
    return rows[0] if rows else None


async def execute(db: StoreConnection, statement: str, values: Values | None = None) -> int:
    """Returns the number of rows that it changed."""
    cursor = await db.execute(statement, values)
    return cursor.rowcount
