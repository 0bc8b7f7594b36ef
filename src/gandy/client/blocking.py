"""The client for programs without asyncio: each verb runs the one of `aio` on a loop in a thread behind it.

It owns the thread and nothing else. Any number of threads may use one client.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine, Iterable, Iterator, Sequence
from threading import Lock, Thread
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar, Unpack, cast

from gandy.client.aio import AsyncClient, AsyncJob
from gandy.client.caller import CallOptions
from gandy.client.calling import Reply
from gandy.client.options import FunctionOptions
from gandy.client.spec import SubmitOptions
from gandy.config import Address
from gandy.core.model import JobState, TaskState
from gandy.core.requests import Invited, KeyMade, KeyRow, NotForgotten, Status, TaskOutput, WorkerRow
from gandy.core.rows import JobRow, TaskRow
from gandy.ids import JobId

if TYPE_CHECKING:
    from gandy.client.functions import CallFuture, Functions
    from gandy.client.pending import CallStream

T = TypeVar("T")


class _Background:
    """A loop that runs in a thread of its own, from the first use until `close`."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: Thread | None = None
        self._starting = Lock()

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        future = asyncio.run_coroutine_threadsafe(work, self.get_loop())
        try:
            return future.result()
        except BaseException:
            future.cancel()  # Ctrl-C here must end the work there
            raise

    def iterate(self, items: AsyncGenerator[T, None]) -> Iterator[T]:
        try:
            while (item := self.run(_step(items))) is not _END:
                yield cast("T", item)
        except GeneratorExit:  # whoever looped over it stopped half way
            if self._loop is not None:
                self.run(items.aclose())
            raise

    def iterate_pages(self, pages: AsyncGenerator[Sequence[T], None]) -> Iterator[T]:
        """Item by item. A step to the other thread costs more than a row; the next page comes while one is used."""
        for page in self.iterate(_read_ahead(pages)):
            yield from page

    def close(self) -> None:
        if self._loop is None or self._thread is None:
            return
        self.run(self._loop.shutdown_asyncgens())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def get_loop(self) -> asyncio.AbstractEventLoop:
        with self._starting:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                # A daemon: a program that forgets to close its client can still end.
                self._thread = Thread(target=self._loop.run_forever, name="gandy-client", daemon=True)
                self._thread.start()
            return self._loop


_END: Final = object()


async def _step(items: AsyncGenerator[T, None]) -> object:
    return await anext(items, _END)


async def _read_ahead(pages: AsyncGenerator[T, None]) -> AsyncGenerator[T, None]:
    coming = asyncio.ensure_future(_step(pages))
    try:
        while (page := await coming) is not _END:
            coming = asyncio.ensure_future(_step(pages))
            yield cast("T", page)
    finally:
        coming.cancel()
        await asyncio.gather(coming, return_exceptions=True)
        await pages.aclose()


async def _await(start: Callable[[], "asyncio.Future[T]"]) -> T:
    return await start()


async def _stream(start: "Callable[[], CallStream]") -> AsyncGenerator[Any, None]:
    async with start() as values:
        async for value in values:
            yield value


