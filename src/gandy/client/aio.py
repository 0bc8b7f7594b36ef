"""The client for programs that run on asyncio: verbs become requests, answers become values or exceptions.

A link is made when it is first needed, and made anew after a break. What was asked over a broken link is not asked
again, except for what only looks: `wait`, `watch`, and output that is followed.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Sequence
from contextlib import aclosing
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack

from msgspec.structs import replace

from gandy.client.caller import Caller
from gandy.client.calling import AsyncCalls
from gandy.client.link import Link, connect
from gandy.client.options import FunctionOptions
from gandy.client.spec import SubmitOptions, make_submit, split_lines
from gandy.config import Address
from gandy.core.jobs import FINAL_JOB_STATES
from gandy.core.model import JobSpec, JobState, TaskState
from gandy.core.requests import (
    AddLines,
    Answer,
    CancelJob,
    Done,
    Explained,
    ExplainJob,
    ForgetJobs,
    Forgotten,
    GetStatus,
    GetTime,
    HoldJob,
    Invite,
    Invited,
    JobFound,
    JobList,
    KeyList,
    KeyMade,
    KeyRow,
    ListAttempts,
    ListJobs,
    ListKeys,
    ListResults,
    ListTasks,
    ListWorkers,
    MakeKey,
    NotForgotten,
    Output,
    OutputPage,
    ReadOutput,
    ReadOutputs,
    ReleaseJob,
    Request,
    ResultRow,
    Results,
    RetryJob,
    RevokeKey,
    ShowJob,
    Status,
    StopForeman,
    StopWorker,
    Submit,
    Submitted,
    TaskList,
    TaskOutput,
    Time,
    WatchJob,
    WorkerList,
    WorkerRow,
)
from gandy.core.roles import CrewRole
from gandy.core.rows import JobRow, TaskRow
from gandy.errors import (
    REFUSALS,
    ConfigError,
    ErrorCode,
    GandyError,
    JobNotFound,
    JobTimeout,
    LinkError,
    NotAllowed,
    Rejected,
    RemoteProtocolError,
    TaskFailed,
)
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_FORGOTTEN, MAX_NAMED_TASKS
from gandy.reach import find_reach

if TYPE_CHECKING:
    from gandy.client.aio_functions import AsyncCall, AsyncFunctions
    from gandy.client.functions import Functions

# Seconds before the next try to reach a foreman that went away: from here, doubling, to there.
RETURN_PAUSES: Final = (0.1, 5.0)

# Seconds before the next look at output that has not grown.
OUTPUT_PAUSES: Final = (0.05, 1.0)

# Jobs or tasks in one answer. With the last words of each, an answer stays below the limit of a payload.
PAGE: Final = 1_000

# Bytes of a large result that are asked for at once.
RESULT_PIECE: Final = 1 << 20

# Seconds that a worker may be away while it is asked for a large result.
RESULT_PATIENCE: Final = 30.0

# Seconds for the last calls of functions to reach the foreman when a client is closed.
SEND_PATIENCE: Final = 5.0

A = TypeVar("A", bound=Answer)
T = TypeVar("T")


class AsyncClient(AsyncCalls):
    """Talks to one foreman: at `foreman`, else at GANDY_FOREMAN, else the one that was joined, else on this machine.

    The one of an `ensemble` is found by that name alone.
    """

    def __init__(self, foreman: str | None = None, *, ensemble: str | None = None) -> None:
        self.reach = find_reach(foreman or tell_ensemble(ensemble), os.environ, sys.platform)
        self._link: Link | None = None
        self.caller = Caller(self.get_link, lambda: self._link, self.now, self._explain)
        self._connecting = asyncio.Lock()
        self._upload_count = 0
        self._functions: list[Functions] = []
        self._plain_functions: AsyncFunctions | None = None  # without options

    @property
    def address(self) -> Address:
        """Where the foreman is, or is looked for first."""
        return self.reach.places[0] if self._link is None else self._link.address

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def connect(self) -> None:
        """Raises: LinkError, when nobody listens."""
        self.caller.open()
        await self.get_link()

    async def close(self) -> None:
        """Calls of functions that were queued go on; nobody here will hear of their values any more."""
        for functions in self._functions:
            await functions.end(SEND_PATIENCE)
        self._functions.clear()
        self.caller.close()
        if self._link is not None:
            await self._link.wait_written(SEND_PATIENCE)
        await self._drop_link()

    async def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.end()

    async def submit(self, command: str | Sequence[str], **options: Unpack[SubmitOptions]) -> "AsyncJob":
        """Queue a shell line, or an argument vector that no shell sees. When this returns, the job is on disk.

        Raises: ConfigError, Rejected, NoClock, StoreError, LinkError. After a LinkError nobody knows whether it was
        taken.
        """
        options["cwd"] = tell_folder(options.get("cwd"))
        submit = make_submit(command, **options)
        if submit.spec.at is not None and not (await self.get_link()).takes_times:
            raise self._explain("jobs with a time")
        parts = list(split_lines(submit.lines))
        if len(parts) > 1:
            return await self._submit_in_parts(submit.spec, parts)
        answer = await self.ask(submit, Submitted)
        return self.job(answer.job)

    async def _submit_in_parts(self, spec: JobSpec, parts: Iterable[tuple[str, ...]]) -> "AsyncJob":
        link = await self.get_link()  # all over the same one: the foreman forgets the parts when it breaks
        self._upload_count += 1
        upload = self._upload_count
        for part in parts:
            check(await link.ask(AddLines(upload, part)), Done)
        answer = check(await link.ask(Submit(spec, upload=upload)), Submitted)
        return self.job(answer.job)

    def make_functions(self, loop: asyncio.AbstractEventLoop, **options: Unpack[FunctionOptions]) -> "Functions":
        """For faces: calls as futures that any thread can wait for. They end with this client."""
        from gandy.client.functions import Functions  # for programs that want none, it costs time

        functions = Functions(self, loop, **options)
        self._functions.append(functions)
        return functions

    def functions(self, **options: Unpack[FunctionOptions]) -> "AsyncFunctions":
        """Calls of Python functions with the same options: `retries`, `timeout`, `slots`, `tags` and others."""
        from gandy.client.aio_functions import AsyncFunctions

        return AsyncFunctions(self.make_functions(asyncio.get_running_loop(), **options))

    def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> "AsyncCall[T]":
        """Call a Python function somewhere in the crew: now, and not when it is awaited.

        Raises: NotPicklable, ConfigError.
        """
        return self._plain.run(function, *args, **kwargs)

    def map(
        self,
        function: Callable[..., T],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        ordered: bool = True,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]:
        """The values of a Python function for all items, in order or as they come, with a progress bar if so wanted.

        Raises: NotPicklable, ConfigError, and what the function raises.
        """
        return self._plain.map(function, *iterables, chunksize=chunksize, ordered=ordered, progress=progress)

    @property
    def _plain(self) -> "AsyncFunctions":
        if self._plain_functions is None:
            self._plain_functions = self.functions()
        return self._plain_functions

    def close_job(self, job: JobId, is_cancelled: bool = False) -> None:
        """If it has calls of functions of this client, it takes no more of them. The next call opens another job."""
        for functions in self._functions:
            functions.close_job(job, is_cancelled)

    def job(self, job: int) -> "AsyncJob":
        """A job by its number. Whether there is one shows when something is asked about it."""
        return AsyncJob(self, JobId(job))

    async def jobs(self, states: Iterable[JobState] | None = None) -> AsyncGenerator[JobRow, None]:
        """Every job, the newest first; or those in some states."""
        async for rows in self.job_pages(states):
            for row in rows:
                yield row

    async def job_pages(self, states: Iterable[JobState] | None = None) -> AsyncGenerator[Sequence[JobRow], None]:
        """The same, many at a time."""
        wanted = None if states is None else tuple(states)
        before: JobId | None = None
        while rows := (await self.ask(ListJobs(wanted, PAGE, before), JobList)).rows:
            check_progress(before is None or rows[0].job < before)
            yield rows
            before = rows[-1].job

    async def forget(self, jobs: Iterable[int]) -> list[NotForgotten]:
        """Delete all that is kept about these jobs. Gives those that stay: they have not ended, or never were."""
        numbers = [JobId(job) for job in jobs]
        kept: list[NotForgotten] = []
        for first in range(0, len(numbers), MAX_FORGOTTEN):
            part = tuple(numbers[first : first + MAX_FORGOTTEN])
            kept += (await self.ask(ForgetJobs(part), Forgotten)).kept
        return kept

    async def workers(self) -> tuple[WorkerRow, ...]:
        found: list[WorkerRow] = []
        while rows := (await self.ask(ListWorkers(found[-1].id if found else ""), WorkerList)).rows:
            check_progress(not found or rows[0].id > found[-1].id)
            found += rows
        return tuple(found)

    async def status(self) -> Status:
        """How the foreman is."""
        return await self.ask(GetStatus(), Status)

    async def keys(self) -> tuple[KeyRow, ...]:
        """Keys and open invitations. This and the next three are for the foreman's own user, on its machine."""
        return (await self.ask(ListKeys(), KeyList)).rows

    async def make_key(self, public_key: bytes, name: str, role: str, seconds: float | None = None) -> KeyMade:
        """Let a public key, DER, be good. Raises: Rejected, NotAllowed."""
        return await self.ask(MakeKey(public_key, name, role, seconds), KeyMade)

    async def revoke_key(self, key: str) -> tuple[KeyRow, ...]:
        """By name or id; those that are good no longer. Raises: Rejected, NotAllowed."""
        return (await self.ask(RevokeKey(key), KeyList)).rows

    async def invite(self, role: str, seconds: float, uses: int = 1, addresses: Sequence[str] = ()) -> Invited:
        """A token for `gandy join`. `addresses`: where others reach the foreman, if it cannot know.

        Raises: Rejected, NotAllowed.
        """
        return await self.ask(Invite(role, seconds, uses, tuple(addresses)), Invited)

    async def now(self) -> float:
        """The shared time of the foreman's ensemble, good for half of the way there and back. Raises: NoClock."""
        loop = asyncio.get_running_loop()
        asked = loop.time()
        answer = await self.ask(GetTime(), Time)
        return answer.shared + (loop.time() - asked) / 2

    async def stop_worker(self, worker: str, *, immediate: bool = False) -> None:
        """Let a worker go, by name or id. Its tasks end first, unless it is immediate."""
        await self.ask(StopWorker(worker, immediate), Done)

    async def stop_foreman(self, *, drain: bool = False) -> None:
        """End the foreman. With `drain`, workers finish their tasks and leave too."""
        await self.ask(StopForeman(drain), Done)

    async def ask(self, request: Request, expected: type[A]) -> A:
        """Make one request.

        Raises: LinkError; and what the foreman says no with: JobNotFound, Rejected, StoreError, GandyError.
        """
        link = await self.get_link()
        return check(await link.ask(request), expected)

    async def watch(self, request: Request, expected: type[A]) -> AsyncGenerator[A, None]:
        """Make one request that goes on: its answer and all that follows, skipping what is out of date.

        Raises: as `ask`. There is no end but an error.
        """
        link = await self.get_link()
        watch = link.watch(request)
        try:
            while True:
                yield check(await watch.take(), expected)
        finally:
            link.unwatch(watch)

    def _explain(self, what: str) -> Rejected:
        """Why the foreman did not offer something: to an observer it offers less."""
        keys = self.reach.keys
        if self.address.scheme == "tcp" and keys is not None and keys.about.role is CrewRole.OBSERVER:
            return NotAllowed(f"{self.address}: {REFUSALS[ErrorCode.WRONG_ROLE]}")
        return Rejected(f"the foreman knows no {what}: it is older than this client")

    async def get_link(self) -> Link:
        """The link to the foreman, a new one if the last one broke.

        Raises: LinkError.
        """
        async with self._connecting:
            if self._link is None or not self._link.is_open:
                await self._drop_link()
                self._link = await connect(self.reach, self.caller)
            return self._link


