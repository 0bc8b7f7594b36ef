"""Function sets: each run of a function is pickled into a task, and a future has its return value.

`open_job` sends the tasks and receives the results.
"""

import asyncio
import atexit
import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, as_completed, wait
from contextlib import contextmanager, suppress
from itertools import islice
from threading import Lock
from typing import Any, Final, ParamSpec, TypeVar
from weakref import WeakSet

from msgspec.structs import replace

from gandy.client.checks import Duration, check_function, check_kinds, to_seconds
from gandy.client.code import describe_code
from gandy.client.connection import SEND_PATIENCE, Connection
from gandy.client.decorator import get_options
from gandy.client.futures import CANCEL_PATIENCE, FunctionFuture, retract
from gandy.client.open_job import OpenJob
from gandy.client.options import FunctionOptions, JobOptions
from gandy.client.signatures import typed_map, typed_run
from gandy.client.spec import find_folder, make_submit
from gandy.clocks import read_monotonic
from gandy.core.model import JobSpec, PythonSpec
from gandy.errors import ConfigError, TaskTooLarge
from gandy.functions import pack_function, pack_items, pack_task
from gandy.functions.decorated import Retrying
from gandy.functions.tag import PYTHON_TAG
from gandy.functions.tasks import name_function
from gandy.ids import JobId
from gandy.limits import MAX_PICKLE_BYTES
from gandy.moments import Monotonic
from gandy.progress import showing

C = TypeVar("C")
P = ParamSpec("P")
T = TypeVar("T")

Chunk = FunctionFuture[list[Any]]  # of values of a map

log = logging.getLogger("gandy.client")


