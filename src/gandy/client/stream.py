"""Calls of Python functions as tasks of an open job: sent in batches, and what became of them handed out as it comes.

It outlives links and foremen: what has no answer is sent again, and what was missed is asked for. It opens no pickle.
"""

import asyncio
import logging
import secrets
from collections import deque
from collections.abc import Iterable
from concurrent.futures import CancelledError, Future
from contextlib import suppress
from itertools import islice
from threading import Lock, RLock
from typing import Any, Final, NamedTuple, Protocol

from msgspec.structs import replace

from gandy.client.aio import RETURN_PAUSES, AsyncClient, check, check_progress, growing
from gandy.client.link import Feed, Link
from gandy.core.extensions import make_reference
from gandy.core.jobs import FINAL_JOB_STATES
from gandy.core.model import JobSpec, JobState, TaskState
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
    Retracted,
    RetractTasks,
    ShowJob,
    Submit,
    Submitted,
    WatchResults,
)
from gandy.errors import GandyError, JobClosed, LinkError, Rejected, StoreError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_RETRACTED

log = logging.getLogger("gandy.client")

MAX_PART: Final = 1_000  # calls in one request
MAX_CALL_BYTES: Final = 262_144  # of a call in a request; larger ones are put apart
PIECE_BYTES: Final = 4 << 20  # of those, in one request
MAX_PART_BYTES: Final = 4_000_000  # of calls in one request, unless a single one has more


class Caller(Protocol):
    """Who waits for one call. Everything is told on the loop."""

    number: int  # of the call in its job; the stream sets it

    def on_start(self) -> None: ...

    def on_end(self, row: ResultRow) -> None: ...

    def on_failure(self, error: GandyError) -> None:
        """Nothing more will be told: the foreman refuses the job, or the client is closed."""