class AsyncJob:
    """A job that was submitted. It holds a number and no state: everything is asked anew."""

    def __init__(self, client: AsyncClient, job: JobId) -> None:
        self._client = client
        self.id = job

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    async def wait(self, timeout: float | None = None) -> JobRow:
        """The job when it has ended, however that was. A foreman that goes away and returns is waited for.

        A job of this client's own calls takes no more of them: the next call opens another job.

        Raises: JobTimeout, JobNotFound.
        """
        self._client.close_job(self.id)
        try:
            async with asyncio.timeout(timeout):
                async for row in self.watch():
                    if row.state in FINAL_JOB_STATES:
                        break
                return row
        except TimeoutError:
            raise JobTimeout(f"job {self.id} did not end within {timeout:g} seconds; it goes on") from None

    async def watch(self) -> AsyncGenerator[JobRow, None]:
        """The job now and whenever it changes, until it has ended. A foreman that goes away is waited for."""
        pauses = growing(*RETURN_PAUSES)
        while True:
            try:
                async with aclosing(self._client.watch(WatchJob(self.id), JobFound)) as events:
                    async for found in events:
                        pauses = growing(*RETURN_PAUSES)
                        yield found.row
                        if found.row.state in FINAL_JOB_STATES:
                            return
            except LinkError:
                await asyncio.sleep(next(pauses))

    async def status(self) -> JobRow:
        return (await self._client.ask(ShowJob(self.id), JobFound)).row

    async def tasks(self, states: Iterable[TaskState] | None = None) -> AsyncGenerator[TaskRow, None]:
        """Every task in the order of its number, each with its last attempt; or those in some states."""
        async for rows in self.task_pages(states):
            for row in rows:
                yield row

    async def task_pages(self, states: Iterable[TaskState] | None = None) -> AsyncGenerator[Sequence[TaskRow], None]:
        """The same, many at a time."""
        wanted = None if states is None else tuple(states)
        after = TaskNumber(0)
        while rows := (await self._client.ask(ListTasks(self.id, wanted, PAGE, after), TaskList)).rows:
            check_progress(rows[-1].task > after)
            yield rows
            after = rows[-1].task

    async def attempts(self, task: int = 1) -> tuple[TaskRow, ...]:
        """Every attempt at one task, the first one first."""
        found: list[TaskRow] = []
        number = TaskNumber(task)
        while rows := (
            await self._client.ask(ListAttempts(self.id, number, found[-1].attempt if found else 0), TaskList)
        ).rows:
            check_progress(not found or rows[0].attempt > found[-1].attempt)
            found += rows
        return tuple(found)

    async def output(self, task: int = 1, stream: str = "out", follow: bool = False) -> AsyncGenerator[bytes, None]:
        """What the last attempt at a task wrote, piece by piece. With `follow`, until the attempt has ended.

        Raises: JobNotFound, Rejected, LinkError; none of the latter where it follows.
        """
        _check_stream(stream)
        attempt = offset = 0
        pauses = growing(*OUTPUT_PAUSES)
        while True:
            piece = await self._read(ReadOutput(self.id, TaskNumber(task), stream, attempt, offset), follow)
            if piece.data:
                pauses = growing(*OUTPUT_PAUSES)
                yield piece.data
            attempt, offset = piece.attempt, offset + len(piece.data)
            if piece.is_last or not (piece.data or follow):
                return
            if not piece.data:
                await asyncio.sleep(next(pauses))

    async def outputs(self, stream: str = "out") -> AsyncGenerator[TaskOutput, None]:
        """What the last attempts at all tasks wrote, in the order of task numbers; much of one task in several pieces.

        A task whose output cannot be read has a `problem` instead. Raises: JobNotFound, LinkError.
        """
        async for rows in self.output_pages(stream):
            for row in rows:
                yield row

    async def output_pages(self, stream: str = "out") -> AsyncGenerator[Sequence[TaskOutput], None]:
        """The same, many at a time."""
        _check_stream(stream)
        after, is_last = TaskNumber(0), False
        while not is_last:
            page = await self._client.ask(ReadOutputs(self.id, stream, after), OutputPage)
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
        """What did not fit the page, as far as it is there now."""
        offset, is_last = len(row.data), False
        while not is_last:
            request = ReadOutput(self.id, row.task, stream, row.attempt, offset, RESULT_PIECE)
            try:
                piece = await self._client.ask(request, Output)
            except LinkError:
                raise
            except GandyError as error:
                yield replace(row, data=b"", problem=str(error))
                return
            if piece.data:
                yield replace(row, data=piece.data)
            offset, is_last = offset + len(piece.data), piece.is_last or not piece.data

    async def results(self) -> AsyncGenerator[Any, None]:
        """The values of a job of Python functions when it has ended, in the order of the calls.

        Raises: at its place, what a function raised, or TaskFailed; ConfigError for a job of commands.
        """
        from gandy.client.results import open_row  # for programs that want none, it costs time

        spec = (await self.wait()).spec
        if spec.python is None:
            raise ConfigError(f"job {self.id} runs commands, which have no values; read its output")
        after, is_last = TaskNumber(0), False
        while not is_last:
            found = await self._client.ask(ListResults(self.id, after), Results)
            for row in found.rows:
                check_progress(row.task > after)
                whole = await self.fetch_result(row)
                for value in open_row(whole, is_chunk=spec.python.has_shared):
                    yield value
                after = row.task
            is_last = found.is_last

    async def fetch_result(self, row: ResultRow) -> ResultRow:
        """With a result that was too large to be told, which its worker keeps. A foreman that goes away is waited for.

        Raises: TaskFailed, GandyError.
        """
        result = bytearray()
        patience = asyncio.get_running_loop().time() + RESULT_PATIENCE
        while len(result) < row.result_bytes:
            request = ReadOutput(self.id, row.task, "result", row.attempt, len(result), RESULT_PIECE)
            try:
                piece = await self._read(request, follow=True)
            except GandyError as error:
                if not error.retryable or asyncio.get_running_loop().time() > patience:
                    raise
                await asyncio.sleep(RETURN_PAUSES[0])  # its worker may be on its way back to a new foreman
                continue
            if not piece.data:
                raise TaskFailed(f"task {row.task}: its value of {row.result_bytes:,} bytes is no longer kept")
            result += piece.data
        return replace(row, result=bytes(result)) if result else row

    async def cancel(self, tasks: Iterable[int] | None = None) -> JobRow:
        """End the whole job, or some of its tasks. What runs is killed."""
        for part in _split_tasks(tasks):
            row = (await self._client.ask(CancelJob(self.id, part), JobFound)).row
        if tasks is None:
            self._client.close_job(self.id, is_cancelled=True)
        return row

    async def retry(self, tasks: Iterable[int] | None = None) -> JobRow:
        """Try again what failed or was cancelled: all of it, or some tasks."""
        for part in _split_tasks(tasks):
            found = await self._client.ask(RetryJob(self.id, part), JobFound)
        return found.row

    async def hold(self) -> JobRow:
        """Start no more tasks; what runs goes on."""
        return (await self._client.ask(HoldJob(self.id), JobFound)).row

    async def release(self) -> JobRow:
        """Start tasks again after `hold`."""
        return (await self._client.ask(ReleaseJob(self.id), JobFound)).row

    async def forget(self) -> None:
        """Delete all that is kept about the job, which must have ended. Raises: JobNotFound, Rejected."""
        for kept in await self._client.forget([self.id]):
            raise JobNotFound(kept.problem) if kept.is_unknown else Rejected(kept.problem)

    async def explain(self, task: int | None = None) -> tuple[str, ...]:
        """Why tasks wait, or how they died: sentences for people."""
        number = None if task is None else TaskNumber(task)
        return (await self._client.ask(ExplainJob(self.id, number), Explained)).lines

    async def _read(self, request: ReadOutput, follow: bool) -> Output:
        pauses = growing(*RETURN_PAUSES)
        while True:
            try:
                return await self._client.ask(request, Output)
            except LinkError:
                if not follow:
                    raise
                await asyncio.sleep(next(pauses))


