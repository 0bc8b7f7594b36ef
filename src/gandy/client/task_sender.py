"""Sends the function tasks of one open job over a link, in batches, after uploading large arguments in pieces."""

import asyncio
import secrets
from contextlib import suppress
from typing import Final

from gandy.client.answers import AnswerFeed
from gandy.client.connection import check
from gandy.client.link import ClientLink
from gandy.client.retraction import TaskRetractor
from gandy.client.task_queue import TaskQueue, ThreadsafeEvent
from gandy.core.extensions import make_reference
from gandy.core.requests import AddTasks, CancelJob, CloseJob, Done, PutArguments
from gandy.errors import GandyError, JobClosed, Rejected, StoreError
from gandy.ids import JobId, TaskNumber

PIECE_BYTES: Final = 4 << 20  # of large arguments, in one request


class ArgumentUploader:
    """Uploads large arguments to the foreman, one after the other."""

    def __init__(self) -> None:
        self._name = ""  # of what is being uploaded; kept when the link breaks

    async def upload(self, link: ClientLink, data: bytes) -> bytes:
        """Upload data, and return a reference to it. After a LinkError, call it again with the same data.

        Raises: LinkError, StoreError, Rejected.
        """
        name = self._name = self._name or secrets.token_hex(16)
        try:
            for offset in range(0, len(data), PIECE_BYTES):
                piece = data[offset : offset + PIECE_BYTES]
                is_last = offset + PIECE_BYTES >= len(data)
                check(await link.ask(PutArguments(name, offset, piece, is_last)), Done)
        except (StoreError, Rejected):
            self._name = ""
            raise
        self._name = ""
        return make_reference(name)


class TaskSender:
    """Empties the queue over one link after the other."""

    def __init__(
        self, queue: TaskQueue, retractor: TaskRetractor, uploader: ArgumentUploader, wake: ThreadsafeEvent
    ) -> None:
        self._queue = queue
        self._retractor = retractor
        self._uploader = uploader
        self._wake = wake
        self._is_closed = asyncio.Event()  # the foreman has every task, and knows that no more will come
        self._has_confirmed = asyncio.Event()  # the foreman has cancelled something

    async def wait_sent(self) -> None:
        """Wait until the foreman has every task, knows that no more will come, and has cancelled what was cancelled."""
        await self._is_closed.wait()
        while self._queue.get_cancelled():
            self._has_confirmed.clear()
            await self._has_confirmed.wait()

    async def send(self, link: ClientLink, job: JobId, feed: AnswerFeed) -> None:
        """Send tasks as they are added. Errors are raised where the feed is read."""
        try:
            await self._send(link, job)
        except JobClosed:
            pass  # the feed is about to report the end of the job
        except GandyError as error:
            feed.fail(error)

    async def _send(self, link: ClientLink, job: JobId) -> None:
        queue, is_closed = self._queue, False
        while True:
            self._wake.clear()
            await self._upload_next(link)
            self._retractor.send(link, job)
            if batch := queue.get_batch():
                check(await link.ask(AddTasks(job, TaskNumber(queue.first_unsent), batch)), Done)
                queue.confirm_batch(batch)
            elif cancelled := queue.get_cancelled():
                with suppress(Rejected):  # the job is over
                    await link.ask(CancelJob(job, cancelled))
                queue.confirm_cancelled(cancelled)
                self._has_confirmed.set()
            elif queue.is_closed and not is_closed and not self._retractor.has_waiting:
                check(await link.ask(CloseJob(job)), Done)
                is_closed = True
                self._is_closed.set()
            else:
                await self._wake.wait()

    async def _upload_next(self, link: ClientLink) -> None:
        task = self._queue.find_large()
        if task is None:
            return
        try:
            reference = await self._uploader.upload(link, task)
        except (StoreError, Rejected) as error:
            self._queue.fail_next(error)
        else:
            self._queue.replace_next(reference)