class Client:
    """Talks to one foreman: at `foreman`, else at GANDY_FOREMAN, else on this machine under GANDY_HOME.

    The one of an `ensemble` is found by that name alone.
    """

    def __init__(self, foreman: str | None = None, *, ensemble: str | None = None) -> None:
        self._client = AsyncClient(foreman, ensemble=ensemble)
        self._background = _Background()
        self._plain_functions: Functions | None = None  # without options
        self._making = Lock()

    def __enter__(self) -> Self:
        try:
            self.connect()
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def address(self) -> Address:
        return self._client.address

    def connect(self) -> None:
        """Raises: LinkError, when nobody listens."""
        self._background.run(self._client.connect())

    def close(self) -> None:
        """Calls of functions that were queued go on; nobody here will hear of their values any more."""
        self._background.run(self._client.close())
        self._background.close()

    def functions(self, **options: Unpack[FunctionOptions]) -> "Functions":
        """Calls of Python functions with the same options: `retries`, `timeout`, `slots`, `tags` and others."""
        return self._client.make_functions(self._background.get_loop(), **options)

    def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> "CallFuture[T]":
        """Call a Python function somewhere in the crew.

        Raises: NotPicklable, ConfigError.
        """
        return self._plain.run(function, *args, **kwargs)

    def map(
        self,
        function: Callable[..., T],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        ordered: bool = True,
        timeout: float | None = None,
        progress: bool = False,
    ) -> Iterator[T]:
        """The values of a Python function for all items, in order or as they come, with a progress bar if so wanted.

        Raises: NotPicklable, ConfigError; TimeoutError, and what the function raises.
        """
        return self._plain.map(
            function, *iterables, chunksize=chunksize, ordered=ordered, timeout=timeout, progress=progress
        )

    @property
    def _plain(self) -> "Functions":
        with self._making:
            if self._plain_functions is None:
                self._plain_functions = self.functions()
            return self._plain_functions

    def call(self, name: str, /, *args: Any, **options: Unpack[CallOptions]) -> Any:
        """The value of a command that workers have installed.

        Raises: CallFailed, with what the command raised; UnknownCommand, WorkerLost, Busy, CallTimeout, NoClock;
        LinkError; TypeError, ValueError, NotPicklable, where the arguments cannot be sent.
        """
        return self._background.run(_await(lambda: self._client.call(name, *args, **options)))

    def cast(self, name: str, /, *args: Any, pickle: bool = False, at: float | None = None) -> None:
        """Have a command run, and never hear of it. It still takes a slot. Raises: LinkError."""
        self._background.run(self._client.cast(name, *args, pickle=pickle, at=at))

    def stream(self, name: str, /, *args: Any, **options: Unpack[CallOptions]) -> Iterator[Any]:
        """The values of a command as they come. Whoever stops early ends it on the worker.

        Raises, after the values before it: what `call` raises.
        """
        return self._background.iterate(_stream(lambda: self._client.stream(name, *args, **options)))

    def call_all(self, name: str, /, *args: Any, **options: Unpack[CallOptions]) -> "list[Reply]":
        """What every worker that offers the command says, in the order of their names. Raises: UnknownCommand.

        With `at` it begins everywhere at this shared time; a worker that does not know it replies with NoClock.
        """
        return self._background.run(self._client.call_all(name, *args, **options))

    def submit(self, command: str | Sequence[str], **options: Unpack[SubmitOptions]) -> "Job":
        """Queue a shell line, or an argument vector that no shell sees. When this returns, the job is on disk.

        Raises: ConfigError, Rejected, NoClock, StoreError, LinkError. After a LinkError nobody knows whether it was
        taken.
        """
        return Job(self._background, self._background.run(self._client.submit(command, **options)))

    def job(self, job: int) -> "Job":
        """A job by its number. Whether there is one shows when something is asked about it."""
        return Job(self._background, self._client.job(job))

    def jobs(self, states: Iterable[JobState] | None = None) -> Iterator[JobRow]:
        """Every job, the newest first; or those in some states."""
        return self._background.iterate_pages(self._client.job_pages(states))

    def forget(self, jobs: Iterable[int]) -> list[NotForgotten]:
        """Delete all that is kept about these jobs. Gives those that stay: they have not ended, or never were."""
        return self._background.run(self._client.forget(jobs))

    def workers(self) -> tuple[WorkerRow, ...]:
        return self._background.run(self._client.workers())

    def status(self) -> Status:
        """How the foreman is."""
        return self._background.run(self._client.status())

    def keys(self) -> tuple[KeyRow, ...]:
        """Keys and open invitations. This and the next three are for the foreman's own user, on its machine."""
        return self._background.run(self._client.keys())

    def make_key(self, public_key: bytes, name: str, role: str, seconds: float | None = None) -> KeyMade:
        """Let a public key, DER, be good. Raises: Rejected, NotAllowed."""
        return self._background.run(self._client.make_key(public_key, name, role, seconds))

    def revoke_key(self, key: str) -> tuple[KeyRow, ...]:
        """By name or id; those that are good no longer. Raises: Rejected, NotAllowed."""
        return self._background.run(self._client.revoke_key(key))

    def invite(self, role: str, seconds: float, uses: int = 1, addresses: Sequence[str] = ()) -> Invited:
        """A token for `gandy join`. Raises: Rejected, NotAllowed."""
        return self._background.run(self._client.invite(role, seconds, uses, addresses))

    def now(self) -> float:
        """The shared time of the foreman's ensemble, good for half of the way there and back. Raises: NoClock."""
        return self._background.run(self._client.now())

    def stop_worker(self, worker: str, *, immediate: bool = False) -> None:
        """Let a worker go, by name or id. Its tasks end first, unless it is immediate."""
        self._background.run(self._client.stop_worker(worker, immediate=immediate))

    def stop_foreman(self, *, drain: bool = False) -> None:
        """End the foreman. With `drain`, workers finish their tasks and leave too."""
        self._background.run(self._client.stop_foreman(drain=drain))


