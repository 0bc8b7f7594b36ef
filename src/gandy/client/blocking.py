"""The client for programs without asyncio: the methods of `aio`, each run on a loop in a background thread.

Any number of threads may use one client.
"""

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from functools import wraps
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, Never, ParamSpec, Self, TypeVar

from gandy.client import current
from gandy.client.aio import AsyncClient
from gandy.client.aio_job import AsyncJob
from gandy.client.background import BackgroundLoop, Blocking, iterating, paging, returning, waiting
from gandy.client.checks import Duration, FolderPath, JobReference, Size, refuse_unknown
from gandy.client.options import FunctionOptions
from gandy.client.shown import Shown, list_client_renderings, list_job_renderings
from gandy.client.signatures import typed_map, typed_run
from gandy.config import Address, Addresses
from gandy.functions.decorated import ExceptionKinds
from gandy.ids import JobId

if TYPE_CHECKING:
    from asyncio import AbstractEventLoop

    from gandy.client.connection import Connection
    from gandy.client.functions import Functions
    from gandy.client.futures import FunctionFuture
    from gandy.notebook.display import Renderings

A = TypeVar("A")
P = ParamSpec("P")
T = TypeVar("T")


class Job(Shown):
    """A job that was submitted. It holds a number and no state: each method asks the foreman."""

    def __init__(self, loop: BackgroundLoop, job: AsyncJob) -> None:
        self._loop = loop
        self._wrapped = job

    def __repr__(self) -> str:
        return f"Job({self.id})"

    def _list_renderings(self) -> "Renderings":
        return list_job_renderings(self._wrapped)

    def _find_connection(self) -> "Connection":
        return self._wrapped._find_connection()

    def _find_loop(self) -> "AbstractEventLoop":
        return self._loop.get_loop()

    @property
    def id(self) -> JobId:
        return self._wrapped.id

    wait = waiting(AsyncJob.wait)
    watch = iterating(AsyncJob.watch)
    status = waiting(AsyncJob.status)
    tasks = paging(AsyncJob.task_pages, AsyncJob.tasks)
    attempts = waiting(AsyncJob.attempts)
    output = iterating(AsyncJob.output)
    outputs = paging(AsyncJob.output_pages, AsyncJob.outputs)
    results = iterating(AsyncJob.results)
    result = waiting(AsyncJob.result)
    cancel = waiting(AsyncJob.cancel)
    retry = waiting(AsyncJob.retry)
    hold = waiting(AsyncJob.hold)
    release = waiting(AsyncJob.release)
    forget = waiting(AsyncJob.forget)
    explain = waiting(AsyncJob.explain)


def submitting(
    method: Callable[Concatenate[A, P], Awaitable[AsyncJob]],
) -> Callable[Concatenate[Blocking[A], P], Job]:
    """Wrap an asynchronous method that returns a job."""
    submit = waiting(method)

    @wraps(method)
    def run(self: Blocking[A], /, *args: P.args, **kwargs: P.kwargs) -> Job:
        return Job(self._loop, submit(self, *args, **kwargs))

    return returning(run, "Job")


class Client(Shown):
    """A client of a crew, whose foreman is at `foreman`, else at GANDY_FOREMAN, else where `gandy join` found it, else
    on this machine.

    A crew may have many foremen: `foreman` takes one address or several, in a list or with commas between them. The
    first that answers is used, and if it dies, another one. With `ensemble`, the foreman of that ensemble.
    """

    def __init__(self, foreman: Addresses | None = None, *, ensemble: str | None = None) -> None:
        self._wrapped = AsyncClient(foreman, ensemble=ensemble)
        self._loop = BackgroundLoop()

    def __repr__(self) -> str:
        return repr(self._wrapped).removeprefix("Async")

    def _list_renderings(self) -> "Renderings":
        return list_client_renderings(self._wrapped, repr(self))

    def _find_connection(self) -> "Connection":
        return self._wrapped._find_connection()

    def _find_loop(self) -> "AbstractEventLoop":
        return self._loop.get_loop()

    connect = waiting(AsyncClient.connect)
    submit = submitting(AsyncClient.submit)
    call = waiting(AsyncClient.call)
    cast = waiting(AsyncClient.cast)
    stream = iterating(AsyncClient.stream)
    call_all = waiting(AsyncClient.call_all)
    result = waiting(AsyncClient.result)
    jobs = paging(AsyncClient.job_pages, AsyncClient.jobs)
    forget = waiting(AsyncClient.forget)
    workers = waiting(AsyncClient.workers)
    status = waiting(AsyncClient.status)
    foremen = waiting(AsyncClient.foremen)
    drain_foreman = waiting(AsyncClient.drain_foreman)
    audit = waiting(AsyncClient.audit)
    keys = waiting(AsyncClient.keys)
    make_key = waiting(AsyncClient.make_key)
    revoke_key = waiting(AsyncClient.revoke_key)
    invite = waiting(AsyncClient.invite)
    now = waiting(AsyncClient.now)
    stop_worker = waiting(AsyncClient.stop_worker)
    stop_foreman = waiting(AsyncClient.stop_foreman)

    def __enter__(self) -> Self:
        try:
            self.connect()
            current.enter(self)
        except BaseException:
            self.close()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, KeyboardInterrupt):
            self._wrapped.function_sets.abandon()
        self.close()

    @property
    def address(self) -> Address:
        """Where the foreman is, or the first place to look for it."""
        return self._wrapped.address

    def close(self) -> None:
        """Close the client. Function tasks that were queued go on, but their futures get no return values any more."""
        current.leave(self)
        self._loop.run(self._wrapped.close())
        self._loop.close()

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
    ) -> "Functions":
        """Run Python functions with these options, unless `@gandy.task` overrides them.

        `timeout` (seconds, "10min") and `memory` (bytes, "2G") are for each attempt; `limit` is how many may run at the
        same time; `fresh` runs each in a new process; with `retry_on`, only these exceptions lead to another attempt.

        Raises: ConfigError.
        """
        refuse_unknown("functions", unknown, FunctionOptions._fields)
        options = FunctionOptions(
            name, retries, timeout, memory, priority, slots, tags, limit, fresh, cwd, env, retry_on
        )
        return self._wrapped.function_sets.open(self._loop.get_loop(), options)

    @typed_run
    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> "FunctionFuture[T]":
        """Run a Python function on a worker.

        Raises: NotPicklable, ConfigError.
        """
        return self._get_default_functions().run(function, *args, **kwargs)

    @typed_map
    def map(
        self,
        function: Callable[..., T],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        ordered: bool = True,
        timeout: Duration | None = None,
        progress: bool = False,
    ) -> Iterator[T]:
        """Iterate over the return values of a Python function for all items, in order or as they come.

        `progress` draws a bar in a terminal or a notebook. Raises: NotPicklable, ConfigError; TimeoutError, and what
        the function raises.
        """
        return self._get_default_functions().map(
            function, *iterables, chunksize=chunksize, ordered=ordered, timeout=timeout, progress=progress
        )

    def _get_default_functions(self) -> "Functions":
        return self._wrapped.function_sets.get_default(self._loop.get_loop())

    def job(self, job: JobReference) -> Job:
        """Return a job by its number. A number that does not exist raises JobNotFound when the job is used."""
        return Job(self._loop, self._wrapped.job(job))
