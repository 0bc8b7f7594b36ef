"""The client for programs on asyncio: methods become requests, answers become values or exceptions.

If the foreman dies, another one answers, or the same when it is back: see `repeats` for how long requests are tried.
"""

import asyncio
import os
import sys
from collections.abc import AsyncGenerator, Callable, Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Never, ParamSpec, Self, TypeVar

from gandy.client.aio_job import PAGE, AsyncJob
from gandy.client.calling import WorkerReply, call_workers
from gandy.client.checks import Duration, FolderPath, JobReference, Size, refuse_unknown, to_job
from gandy.client.connection import Connection, check_progress
from gandy.client.foremen import choose_foreman
from gandy.client.function_sets import FunctionSets
from gandy.client.options import CallOptions, FunctionOptions, JobOptions
from gandy.client.pending import CallStream
from gandy.client.shown import Shown, find_own_loop, list_client_renderings
from gandy.client.signatures import typed_async_map, typed_async_run
from gandy.client.spec import find_folder
from gandy.client.submitter import Submitter
from gandy.config import Address, Addresses
from gandy.core.model import JobState
from gandy.core.requests import (
    AuditList,
    Done,
    DrainForeman,
    ForemanList,
    ForemanRow,
    ForemanStatus,
    ForgetJobs,
    Forgotten,
    GetStatus,
    Invite,
    Invited,
    JobList,
    KeyList,
    KeyMade,
    KeyRow,
    ListAudit,
    ListForemen,
    ListJobs,
    ListKeys,
    ListWorkers,
    MakeKey,
    NotForgotten,
    RevokeKey,
    StopForeman,
    StopWorker,
    WorkerList,
    WorkerRow,
)
from gandy.core.rows import JobRow
from gandy.functions.decorated import ExceptionKinds
from gandy.ids import JobId
from gandy.limits import MAX_FORGOTTEN
from gandy.reach import find_reach

if TYPE_CHECKING:
    from gandy.client.aio_functions import AsyncFunctionFuture, AsyncFunctions
    from gandy.notebook.display import Renderings

P = ParamSpec("P")
T = TypeVar("T")