class Functions:
    """Runs functions with the same options, unless `@gandy.task` overrides some for a function.

    Any thread may use it. In the loop's own thread, futures must be awaited, not waited for.
    """

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop, options: FunctionOptions) -> None:
        """Raises: ConfigError."""
        self._connection = connection
        self.loop = loop
        self._options = options
        self._lock = Lock()
        self._single_jobs: dict[str, OpenJob] = {}  # of functions that are run one by one, by the functions' options
        self._jobs: list[OpenJob] = []
        self._refusal = ""  # why no more tasks are accepted
        _living.add(self)

    @typed_run
    def run(self, function: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> FunctionFuture[T]:
        """Run a function on a worker. Raises: NotPicklable, ConfigError, RuntimeError after `close`."""
        return self.queue(FunctionFuture[T], function, args, kwargs)

    def queue(
        self,
        make: Callable[[OpenJob, bytes], C],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> C:
        """Like `run`; `make` adds the pickled task to the job and returns a future."""
        check_function(function)
        own_options = get_options(function)
        task = _check_size(pack_task(self._limit_retries(function, own_options), args, kwargs))
        while True:
            job = self._get_single_job(own_options)
            try:
                return make(job, task)
            except (RuntimeError, CancelledError):
                if job.queue.takes_tasks:  # otherwise the job was closed just now: try with the next one
                    raise

    def _limit_retries(self, function: Callable[..., Any], own_options: dict[str, Any]) -> Callable[..., Any]:
        """Wrap the function if only some exceptions lead to another attempt. Raises: ConfigError."""
        kinds = check_kinds("retry_on", own_options.get("retry_on", self._options.retry_on))
        return function if kinds is None else Retrying(function, kinds)

    def _get_single_job(self, own_options: dict[str, Any]) -> OpenJob:
        key = repr(sorted(own_options.items())) if own_options else ""
        with self._lock:
            job = self._single_jobs.get(key)
            if job is None or not job.queue.takes_tasks:
                job = self._single_jobs[key] = self._open_job("functions", own_options)
            return job

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
        """Iterate over the return values for all items, in order or as they come.

        All items are queued now, `chunksize` to a task. If the caller stops early, or an error is raised, the rest is
        cancelled. `progress` draws a bar in a terminal or a notebook.

        Raises: TimeoutError, and what the function raises.
        """
        seconds = to_seconds("timeout", timeout)
        deadline = None if seconds is None else read_monotonic() + seconds
        futures = self.run_chunks(function, *iterables, chunksize=chunksize)
        values = _iterate(futures, deadline) if ordered else _iterate_as_they_come(futures, deadline)
        return _show(values, name_function(function), futures) if progress else values

    def run_chunks(self, function: Callable[..., T], *iterables: Iterable[Any], chunksize: int = 1) -> list[Chunk]:
        """Like `map`, but return one future per chunk, each with a list of values."""
        return self.run_items(function, zip(*iterables, strict=False), chunksize)

    def run_items(
        self, function: Callable[..., Any], items: Iterable[tuple[Any, ...]], chunksize: int = 1
    ) -> list[Chunk]:
        """Like `run_chunks`, with the arguments of each run in a tuple."""
        return self.queue_items(Chunk, function, items, chunksize)

    def queue_items(
        self,
        make: Callable[[OpenJob, bytes, int], C],
        function: Callable[..., Any],
        items: Iterable[tuple[Any, ...]],
        chunksize: int,
    ) -> list[C]:
        """Like `run_items`; `make` adds a pickled chunk to the job, with its number of items, and returns a future."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        check_function(function)
        shared = pack_function(self._limit_retries(function, get_options(function)))
        with self._lock:
            job = self._open_job(name_function(function), get_options(function), shared)
        left = iter(items)
        chunks = iter(lambda: list(islice(left, chunksize)), [])
        try:
            return [make(job, _check_size(pack_items(chunk)), len(chunk)) for chunk in chunks]
        except BaseException:
            job.retractor.retract_all()  # the caller gets no futures
            raise
        finally:
            job.queue.close()

    def close(self, cancel: bool = False) -> None:
        """Accept no more functions. Those that wait are cancelled if `cancel` is set; the others go on."""
        with self._lock:
            self._refusal = self._refusal or "cannot schedule new futures after shutdown"
            jobs = list(self._jobs)
        answers = [job.retractor.retract_all() for job in jobs] if cancel else []
        for job in jobs:
            job.queue.close()
        if not any(job.is_on_loop for job in jobs):
            wait(answers, CANCEL_PATIENCE)

    def abandon(self) -> int:
        """Cancel every task that has not ended, and kill those that run. Returns how many."""
        with self._lock:
            jobs = list(self._jobs)
        return sum(job.queue.abandon_all() for job in jobs)

    def close_job(self, number: JobId, is_cancelled: bool) -> None:
        """Let a job end with the tasks that it has. The next function opens another."""
        with self._lock:
            jobs = [job for job in self._jobs if job.number == number]
        for job in jobs:
            if is_cancelled:
                job.on_cancelled()
            else:
                job.queue.close()

    def has_task(self, number: JobId, task: int) -> bool:
        """True if the task is one of these, and there is no result of it yet."""
        with self._lock:
            return any(job.number == number and job.queue.find(task) is not None for job in self._jobs)

    async def wait_sent(self) -> None:
        for job in self._jobs:
            await job.wait_sent()

    def wait(self) -> None:
        """Wait until all tasks have ended. Call `close` before, and not in the loop's thread."""
        wait([job.running for job in self._jobs])

    async def wait_closed(self) -> None:
        for job in self._jobs:
            await job.wait_closed()

    async def end(self, patience: float) -> None:
        """Close, wait until the foreman has the tasks that were queued, and forget them here."""
        self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.wait_sent()
        if unsent := sum(job.queue.unsent for job in self._jobs):
            log.warning("%d tasks have not reached the foreman at %s", unsent, self._connection.address)
        for job in self._jobs:
            job.abort()

    def forget(self) -> None:
        """Forget everything in a forked child: the loop runs in the parent only, and a lock may be held for ever."""
        self._lock = Lock()
        self._single_jobs = {}
        self._jobs = []
        self._refusal = "this belongs to the process that was forked: make another one here"

    def _open_job(self, label: str, own_options: dict[str, Any], shared: bytes = b"") -> OpenJob:
        if self._refusal:
            raise RuntimeError(self._refusal)
        job = OpenJob(self._connection, self.loop, make_spec(label, shared, self._options._replace(**own_options)))
        self._jobs = [known for known in self._jobs if not known.running.done()] + [job]
        return job


def make_spec(label: str, shared: bytes, options: FunctionOptions) -> JobSpec:
    """Raises: ConfigError."""
    given = options._replace(cwd=find_folder(options.cwd), env={**describe_code(), **(options.env or {})})._asdict()
    python = PythonSpec(shared=shared, fresh=bool(given.pop("fresh")))
    if given.pop("retry_on") is not None and not options.retries:
        raise ConfigError("retry_on says what leads to another attempt, and there is none: write retries=3, too")
    spec = make_submit(("python", label), JobOptions(**given)).spec
    return replace(spec, tasks=0, has_lines=True, is_open=True, python=python, tags=(*spec.tags, PYTHON_TAG))


def _check_size(task: bytes) -> bytes:
    if len(task) > MAX_PICKLE_BYTES:
        raise TaskTooLarge(
            f"the pickled task has {len(task):,} bytes, and {MAX_PICKLE_BYTES:,} is the limit: pass a file's name"
        )
    return task


def _show(values: Iterator[T], label: str, futures: list[Chunk]) -> Iterator[T]:
    with showing(label, futures):
        yield from values


def _iterate(futures: list[Chunk], deadline: Monotonic | None) -> Iterator[Any]:
    futures.reverse()
    with _cancelling(futures):
        while futures:
            values = futures[-1].result(_seconds_left(deadline))
            del futures[-1]
            yield from _pop_each(values)


def _iterate_as_they_come(futures: list[Chunk], deadline: Monotonic | None) -> Iterator[Any]:
    waiting = set(futures)
    futures.clear()
    with _cancelling(waiting):
        for future in as_completed(waiting, _seconds_left(deadline)):
            waiting.discard(future)
            values = future.result()
            del future
            yield from _pop_each(values)


@contextmanager
def _cancelling(futures: list[Chunk] | set[Chunk]) -> Iterator[None]:
    """If the caller stops early, cancel the tasks that are left, unless they have begun. Ctrl-C kills these, too."""
    try:
        yield
    except KeyboardInterrupt:
        for future in futures:
            future.abandon()
        raise
    except BaseException:
        retract(futures)
        raise


def _pop_each(values: list[Any]) -> Iterator[Any]:
    """Iterate in order, and drop each value: it may be large."""
    values.reverse()
    while values:
        yield values.pop()


def _seconds_left(deadline: Monotonic | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - read_monotonic())


_living: Final[WeakSet[Functions]] = WeakSet()


def _end_all() -> None:
    """Send all queued tasks at exit, if the program has not closed its client. After Ctrl-C, cancel them."""
    running = [functions for functions in list(_living) if functions.loop.is_running()]
    if _was_interrupted():
        log_interrupted(sum(functions.abandon() for functions in running))
    ending = [asyncio.run_coroutine_threadsafe(functions.end(SEND_PATIENCE), functions.loop) for functions in running]
    wait(ending, SEND_PATIENCE + 1)


def _was_interrupted() -> bool:
    """True if Ctrl-C ends this program. In an interactive one, it ended only what the user typed."""
    error = getattr(sys, "last_type", None)  # what was printed last
    is_interactive = sys.flags.interactive or hasattr(sys, "ps1")
    return isinstance(error, type) and issubclass(error, KeyboardInterrupt) and not is_interactive


def log_interrupted(count: int) -> None:
    if count:
        log.warning("interrupted: %d function tasks that had not ended are cancelled", count)


def _forget_all() -> None:
    for functions in list(_living):
        functions.forget()
    _living.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget_all)