class Retraction(NamedTuple):
    """Calls that are wanted back, and who waits to hear which of them never began."""

    tasks: tuple[TaskNumber, ...]
    answer: Future[frozenset[int]]


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
        self._retractions: list[Retraction] = []  # that it is still to be asked for
        self._error: Exception | None = None  # why nothing more is taken
        self._is_closing = False
        self._is_waking = False
        self._fetches: set[asyncio.Future[None]] = set()  # of large results
        self._complaint = ""  # of the foreman, that the user was told last
        self._blob = ""  # the name of the large call that is being put apart, the same at each try
        self._retracting: set[asyncio.Future[None]] = set()  # requests that are under way
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

    def retract(self, numbers: Iterable[int]) -> Future[frozenset[int]]:
        """Cancel those of the calls that have not begun. The future tells which; their callers hear it before."""
        tasks = tuple(map(TaskNumber, numbers))
        answer: Future[frozenset[int]] = Future()
        with self._lock:
            if self._error is None:
                self._retractions.append(Retraction(tasks, answer))
            else:
                answer.set_result(frozenset())
        self._wake_up()
        return answer

    def cancel_waiting(self) -> Future[frozenset[int]]:
        """Cancel every call that has not begun."""
        with self._lock:
            numbers = list(self._callers)
        return self.retract(numbers)

    @property
    def is_on_loop(self) -> bool:
        """Whether the caller's thread is the loop's, which must not wait for it."""
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:
            return False

    @property
    def number(self) -> JobId | None:
        """The job's, once the foreman has it."""
        return self.job.result() if self.job.done() and self.job.exception() is None else None

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

    def on_job_cancelled(self) -> None:
        """Take no more calls. The end of those that the job has comes later."""
        with self._lock:
            self._error = self._error or CancelledError(f"job {self.number} was cancelled")

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
                    self._complain(error)
                    await asyncio.sleep(next(pauses))
                else:
                    # Closed by us, and all have ended; or cancelled, and no call may come too late.
                    self._end(CancelledError(f"job {self.job.result()} was cancelled"))
                    return
        except GandyError as error:
            self._fail(error)
        except asyncio.CancelledError:
            self._fail(LinkError("the client is closed; what the foreman has goes on"))
            raise
        except BaseException as error:
            self._fail(GandyError(f"the client broke: {type(error).__name__}: {error}"))  # nobody may wait for ever
            raise

    def _complain(self, error: GandyError) -> None:
        """Calls wait, and the user should know why."""
        if str(error) != self._complaint:
            log.warning("calls wait, and are sent again: %s", error)
        self._complaint = str(error)

    def _fail(self, error: GandyError) -> None:
        for fetching in self._fetches:
            fetching.cancel()
        callers, retractions = self._stop_taking(error)
        if not self.job.done():
            self.job.set_exception(error)
        for caller in callers.values():
            caller.on_failure(error)
        for retraction in retractions:
            retraction.answer.set_result(frozenset())

    def _end(self, error: CancelledError) -> None:
        """The job is over: calls that it does not know, or whose end it does not tell, were cancelled with it."""
        callers, retractions = self._stop_taking(error)
        for number, caller in callers.items():
            caller.on_end(ResultRow(TaskNumber(number), TaskState.CANCELLED))
        for retraction in retractions:
            retraction.answer.set_result(frozenset(retraction.tasks) & callers.keys())

    def _stop_taking(self, error: Exception) -> tuple[dict[int, Caller], list[Retraction]]:
        with self._lock:
            self._error = error
            callers, self._callers = self._callers, {}
            retractions, self._retractions = self._retractions, []
            self._calls.clear()
        return callers, retractions

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
            if self._callers:
                await self._check_cancelled(link)
        finally:
            for work in (sending, *self._retracting):
                work.cancel()
            await asyncio.gather(sending, *self._retracting, return_exceptions=True)

    async def _catch_up(self, link: Link) -> None:
        """Ask for what ended while nobody told us."""
        after = TaskNumber(min(self._callers, default=1) - 1)
        while self._callers:
            found = check(await link.ask(ListResults(self.job.result(), after)), Results)
            self._tell(found.rows)
            if found.is_last or not found.rows:
                return
            check_progress(found.rows[-1].task > after)
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
        except JobClosed:
            pass  # the feed is about to tell the end of the job
        except GandyError as error:
            feed.fail(error)

    async def _check_cancelled(self, link: Link) -> None:
        """The job is over, and has not told the end of all calls. Raises: JobClosed, unless it was cancelled."""
        job = self.job.result()
        row = check(await link.ask(ShowJob(job)), JobFound).row
        if row.state is not JobState.CANCELLED:
            raise JobClosed(f"job {job} was closed while this client was away, and does not have this call")

    async def _send_calls(self, link: Link) -> None:
        job = self.job.result()
        is_closed = False
        while True:
            self._is_waking = False
            self._wake.clear()
            await self._shrink_calls(link)
            self._ask_for_retractions(link)
            part = self._choose_part()
            if part:
                check(await link.ask(AddTasks(job, TaskNumber(self._first), part)), Done)
                with self._lock:
                    for _ in part:
                        self._calls.popleft()
                    self._first += len(part)
            elif self._cancelled:
                cancelled = tuple(self._cancelled[:MAX_RETRACTED])
                with suppress(Rejected):  # the job is over
                    await link.ask(CancelJob(job, cancelled))
                with self._lock:
                    del self._cancelled[: len(cancelled)]
            elif self._is_closing and not is_closed and not self._retractions:
                check(await link.ask(CloseJob(job)), Done)
                is_closed = True
                self._sent.set()
            else:
                await self._wake.wait()

    def _ask_for_retractions(self, link: Link) -> None:
        """For calls that the foreman has. A worker that is slow to answer does not keep the next calls waiting."""
        with self._lock:
            ready = [each for each in self._retractions if max(each.tasks, default=0) < self._first]
            self._retractions = [each for each in self._retractions if max(each.tasks, default=0) >= self._first]
        for retraction in ready:
            work = asyncio.ensure_future(self._retract(link, retraction))
            self._retracting.add(work)
            work.add_done_callback(self._retracting.discard)

    async def _retract(self, link: Link, retraction: Retraction) -> None:
        """Ask which calls never began, and tell their callers; all others have begun."""
        try:
            gone = await self._ask_what_never_began(link, retraction.tasks)
        except (LinkError, asyncio.CancelledError):  # it is asked again over the next link, or answered with the job
            with self._lock:
                self._retractions.append(retraction)
            return
        self._tell(tuple(ResultRow(TaskNumber(number), TaskState.CANCELLED) for number in gone))
        for number in set(retraction.tasks) - gone:
            if (caller := self._callers.get(number)) is not None:
                caller.on_start()
        retraction.answer.set_result(gone)

    async def _ask_what_never_began(self, link: Link, tasks: tuple[TaskNumber, ...]) -> frozenset[int]:
        """Raises: LinkError."""
        gone: set[int] = set()
        for first in range(0, len(tasks), MAX_RETRACTED):
            request = RetractTasks(self.job.result(), tasks[first : first + MAX_RETRACTED])
            try:
                gone.update(check(await link.ask(request), Retracted).tasks)
            except LinkError:
                raise
            except GandyError:  # refused: none of these is retracted
                log.debug("calls are not retracted", exc_info=True)
        return frozenset(gone)

    async def _shrink_shared(self, link: Link) -> None:
        """Raises: StoreError: there is no place for it, so that no call can be made."""
        python = self._spec.python
        if python is not None and len(python.shared) > MAX_CALL_BYTES:
            try:
                reference = await self._put(link, python.shared)
            except StoreError as error:
                raise StoreError(str(error)) from None
            self._spec = replace(self._spec, python=replace(python, shared=reference))

    async def _shrink_calls(self, link: Link) -> None:
        """Put the next call apart, in pieces, if it is too large for a request, and leave a reference in its place."""
        if self._calls and len(self._calls[0]) > MAX_CALL_BYTES:
            try:
                reference = await self._put(link, self._calls[0])
            except (StoreError, Rejected) as error:
                self._refuse_first(error)
                return
            with self._lock:
                if self._calls:  # it may have failed meanwhile
                    self._calls[0] = reference

    def _refuse_first(self, error: GandyError) -> None:
        """There is no place for the next call. It fails alone; its number stays taken, so that others keep theirs."""
        with self._lock:
            caller = self._callers.pop(self._first, None)
            if self._calls:
                self._calls[0] = b""
                self._cancelled.append(TaskNumber(self._first))
        if caller is not None:
            caller.on_failure(error)

    async def _put(self, link: Link, data: bytes) -> bytes:
        """Put large arguments where workers find them. Gives a reference to them.

        Raises: LinkError: the next try has the same name; StoreError, Rejected.
        """
        self._blob = self._blob or secrets.token_hex(16)
        name = self._blob
        try:
            for offset in range(0, len(data), PIECE_BYTES):
                piece = data[offset : offset + PIECE_BYTES]
                is_last = offset + PIECE_BYTES >= len(data)
                check(await link.ask(PutArguments(name, offset, piece, is_last)), Done)
        except (StoreError, Rejected):
            self._blob = ""
            raise
        self._blob = ""
        return make_reference(name)

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
