"""Reads the output of tasks and large results, in pieces, from the workers that keep them."""

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

from msgspec.structs import replace

from gandy.client.connection import Connection, check_progress
from gandy.client.repeats import growing, return_pauses
from gandy.clocks import read_monotonic
from gandy.core.requests import Output, OutputPage, ReadOutput, ReadOutputs, ResultRow, TaskOutput
from gandy.errors import ConfigError, GandyError, JobMoved, LinkError, TaskFailed
from gandy.ids import JobId, TaskNumber

# Seconds before output that has not grown is read again: the first pause, and the longest.
OUTPUT_PAUSES: Final = (0.05, 1.0)

# Bytes of a large result in one request.
RESULT_PIECE: Final = 1 << 20

# Seconds for which a worker may be away while a large result is read from it.
RESULT_PATIENCE: Final = 30.0


class OutputReader:
    """Reads the output of one job."""

    def __init__(self, connection: Connection, job: JobId) -> None:
        self._connection = connection
        self._job = job

    async def read(self, task: int, stream: str, follow: bool) -> AsyncGenerator[bytes, None]:
        """Read what the last attempt at a task wrote, piece by piece. With `follow`, until the attempt has ended."""
        _check_stream(stream)
        attempt = offset = 0
        pauses = growing(*OUTPUT_PAUSES)
        while True:
            piece = await self._ask(ReadOutput(self._job, TaskNumber(task), stream, attempt, offset), follow)
            if piece.data:
                pauses = growing(*OUTPUT_PAUSES)
                yield piece.data
            attempt, offset = piece.attempt, offset + len(piece.data)
            if piece.is_last or not (piece.data or follow):
                return
            if not piece.data:
                await asyncio.sleep(next(pauses))

    async def read_all(self, stream: str) -> AsyncGenerator[Sequence[TaskOutput], None]:
        """Read what the last attempts at all tasks wrote, many tasks at a time."""
        _check_stream(stream)
        after, is_last = TaskNumber(0), False
        while not is_last:
            page = await self._connection.ask(ReadOutputs(self._job, stream, after), OutputPage)
            begin = 0
            for end, row in enumerate(page.rows, 1):
                if not row.is_whole and not row.problem:
                    yield page.rows[begin:end]
                    begin = end
                    async for piece in self._read_rest(row, stream):
                        yield [piece]
            yield page.rows[begin:]
            check_progress(page.is_last or page.after > after)
            after, is_last = page.after, page.is_last

    async def _read_rest(self, row: TaskOutput, stream: str) -> AsyncGenerator[TaskOutput, None]:
        """Read the rest of an output that did not fit the page, up to its current end."""
        offset, is_last = len(row.data), False
        while not is_last:
            request = ReadOutput(self._job, row.task, stream, row.attempt, offset, RESULT_PIECE)
            try:
                piece = await self._connection.ask(request, Output)
            except LinkError:
                raise
            except GandyError as error:
                yield replace(row, data=b"", problem=str(error))
                return
            if piece.data:
                yield replace(row, data=piece.data)
            offset, is_last = offset + len(piece.data), piece.is_last or not piece.data

    async def fetch_result(self, row: ResultRow) -> ResultRow:
        """Return the row with its result, which is fetched if it was too large. Waits for a foreman that is away.

        Raises: TaskFailed, GandyError.
        """
        result = bytearray()
        deadline = read_monotonic() + RESULT_PATIENCE
        while len(result) < row.result_bytes:
            request = ReadOutput(self._job, row.task, "result", row.attempt, len(result), RESULT_PIECE)
            try:
                piece = await self._ask(request, follow=True)
            except GandyError as error:
                if not error.retryable or read_monotonic() > deadline:
                    raise
                await asyncio.sleep(next(return_pauses()))  # its worker may be on its way back to a new foreman
                continue
            if not piece.data:
                raise TaskFailed(f"task {row.task}: its value of {row.result_bytes:,} bytes is no longer kept")
            result += piece.data
        return replace(row, result=bytes(result)) if result else row

    async def _ask(self, request: ReadOutput, follow: bool) -> Output:
        pauses = return_pauses()
        while True:
            try:
                return await self._connection.ask(request, Output)
            except (LinkError, JobMoved):
                if not follow:
                    raise
                await asyncio.sleep(next(pauses))


def _check_stream(stream: str) -> None:
    if stream not in ("out", "err"):
        raise ConfigError(f"a task has the streams 'out' and 'err', not {stream!r}")