class AsyncClient(Shown):
    """A client of a crew, whose foreman is at `foreman`, else at GANDY_FOREMAN, else where `gandy join` found it, else
    on this machine.

    A crew may have many foremen: `foreman` takes one address or several, in a list or with commas between them. The
    first that answers is used, and if it dies, another one. With `ensemble`, the foreman of that ensemble.
    """

    # It has many methods but one purpose: each is an action for users, and makes a request or two. What they share is
    # in Connection, FunctionSets and AsyncJob.

    def __init__(self, foreman: Addresses | None = None, *, ensemble: str | None = None) -> None:
        address = foreman or (None if ensemble is None else f"ensemble:{ensemble}")
        self.connection = Connection(find_reach(address, os.environ, sys.platform))
        self.function_sets = FunctionSets(self.connection)
        self.submitter = Submitter(self.connection)

    def __repr__(self) -> str:
        return f"AsyncClient({str(self.address)!r})"

    def _list_renderings(self) -> "Renderings":
        return list_client_renderings(self, repr(self))

    def _find_connection(self) -> Connection:
        return self.connection

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        return find_own_loop()

    @property
    def address(self) -> Address:
        """Where the foreman is, or the first place to look for it."""
        return self.connection.address

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, asyncio.CancelledError | KeyboardInterrupt):
            self.function_sets.abandon()
        await self.close()

    async def connect(self) -> None:
        """Raises: LinkError, if no foreman can be reached."""
        await self.connection.open()
        self.function_sets.reopen()

    async def close(self) -> None:
        """Close the client. Function tasks that were queued go on, but their futures get no return values any more."""
        await self.function_sets.end()
        await self.connection.close()

    async def submit(
        self,
        /,
        command: str | Sequence[str],
        *,
        tasks: int = 1,
        lines: Iterable[str] | None = None,
        name: str = "",
        cwd: FolderPath | None = None,
        env: Mapping[str, str] | None = None,
        retries: int = 0,
        timeout: Duration | None = None,
        memory: Size | None = None,
        priority: int = 0,
        slots: int = 1,
        tags: Iterable[str] = (),
        limit: int | None = None,
        held: bool = False,
        after: JobReference | Iterable[JobReference] = (),
        after_any: JobReference | Iterable[JobReference] = (),
        after_each: JobReference | Iterable[JobReference] = (),
        at: float | None = None,
        **unknown: Never,
    ) -> AsyncJob:
        """Submit a shell line, or a program and its arguments, which no shell sees. When this returns, it is on disk.

        The job has `tasks` tasks, or one for each of `lines`. `timeout` (seconds, or "10min") and `memory` (bytes, or
        "2G") are for each attempt; `limit` is how many tasks may run at the same time; `at` is the shared time at which
        tasks begin. `after` is the jobs that must finish before, or their numbers; `after_any` those that must end in
        any way, and `after_each` those with as many tasks that this one follows task by task.

        If the link breaks, it is sent again, and the job exists once. Raises: ConfigError, Rejected, NoClock,
        StoreError, LinkError. After a LinkError, the job may exist.
        """
        refuse_unknown("submit", unknown, JobOptions._fields)
        folder = find_folder(cwd)
        options = JobOptions(
            tasks,
            lines,
            name,
            folder,
            env,
            retries,
            timeout,
            memory,
            priority,
            slots,
            tags,
            limit,
            held,
            after,
            after_any,
            after_each,
            at,
        )
        return self.job(await self.submitter.submit(command, options))

    def functions(
        self,
        *,
        name: str = "",
        retries: int = 0,
        timeout: Duration | None = None,
        memory: Size | None = None,
        priority: int = 0,
        slots: int = 1,
        tags: Iterable[str] = (),
        limit: int | None = None,
        fresh: bool = False,
        cwd: FolderPath | None = None,
        env: Mapping[str, str] | None = None,
        retry_on: ExceptionKinds | None = None,
        **unknown: Never,
    ) -> "AsyncFunctions":
        """Run Python functions with these options, unless `@gandy.task` overrides them.

        `timeout` (seconds, "10min") and `memory` (bytes, "2G") are for each attempt; `limit` is how many may run at the
        same time; `fresh` runs each in a new process; with `retry_on`, only these exceptions lead to another attempt.

        Raises: ConfigError.
        """
        refuse_unknown("functions", unknown, FunctionOptions._fields)
        from gandy.client.aio_functions import AsyncFunctions

        options = FunctionOptions(
            name, retries, timeout, memory, priority, slots, tags, limit, fresh, cwd, env, retry_on
        )
        return AsyncFunctions(self.function_sets.open(asyncio.get_running_loop(), options))

    @typed_async_run
    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "AsyncFunctionFuture[T]":
        """Run a Python function on a worker. It is queued now, not when the future is awaited.

        Raises: NotPicklable, ConfigError.
        """
        return self._get_default_functions().run(function, *args, **kwargs)

    @typed_async_map
    def map(
        self,
        function: Callable[..., T],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        ordered: bool = True,
        progress: bool = False,
    ) -> AsyncGenerator[T, None]:
        """Iterate over the return values of a Python function for all items, in order or as they come.

        `progress` draws a bar in a terminal or a notebook. Raises: NotPicklable, ConfigError, and what the function
        raises.
        """
        functions = self._get_default_functions()
        return functions.map(function, *iterables, chunksize=chunksize, ordered=ordered, progress=progress)

    def _get_default_functions(self) -> "AsyncFunctions":
        from gandy.client.aio_functions import AsyncFunctions

        return AsyncFunctions(self.function_sets.get_default(asyncio.get_running_loop()))

    def call(
        self,
        name: str,
        /,
        *args: Any,
        timeout: Duration | None = None,
        at: float | None = None,
        wait: bool = True,
        repeatable: bool = False,
        pickle: bool = False,
    ) -> asyncio.Future[Any]:
        """Call a command that workers have installed. Cancelling the future cancels the call.

        `at` is the shared time at which it begins, and `timeout` counts from then or from now. Without `wait`,
        Busy is raised if too many calls wait already. A `repeatable` call is sent again if its worker or the link is
        lost. With `pickle`, arguments and values may be any objects, and the command's own exceptions are raised.

        Raises: CallFailed, with what the command raised; UnknownCommand, WorkerLost, Busy, CallTimeout, NoClock;
        LinkError; TypeError, ValueError, NotPicklable, if the arguments cannot be sent.
        """
        if timeout is None and at is None and wait and not (repeatable or pickle):
            return self.connection.caller.call(name, args)
        return self.connection.caller.call(name, args, CallOptions(timeout, at, wait, repeatable, pickle))

    async def cast(self, name: str, /, *args: Any, pickle: bool = False, at: float | None = None) -> None:
        """Call a command without waiting for an answer. It still takes a slot. Raises: LinkError."""
        await self.connection.caller.cast(name, args, CallOptions(pickle=pickle, at=at))

    def stream(
        self,
        name: str,
        /,
        *args: Any,
        timeout: Duration | None = None,
        at: float | None = None,
        wait: bool = True,
        repeatable: bool = False,
        pickle: bool = False,
    ) -> CallStream:
        """Iterate over the values of a command as they come. Closing the stream early ends it on the worker.

        Options: see `call`. Raises what `call` raises, after the values that came before.
        """
        return self.connection.caller.stream(name, args, CallOptions(timeout, at, wait, repeatable, pickle))

    async def call_all(
        self,
        name: str,
        /,
        *args: Any,
        timeout: Duration | None = None,
        at: float | None = None,
        wait: bool = True,
        repeatable: bool = False,
        pickle: bool = False,
    ) -> list[WorkerReply]:
        """Call a command on all workers that offer it. Returns replies in the order of names. Options: see `call`.

        With `at`, it begins everywhere at this shared time; a worker that does not know the shared time replies with
        NoClock. Raises: UnknownCommand.
        """
        options = CallOptions(timeout, at, wait, repeatable, pickle)
        return await call_workers(self.connection.caller, await self.workers(), name, args, options)

    def job(self, job: JobReference) -> AsyncJob:
        """Return a job by its number. A number that does not exist raises JobNotFound when the job is used."""
        return AsyncJob(self.connection, self.function_sets, to_job("job", job))

    async def result(self, job: JobReference, task: int = 1, timeout: Duration | None = None) -> Any:
        """Wait for one function task, of this program or another, and return its value. See `AsyncJob.result`."""
        return await self.job(job).result(task, timeout)

    async def jobs(self, states: Iterable[JobState] | None = None) -> AsyncGenerator[JobRow, None]:
        """Iterate over all jobs, or those in some states, the newest first."""
        async for rows in self.job_pages(states):
            for row in rows:
                yield row

    async def job_pages(self, states: Iterable[JobState] | None = None) -> AsyncGenerator[Sequence[JobRow], None]:
        """Iterate over the same jobs, many at a time."""
        wanted = None if states is None else tuple(states)
        before: JobId | None = None
        while rows := (await self.connection.ask(ListJobs(wanted, PAGE, before), JobList)).rows:
            check_progress(before is None or rows[0].job < before)
            yield rows
            before = rows[-1].job

    async def forget(self, jobs: Iterable[int]) -> list[NotForgotten]:
        """Delete everything about these jobs. Returns those that could not be deleted: not ended, or unknown."""
        numbers = [JobId(job) for job in jobs]
        kept: list[NotForgotten] = []
        for first in range(0, len(numbers), MAX_FORGOTTEN):
            part = tuple(numbers[first : first + MAX_FORGOTTEN])
            kept += (await self.connection.ask(ForgetJobs(part), Forgotten)).kept
        return kept

    async def workers(self) -> tuple[WorkerRow, ...]:
        found: list[WorkerRow] = []
        while rows := (await self.connection.ask(ListWorkers(found[-1].id if found else ""), WorkerList)).rows:
            check_progress(not found or rows[0].id > found[-1].id)
            found += rows
        return tuple(found)

    async def status(self) -> ForemanStatus:
        """Return the state of the foreman."""
        return await self.connection.ask(GetStatus(), ForemanStatus)

    async def foremen(self) -> tuple[ForemanRow, ...]:
        """List the foremen of the crew."""
        return (await self.connection.ask(ListForemen(), ForemanList)).rows

    async def drain_foreman(self, foreman: str = "") -> None:
        """Let a foreman, by name or id, hand over all that it owns to the others, and stop; or the one that we use.

        Returns when it has handed over everything, or when it is gone and the others have taken over.

        Raises: Rejected: no foreman is called that, or it is the only one.
        """
        row = choose_foreman(await self.foremen(), foreman)  # by its id, no other one stops if this is sent again
        await self.connection.ask(DrainForeman(row.id), Done)

    async def audit(self, last: int) -> tuple[str, ...] | None:
        """The last lines of the crew's audit, as JSON; None if this foreman is alone, and has it in a file.

        This and the next four methods are for the foreman's owner only.
        """
        found = await self.connection.ask(ListAudit(last), AuditList)
        return found.lines if found.is_shared else None

    async def keys(self) -> tuple[KeyRow, ...]:
        """List keys and open invitations."""
        return (await self.connection.ask(ListKeys(), KeyList)).rows

    async def make_key(self, public_key: bytes, name: str, role: str, seconds: float | None = None) -> KeyMade:
        """Accept a public key, in DER, for this many seconds or until it is revoked.

        Raises: Rejected, NotAllowed.
        """
        return await self.connection.ask(MakeKey(public_key, name, role, seconds), KeyMade)

    async def revoke_key(self, key: str) -> tuple[KeyRow, ...]:
        """Revoke keys by name or id. Returns those that were revoked. Raises: Rejected, NotAllowed."""
        return (await self.connection.ask(RevokeKey(key), KeyList)).rows

    async def invite(self, role: str, seconds: float, uses: int = 1, addresses: Sequence[str] = ()) -> Invited:
        """Make a token for `gandy join`. `addresses`: where other machines reach the foreman, if it cannot know.

        Raises: Rejected, NotAllowed.
        """
        return await self.connection.ask(Invite(role, seconds, uses, tuple(addresses)), Invited)

    async def now(self) -> float:
        """Return the shared time of the foreman's ensemble, to within half a round trip. Raises: NoClock."""
        return float(await self.connection.get_shared_time())

    async def stop_worker(self, worker: str, *, immediate: bool = False) -> None:
        """Stop a worker, by name or id, when its tasks have ended; or kill its tasks, if `immediate` is set."""
        await self.connection.ask(StopWorker(worker, immediate), Done)

    async def stop_foreman(self, *, drain: bool = False) -> None:
        """Stop the foreman. With `drain`, workers finish their tasks and stop too."""
        await self.connection.ask(StopForeman(drain), Done)
