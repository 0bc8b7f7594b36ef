"""Calls a command on every worker that offers it."""

import asyncio
from typing import Any, NamedTuple

from gandy.client.caller import Caller
from gandy.client.options import CallOptions
from gandy.core.requests import WorkerRow
from gandy.errors import UnknownCommand


class WorkerReply(NamedTuple):
    """The answer of one of several workers."""

    worker: str
    value: Any
    error: BaseException | None = None

    def get(self) -> Any:
        """Return the value. Raises: what the call raised."""
        if self.error is not None:
            raise self.error
        return self.value


async def call_workers(
    caller: Caller, workers: tuple[WorkerRow, ...], name: str, args: tuple[Any, ...], options: CallOptions
) -> list[WorkerReply]:
    """Raises: UnknownCommand."""
    rows = [row for row in workers if name in row.commands]
    if not rows:
        raise UnknownCommand(f"no worker offers the command {name}")
    calls = [caller.call(name, args, options, row.id) for row in rows]
    try:
        return [await _wait(row.name, call) for row, call in zip(rows, calls, strict=True)]
    finally:
        for call in calls:
            call.cancel()


async def _wait(worker: str, call: asyncio.Future[Any]) -> WorkerReply:
    try:
        return WorkerReply(worker, await call)
    except Exception as error:  # noqa: BLE001 - with pickles, commands may raise anything
        return WorkerReply(worker, None, error)
