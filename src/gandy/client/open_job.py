"""One open job of function tasks: submits it, adds tasks as functions are run, and ends with the last of them.

It outlives links and foremen: what was not confirmed is sent again, and results that were missed are requested.
"""

import asyncio
import logging
from concurrent.futures import CancelledError, Future
from threading import RLock
from typing import Any

from msgspec.structs import replace

from gandy.client.connection import Connection, check
from gandy.client.link import ClientLink
from gandy.client.repeats import draw_key, refusal_pauses, return_pauses
from gandy.client.result_reader import ResultReader
from gandy.client.retraction import TaskRetractor
from gandy.client.task_queue import TaskQueue, ThreadsafeEvent
from gandy.client.task_sender import ArgumentUploader, TaskSender
from gandy.core.model import JobSpec, JobState, TaskState
from gandy.core.requests import JobFound, ResultRow, ShowJob, Submit, Submitted, WatchResults
from gandy.errors import GandyError, JobClosed, JobMoved, LinkError, StoreError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_INPUT_BYTES

log = logging.getLogger("gandy.client")


class OpenJob:
    """Any thread may make and use one; its work is done on the loop."""

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop, spec: JobSpec) -> None:
        self.connection = connection
        self.loop = loop
        self._spec = spec
        self.id: Future[JobId] = Future()
        self.futures_lock = RLock()  # shared by the futures of its tasks
        wake = ThreadsafeEvent(loop)
        self.queue = TaskQueue(wake.set)
        self.retractor = TaskRetractor(self.queue, wake)
        self._uploader = ArgumentUploader()
        self._sender = TaskSender(self.queue, self.retractor, self._uploader, wake)
        self._results = ResultReader(connection, self.queue, self._reset_pauses)
        self._key = draw_key()
        self._is_submitted = False  # the request was sent; there may be no answer yet
        self._complaint = ""  # the foreman's last refusal that was logged
        self._reset_pauses()
        self.running = asyncio.run_coroutine_threadsafe(self._run(), loop)  # done when the futures get no more results

    @property
    def is_on_loop(self) -> bool:
        """True in the loop's thread, which must not wait for the job."""
        try:
            return asyncio.get_running_loop() is self.loop
        except RuntimeError:
            return False

    @property
    def number(self) -> JobId | None:
        """The job's number; None until the foreman has the job."""
        return self.id.result() if self.id.done() and self.id.exception() is None else None

    def name_task(self, number: int) -> str:
        """Name one of its tasks, for people."""
        return f"Task {number}" if self.number is None else f"Task {number} of job {self.number}"

    def on_cancelled(self) -> None:
        """The job was cancelled: accept no more tasks. The results of its tasks come later."""
        self.queue.refuse(CancelledError(f"job {self.number} was cancelled"))

    async def wait_closed(self) -> None:
        """Wait until every task has ended and no more can come, or the job is aborted."""
        await asyncio.wait({asyncio.wrap_future(self.running)})

    async def wait_sent(self) -> None:
        """Wait until the foreman has every task and knows that no more will come, or the job is aborted."""
        sent = asyncio.ensure_future(self._sender.wait_sent())
        either: set[asyncio.Future[Any]] = {sent, asyncio.wrap_future(self.running)}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sent.cancel()

    def abort(self) -> None:
        """Forget everything here. Tasks that the foreman has go on."""
        self.running.cancel()

    async def _run(self) -> None:
        try:
            while True:
                try:
                    await self._work(await self.connection.get_link())
                except LinkError:
                    await asyncio.sleep(next(self._pauses))
                except JobMoved:
                    await asyncio.sleep(next(self._moved_pauses))
                except GandyError as error:
                    if not error.retryable:
                        raise
                    self._log_complaint(error)
                    await asyncio.sleep(next(self._pauses))
                else:
                    # We closed it, and all tasks have ended; or it was cancelled, and later tasks are cancelled too.
                    self._end(CancelledError(f"job {self.id.result()} was cancelled"))
                    return
        except GandyError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._fail(LinkError("the client is closed; what the foreman has goes on"))
            raise
        except BaseException as error:
            # Otherwise the futures would wait for ever.
            self._fail(GandyError(f"the client broke: {type(error).__name__}: {error}"))
            raise

    def _reset_pauses(self) -> None:
        """The foreman answers: the next time that it goes away, the first pause is short again."""
        self._pauses, self._moved_pauses = return_pauses(), refusal_pauses()

    def _log_complaint(self, error: GandyError) -> None:
        """Log why tasks wait, once for each reason."""
        if str(error) != self._complaint:
            log.warning("tasks wait and will be sent again: %s", error)
        self._complaint = str(error)

    def _fail(self, error: GandyError) -> None:
        self._results.stop()
        futures = self.queue.clear(error)
        if not self.id.done():
            self.id.set_exception(error)
        for future in futures.values():
            future.on_failure(error)
        self.retractor.end()

    def _end(self, error: CancelledError) -> None:
        """The job is over: tasks that it does not have, or has no result for, were cancelled with it."""
        futures = self.queue.clear(error)
        for number, future in futures.items():
            future.on_end(ResultRow(TaskNumber(number), TaskState.CANCELLED))
        self.retractor.end(futures.keys())

    async def _work(self, link: ClientLink) -> None:
        """Send tasks and read results over one link, until the job has ended."""
        is_new = not self.id.done()
        if is_new:
            await self._submit(link)
        job = self.id.result()
        feed = link.follow(WatchResults(job))
        sending = asyncio.ensure_future(self._sender.send(link, job, feed))
        try:
            await self._results.read(link, job, feed, is_new)
            if self.queue.list_waiting():
                await self._check_cancelled(link, job)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)
            await self.retractor.stop()

    async def _submit(self, link: ClientLink) -> None:
        python = self._spec.python
        if python is not None and len(python.shared) > MAX_INPUT_BYTES:
            try:
                reference = await self._uploader.upload(link, python.shared)
            except StoreError as error:  # without the function no task can run, so this is final
                raise StoreError(str(error)) from None
            self._spec = replace(self._spec, python=replace(python, shared=reference))
        request = Submit(self._spec, key=self._key, again=self._is_submitted)
        self._is_submitted = True
        self.id.set_result(check(await link.ask(request), Submitted).job)

    async def _check_cancelled(self, link: ClientLink, job: JobId) -> None:
        """The job is over, and some tasks have no result. Raises: JobClosed, unless it was cancelled."""
        row = check(await link.ask(ShowJob(job)), JobFound).row
        if row.state is not JobState.CANCELLED:
            raise JobClosed(f"job {job} was closed while this client was away, and does not have this task")
