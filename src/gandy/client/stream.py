"""Calls of Python functions as tasks of an open job: sent in batches, and what became of them handed out as it comes.

It outlives links and foremen: what has no answer is sent again, and what was missed is asked for. It opens no pickle.
"""

import asyncio
import secrets
from collections import deque
from concurrent.futures import Future
from contextlib import suppress
from itertools import islice
from threading import Lock, RLock
from typing import Any, Final, Protocol

from msgspec.structs import replace

from gandy.client.aio import RETURN_PAUSES, AsyncClient, check, growing
from gandy.client.link import Feed, Link
from gandy.core.extensions import make_reference
from gandy.core.jobs import FINAL_JOB_STATES
from gandy.core.model import JobSpec
from gandy.core.requests import (
    AddTasks,
    CancelJob,
    CloseJob,
    Done,
    JobFound,
    ListResults,
    PutArguments,
    ResultRow,
    Results,
    Submit,
    Submitted,
    WatchResults,
)
from gandy.errors import GandyError, LinkError, Rejected
from gandy.ids import JobId, TaskNumber

MAX_PART: Final = 1_000  # calls in one request
MAX_CALL_BYTES: Final = 262_144  # of a call in a request; larger ones are put apart
PIECE_BYTES: Final = 4 << 20  # of those, in one request
MAX_PART_BYTES: Final = 4_000_000  # of calls in one request, unless a single one has more


class Caller(Protocol):
    """Who waits for one call. Everything is told on the loop."""

    number: int  # of the call in its job; the stream sets it

    def cancel(self) -> bool: ...

    def on_start(self) -> None: ...

    def on_end(self, row: ResultRow) -> None: ...

    def on_failure(self, error: GandyError) -> None:
        """Nothing more will be told: the foreman refuses the job, somebody cancelled it, or the client is closed."""


