"""A crew as a `concurrent.futures.Executor`: a program for a process pool needs one changed line."""

import concurrent.futures
import os
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import suppress
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Final, Never, ParamSpec, TypeVar, overload
from weakref import finalize

from gandy.client.blocking import Client
from gandy.client.checks import Duration, FolderPath, Size, refuse_unknown
from gandy.client.functions import Functions, log_interrupted
from gandy.client.futures import ExecutorFuture
from gandy.client.options import FunctionOptions
from gandy.config import Addresses
from gandy.errors import ConfigError
from gandy.functions import NotPicklable
from gandy.functions.decorated import ExceptionKinds

P = ParamSpec("P")
T = TypeVar("T")

# Arguments of pools that a crew cannot accept: its processes are older than the program, and serve others too.
REFUSED: Final = {
    "initializer": "set up what is needed in the function, or in a module that it imports",
    "initargs": "there is no initializer",
    "mp_context": "processes are started by the workers",
    "max_tasks_per_child": "fresh=True gives each task a new process",
    "thread_name_prefix": "functions run in processes",
}


class Executor(concurrent.futures.Executor):
    """Runs functions on the crew whose foreman is at `foreman`, else at GANDY_FOREMAN, else on this machine.

    The options apply to every function; `limit` and `max_workers` mean the same. Unlike a pool, a function that kills
    its process does not break it, and a program can end without waiting: the foreman has the tasks, and they go on.
    Ctrl-C cancels them.
    """

    def __init__(
        self,
        foreman: Addresses | None = None,
        *,
        max_workers: int | None = None,
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
        **refused: Never,  # so that programs written for pools get advice
    ) -> None:
        """Raises: LinkError, if no foreman can be reached; ConfigError, ValueError, TypeError."""
        _check_arguments(foreman, max_workers, limit, refused)
        limit = limit if max_workers is None else max_workers
        options = FunctionOptions(
            name, retries, timeout, memory, priority, slots, tags, limit, fresh, cwd, env, retry_on
        )
        client = Client(foreman)
        try:
            client.connect()  # otherwise, without a foreman, tasks would wait for ever
            self._functions = client.functions(**options._asdict())
        except BaseException:
            client.close()
            raise
        self._ending = _Ending(client, self._functions)
        self._abandon = finalize(self, self._ending.start_soon)
        self._abandon.atexit = False  # at exit, `Functions` sends the tasks that are left

    @overload
    def submit(self, fn: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
    @overload
    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]: ...
    def submit(self, fn: Callable[P, Any], /, *args: P.args, **kwargs: P.kwargs) -> Future[Any]:
        """Run `fn` on a worker. As in a pool, it is the future that raises NotPicklable.

        Raises: ConfigError, RuntimeError after `shutdown`.
        """
        try:
            return self._functions.queue(ExecutorFuture[Any], fn, args, kwargs)
        except NotPicklable as error:
            future: Future[Any] = Future()
            future.set_exception(error)
            return future

    def map(
        self, fn: Callable[..., T], *iterables: Iterable[Any], timeout: Duration | None = None, chunksize: int = 1
    ) -> Iterator[T]:
        """Iterate over the return values of `fn` in order. All items are queued now, `chunksize` to a task."""
        return self._functions.map(fn, *iterables, chunksize=chunksize, timeout=timeout)

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Accept no more functions. Without `cancel_futures`, those that are queued go on, even without `wait`."""
        self._functions.close(cancel=cancel_futures)
        if wait:
            try:
                self._ending.run()
            except KeyboardInterrupt:
                log_interrupted(self._functions.abandon())
                raise
        elif self._abandon.detach():
            self._ending.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        is_interrupted = isinstance(error, KeyboardInterrupt)
        if is_interrupted:
            log_interrupted(self._functions.abandon())
        self.shutdown(wait=not is_interrupted)


class _Ending:
    """Waits for the last task and closes the client, once. Has no reference to the executor, which may be gone."""

    def __init__(self, client: Client, functions: Functions) -> None:
        self._client = client
        self._functions = functions
        self._process = os.getpid()
        self._lock = Lock()
        self._is_done = False

    def run(self) -> None:
        if os.getpid() != self._process:  # forked: the loop and the link are the parent's
            return
        with self._lock:
            if self._is_done:
                return
            self._functions.close()
            self._functions.wait()
            self._client.close()
            self._is_done = True

    def start(self) -> None:
        Thread(target=self.run, name="gandy-ending", daemon=True).start()

    def start_soon(self) -> None:
        """Start from the garbage collector, which may run at any moment, whatever locks are held."""
        with suppress(RuntimeError):  # the loop is closed, and there is nothing left to do
            self._functions.loop.call_soon_threadsafe(self.start)


def _check_arguments(foreman: object, max_workers: int | None, limit: int | None, refused: Mapping[str, Any]) -> None:
    if isinstance(foreman, int):
        raise TypeError(f"the first argument is the foreman's address; say max_workers={foreman}")
    if max_workers is not None and max_workers <= 0:
        raise ValueError("max_workers must be greater than 0")
    if max_workers is not None and limit is not None:
        raise ConfigError("max_workers and limit are the same: give one of them")
    for name in refused:
        if name in REFUSED:
            raise ConfigError(f"a crew has no {name}: {REFUSED[name]}")
    refuse_unknown("an executor", refused, FunctionOptions._fields)
