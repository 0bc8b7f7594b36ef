"""The verbs of calls, for clients: `call`, `cast`, `stream` and `call_all`."""

import asyncio
from typing import Any, NamedTuple, Protocol, Unpack

from gandy.client.caller import Caller, CallOptions
from gandy.client.pending import CallStream
from gandy.core.requests import WorkerRow
from gandy.errors import UnknownCommand


class Reply(NamedTuple):
    """What one of several workers said."""

    worker: str
    value: Any
    error: BaseException | None = None

    def get(self) -> Any:
        """The value. Raises: what the call raised."""
        if self.error is not None:
            raise self.error
        return self.value


class Crew(Protocol):
    """What the verbs need of a client."""

    caller: Caller

    async def workers(self) -> tuple[WorkerRow, ...]: ...


class AsyncCalls:
    """Calls of commands that workers have installed."""

    def call(self: Crew, name: str, /, *args: Any, **options: Unpack[CallOptions]) -> asyncio.Future[Any]:
        """The value of a command; await it. To cancel it is to cancel the call.

        Raises: CallFailed, with what the command raised; UnknownCommand, WorkerLost, Busy, CallTimeout, NoClock;
        LinkError; TypeError, ValueError, NotPicklable, where the arguments cannot be sent.
        """
        return self.caller.call(name, args, options)

    async def cast(self: Crew, name: str, /, *args: Any, pickle: bool = False, at: float | None = None) -> None:
        """Have a command run, and never hear of it. It still takes a slot. Raises: LinkError."""
        await self.caller.cast(name, args, {"pickle": pickle, "at": at})

    def stream(self: Crew, name: str, /, *args: Any, **options: Unpack[CallOptions]) -> CallStream:
        """The values of a command as they come; `async for` them. Whoever stops early should `aclose` it.

        Raises, after the values before it: what `call` raises.
        """
        return self.caller.stream(name, args, options)

    async def call_all(self: Crew, name: str, /, *args: Any, **options: Unpack[CallOptions]) -> list[Reply]:
        """What every worker that offers the command says, in the order of their names. Raises: UnknownCommand.

        With `at` it begins everywhere at this shared time; a worker that does not know it replies with NoClock.
        """
        rows = [row for row in await self.workers() if name in row.commands]
        if not rows:
            raise UnknownCommand(f"no worker offers the command {name}")
        calls = [self.caller.call(name, args, options, row.id) for row in rows]
        try:
            return [await _wait(row.name, call) for row, call in zip(rows, calls, strict=True)]
        finally:
            for call in calls:
                call.cancel()


async def _wait(worker: str, call: asyncio.Future[Any]) -> Reply:
    try:
        return Reply(worker, await call)
    except Exception as error:  # noqa: BLE001 - with pickles, commands may raise anything
        return Reply(worker, None, error)