class CallStream:
    """One open job, made and used from any thread; its work is done on the loop."""

    def __init__(self, client: AsyncClient, loop: asyncio.AbstractEventLoop, spec: JobSpec) -> None:
        self._client = client
        self._loop = loop
        self._spec = spec
        self.job: Future[JobId] = Future()
        self._lock = Lock()
        self._calls: deque[bytes] = deque()  # that the foreman does not have for sure, oldest first
        self._first = 1  # the number of the first of these
        self._callers: dict[int, Caller] = {}  # of calls that have not ended
        self.callers_lock = RLock()  # for them to use
        self._cancelled: list[TaskNumber] = []  # that the foreman is still to be told of
        self._error: GandyError | None = None  # why nothing more is taken
        self._is_closing = False
        self._is_waking = False
        self._fetches: set[asyncio.Future[None]] = set()  # of large results
        self._wake = asyncio.Event()
        self._sent = asyncio.Event()  # all calls, and that there are no more
        self.running = asyncio.run_coroutine_threadsafe(self._run(), loop)  # done when nothing more will be told

    def add(self, call: bytes, caller: Caller) -> None:
        """Queue a call.

        Raises: RuntimeError after `close`; what `on_failure` was told, after that.
        """
        with self._lock:
            if self._error is not None:
                raise self._error
            if self._is_closing:
                raise RuntimeError("cannot schedule new futures after shutdown")
            caller.number = self._first + len(self._calls)
            self._calls.append(call)
            self._callers[caller.number] = caller
        self._wake_up()

    def cancel(self, number: int) -> bool:
        """Nobody waits for this call any more: it is not started, or killed. False if its end was told already."""
        with self._lock:
            if self._callers.pop(number, None) is None:
                return False
            self._cancelled.append(TaskNumber(number))
        self._wake_up()
        return True

    def cancel_waiting(self) -> None:
        """Cancel every call that has not begun, as far as we know."""
        for caller in list(self._callers.values()):
            caller.cancel()

    @property
    def is_over(self) -> bool:
        return self.running.done()

    @property
    def takes_calls(self) -> bool:
        return self._error is None and not self._is_closing

    @property
    def unsent(self) -> int:
        """How many calls the foreman may not have."""
        return len(self._calls)

    def close(self) -> None:
        """No more calls will be added. The job ends with its last one."""
        with self._lock:
            self._is_closing = True
        self._wake_up()

    async def wait_closed(self) -> None:
        """Until every call has ended and no more can come, or nothing more will be told."""
        await asyncio.wait({asyncio.wrap_future(self.running)})

    async def wait_sent(self) -> None:
        """Until the foreman has every call and knows that no more will come, or nothing more will be told."""
        sent = asyncio.ensure_future(self._sent.wait())
        either: set[asyncio.Future[Any]] = {sent, asyncio.wrap_future(self.running)}
        try:
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            sent.cancel()

    def abort(self) -> None:
        """Forget everything here. What the foreman has goes on."""
        self.running.cancel()

    def _wake_up(self) -> None:
        if not self._is_waking:  # a wake-up costs more than the rest of `add`
            self._is_waking = True
            with suppress(RuntimeError):  # the loop is closed, and everybody was told so
                self._loop.call_soon_threadsafe(self._wake.set)

    async def _run(self) -> None:
        pauses = growing(*RETURN_PAUSES)
        try:
            while True:
                try:
                    await self._serve(await self._client.get_link())
                except LinkError:
                    await asyncio.sleep(next(pauses))
                except GandyError as error:
                    if not error.retryable:
                        raise
                    await asyncio.sleep(next(pauses))
                else:
                    # Closed by us, and all have ended; or cancelled by somebody, and no call may come too late.
                    self._fail(Rejected(f"job {self.job.result()} was cancelled"))
                    return
        except GandyError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._fail(LinkError("the client is closed; what the foreman has goes on"))
            raise
        except BaseException as error:
            self._fail(GandyError(f"the client broke: {type(error).__name__}: {error}"))  # nobody may wait for ever
            raise

    def _fail(self, error: GandyError) -> None:
        for fetching in self._fetches:
            fetching.cancel()
        with self._lock:
            self._error = error
            callers, self._callers = self._callers, {}
            self._calls.clear()
        if not self.job.done():
            self.job.set_exception(error)
        for caller in callers.values():
            caller.on_failure(error)

    async def _serve(self, link: Link) -> None:
        """Over one link, until the job is final."""
        is_new = not self.job.done()
        if is_new:
            await self._shrink_shared(link)
            self.job.set_result(check(await link.ask(Submit(self._spec)), Submitted).job)
        feed = link.feed(WatchResults(self.job.result()))
        sending = asyncio.ensure_future(self._send(link, feed))
        try:
            is_over = False
            while not is_over:
                answer = await feed.take()  # the first news may come before the answer to our request
                if isinstance(answer, JobFound):
                    if not is_new:
                        await self._catch_up(link)
                    is_over = answer.row.state in FINAL_JOB_STATES
                else:
                    is_over = self._hear(check(answer, Results))
            await self._catch_up(link)
            await asyncio.gather(*self._fetches)
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _catch_up(self, link: Link) -> None:
        """Ask for what ended while nobody told us."""
        after = TaskNumber(min(self._callers, default=1) - 1)
        while self._callers:
            found = check(await link.ask(ListResults(self.job.result(), after)), Results)
            self._tell(found.rows)
            if found.is_last or not found.rows:
                return
            after = found.rows[-1].task

    def _hear(self, results: Results) -> bool:
        """What started and what ended. Gives whether there will be no more."""
        for number in results.started:
            if (caller := self._callers.get(number)) is not None:
                caller.on_start()
        self._tell(results.rows)
        return results.is_last

    def _tell(self, rows: tuple[ResultRow, ...]) -> None:
        for row in rows:
            with self._lock:
                caller = self._callers.pop(row.task, None)
            if caller is not None and row.result_bytes:
                fetching = asyncio.ensure_future(self._fetch(row, caller))
                self._fetches.add(fetching)
                fetching.add_done_callback(self._fetches.discard)
            elif caller is not None:
                caller.on_end(row)

    async def _fetch(self, row: ResultRow, caller: Caller) -> None:
        """A large result comes in pieces, while others go on."""
        try:
            whole = await self._client.job(self.job.result()).fetch_result(row)
        except GandyError as error:
            caller.on_failure(error)
        except asyncio.CancelledError:
            caller.on_failure(LinkError("the client is closed; its worker keeps the value"))
            raise
        else:
            caller.on_end(whole)

    async def _send(self, link: Link, feed: Feed) -> None:
        """Calls as they come, many at a time, until something is wrong: then whoever reads the feed learns it."""
        try:
            await self._send_calls(link)
        except GandyError as error:
            feed.fail(error)

    async def _send_calls(self, link: Link) -> None:
        job = self.job.result()
        is_closed = False
        while True:
            self._is_waking = False
            self._wake.clear()
            await self._shrink_calls(link)
            part = self._choose_part()
            if part:
                check(await link.ask(AddTasks(job, TaskNumber(self._first), part)), Done)
                with self._lock:
                    for _ in part:
                        self._calls.popleft()
                    self._first += len(part)
            elif self._cancelled:
                cancelled = tuple(self._cancelled)
                with suppress(Rejected):  # the job is over
                    await link.ask(CancelJob(job, cancelled))
                with self._lock:
                    del self._cancelled[: len(cancelled)]
            elif self._is_closing and not is_closed:
                check(await link.ask(CloseJob(job)), Done)
                is_closed = True
                self._sent.set()
            else:
                await self._wake.wait()

    async def _shrink_shared(self, link: Link) -> None:
        python = self._spec.python
        if python is not None and len(python.shared) > MAX_CALL_BYTES:
            reference = await _put(link, python.shared)
            self._spec = replace(self._spec, python=replace(python, shared=reference))

    async def _shrink_calls(self, link: Link) -> None:
        """Put the next call apart, in pieces, if it is too large for a request, and leave a reference in its place."""
        if self._calls and len(self._calls[0]) > MAX_CALL_BYTES:
            reference = await _put(link, self._calls[0])
            with self._lock:
                if self._calls:  # it may have failed meanwhile
                    self._calls[0] = reference

    def _choose_part(self) -> tuple[bytes, ...]:
        size = 0
        part: list[bytes] = []
        with self._lock:
            for call in islice(self._calls, MAX_PART):
                size += len(call)
                if part and (size > MAX_PART_BYTES or len(call) > MAX_CALL_BYTES):
                    break
                part.append(call)
        return tuple(part)


async def _put(link: Link, data: bytes) -> bytes:
    """Put large arguments where workers find them. Gives a reference to them."""
    name = secrets.token_hex(16)
    for offset in range(0, len(data), PIECE_BYTES):
        piece = data[offset : offset + PIECE_BYTES]
        is_last = offset + PIECE_BYTES >= len(data)
        check(await link.ask(PutArguments(name, offset, piece, is_last)), Done)
    return make_reference(name)