class Job:
    """A job that was submitted. It holds a number and no state: everything is asked anew."""

    def __init__(self, background: _Background, job: AsyncJob) -> None:
        self._background = background
        self._job = job

    def __repr__(self) -> str:
        return f"Job({self.id})"

    @property
    def id(self) -> JobId:
        return self._job.id

    def wait(self, timeout: float | None = None) -> JobRow:
        """The job when it has ended, however that was. A foreman that goes away and returns is waited for.

        Raises: JobTimeout, JobNotFound.
        """
        return self._background.run(self._job.wait(timeout))

    def watch(self) -> Iterator[JobRow]:
        """The job now and whenever it changes, until it has ended. A foreman that goes away is waited for."""
        return self._background.iterate(self._job.watch())

    def status(self) -> JobRow:
        return self._background.run(self._job.status())

    def tasks(self, states: Iterable[TaskState] | None = None) -> Iterator[TaskRow]:
        """Every task in the order of its number, each with its last attempt; or those in some states."""
        return self._background.iterate_pages(self._job.task_pages(states))

    def attempts(self, task: int = 1) -> tuple[TaskRow, ...]:
        """Every attempt at one task, the first one first."""
        return self._background.run(self._job.attempts(task))

    def output(self, task: int = 1, stream: str = "out", follow: bool = False) -> Iterator[bytes]:
        """What the last attempt at a task wrote, piece by piece. With `follow`, until the attempt has ended.

        Raises: JobNotFound, Rejected, LinkError; none of the latter where it follows.
        """
        return self._background.iterate(self._job.output(task, stream, follow))

    def outputs(self, stream: str = "out") -> Iterator[TaskOutput]:
        """What the last attempts at all tasks wrote, in the order of task numbers; much of one task in several pieces.

        A task whose output cannot be read has a `problem` instead. Raises: JobNotFound, LinkError.
        """
        return self._background.iterate_pages(self._job.output_pages(stream))

    def results(self) -> Iterator[Any]:
        """The values of a job of Python functions when it has ended, in the order of the calls.

        Raises: at its place, what a function raised, or TaskFailed; ConfigError for a job of commands.
        """
        return self._background.iterate(self._job.results())

    def cancel(self, tasks: Iterable[int] | None = None) -> JobRow:
        """End the whole job, or some of its tasks. What runs is killed."""
        return self._background.run(self._job.cancel(tasks))

    def retry(self, tasks: Iterable[int] | None = None) -> JobRow:
        """Try again what failed or was cancelled: all of it, or some tasks."""
        return self._background.run(self._job.retry(tasks))

    def hold(self) -> JobRow:
        """Start no more tasks; what runs goes on."""
        return self._background.run(self._job.hold())

    def release(self) -> JobRow:
        """Start tasks again after `hold`."""
        return self._background.run(self._job.release())

    def forget(self) -> None:
        """Delete all that is kept about the job, which must have ended."""
        self._background.run(self._job.forget())

    def explain(self, task: int | None = None) -> tuple[str, ...]:
        """Why tasks wait, or how they died: sentences for people."""
        return self._background.run(self._job.explain(task))