def tell_ensemble(name: str | None) -> str | None:
    """The address that stands for the foreman of an ensemble."""
    return None if name is None else f"ensemble:{name}"


def growing(first: float, last: float) -> Iterator[float]:
    """Pauses that double until the last one, which stays."""
    pause = first
    while True:
        yield pause
        pause = min(2 * pause, last)


def check(answer: Answer, expected: type[A]) -> A:
    if not isinstance(answer, expected):
        text = f"the foreman answered {type(answer).__name__} where {expected.__name__} was due"
        raise RemoteProtocolError(text, ErrorCode.BAD_PAYLOAD)
    return answer


def check_progress(is_further: bool) -> None:
    """Pages must come to an end, whatever a foreman says. Raises: RemoteProtocolError."""
    if not is_further:
        raise RemoteProtocolError("the foreman sent the same page again", ErrorCode.BAD_PAYLOAD)


def _split_tasks(tasks: Iterable[int] | None) -> Iterator[tuple[TaskNumber, ...] | None]:
    """In parts that a request may name; all tasks, which need no names, are one part."""
    if tasks is None:
        yield None
        return
    named = tuple(TaskNumber(task) for task in tasks)
    for begin in range(0, max(1, len(named)), MAX_NAMED_TASKS):
        yield named[begin : begin + MAX_NAMED_TASKS]


def _check_stream(stream: str) -> None:
    if stream not in ("out", "err"):
        raise ConfigError(f"a task has the streams 'out' and 'err', not {stream!r}")


def tell_folder(cwd: str | None) -> str:
    try:
        return str(Path(cwd or ".").absolute())
    except OSError:
        raise ConfigError("the current folder is gone; say where the tasks are to run") from None
