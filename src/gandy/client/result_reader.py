"""Receives which function tasks of an open job began and how they ended, for their futures. Opens no pickle."""

import asyncio
from collections.abc import Callable

from gandy.client.answers import AnswerFeed
from gandy.client.connection import Connection, check, check_progress
from gandy.client.link import ClientLink
from gandy.client.output import OutputReader
from gandy.client.task_queue import TaskFuture, TaskQueue
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.requests import JobFound, ListResults, ResultRow, Results
from gandy.errors import GandyError, LinkError
from gandy.ids import JobId, TaskNumber


class ResultReader:
    """Reads results over one link after the other, and fetches large ones from the workers that have them."""

    def __init__(self, connection: Connection, queue: TaskQueue, on_answer: Callable[[], None]) -> None:
        """`on_answer` is called when a foreman knows the job."""
        self._connection = connection
        self._queue = queue
        self._on_answer = on_answer
        self._fetches: set[asyncio.Future[None]] = set()  # of large results, in progress

    async def read(self, link: ClientLink, job: JobId, feed: AnswerFeed, is_new: bool) -> None:
        """Read until the job has ended and every future has its result. Raises: LinkError, GandyError."""
        is_over = False
        while not is_over:
            answer = await feed.take()  # results may come before the answer to our request
            if isinstance(answer, JobFound):
                self._on_answer()
                if not is_new:
                    await self._catch_up(link, job)
                is_over = answer.row.state in FINAL_JOB_STATES
            else:
                is_over = self._on_results(job, check(answer, Results))
        await self._catch_up(link, job)
        await asyncio.gather(*self._fetches)

    def stop(self) -> None:
        for fetch in self._fetches:
            fetch.cancel()

    async def _catch_up(self, link: ClientLink, job: JobId) -> None:
        """Request the results that were recorded while there was no link."""
        after = TaskNumber(min(self._queue.list_waiting(), default=1) - 1)
        while self._queue.list_waiting():
            found = check(await link.ask(ListResults(job, after)), Results)
            self._on_ends(job, found.rows)
            if found.is_last or not found.rows:
                return
            check_progress(found.rows[-1].task > after)
            after = found.rows[-1].task

    def _on_results(self, job: JobId, results: Results) -> bool:
        """Handle results. True if they are the last."""
        for number in results.started:
            if (future := self._queue.find(number)) is not None:
                future.on_start()
        self._on_ends(job, results.rows)
        return results.is_last

    def _on_ends(self, job: JobId, rows: tuple[ResultRow, ...]) -> None:
        for row in rows:
            future = self._queue.pop(row.task)
            if future is not None and row.result_bytes:
                fetch = asyncio.ensure_future(self._fetch(job, row, future))
                self._fetches.add(fetch)
                fetch.add_done_callback(self._fetches.discard)
            elif future is not None:
                future.on_end(row)

    async def _fetch(self, job: JobId, row: ResultRow, future: TaskFuture) -> None:
        try:
            whole = await OutputReader(self._connection, job).fetch_result(row)
        except GandyError as error:
            future.on_failure(error)
        except asyncio.CancelledError:
            future.on_failure(LinkError("the client is closed; its worker keeps the value"))
            raise
        else:
            future.on_end(whole)
