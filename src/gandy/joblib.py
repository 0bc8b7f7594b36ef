"""The crew as a backend of joblib, and so of scikit-learn. Importing it is enough:

    import gandy.joblib
    with joblib.parallel_config("gandy"): ...

Batches become calls of one job for each `Parallel` call.
"""

import os
import warnings
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Any, Final

from joblib.parallel import (
    AutoBatchingMixin,
    BatchedCalls,
    FallbackToBackend,
    ParallelBackendBase,
    SequentialBackend,
    ThreadingBackend,
    register_parallel_backend,
)

from gandy.client import Client
from gandy.client.futures import FunctionFuture
from gandy.client.options import FunctionOptions
from gandy.errors import ConfigError
from gandy.functions.tag import PYTHON_TAG
from gandy.worker.table import SLOT_MARK

NAME: Final = "gandy"
OPTIONS: Final = frozenset(FunctionOptions._fields)

Batch = Future[list[Any]]  # the values of its items


class GandyBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # joblib has no types
    """Made by `parallel_config("gandy", foreman=..., retries=...)` with the options of functions.

    Raises: ConfigError.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, nesting_level: int | None = None, foreman: str | None = None, **options: Any) -> None:
        super().__init__(nesting_level=nesting_level)
        unknown = set(options) - OPTIONS
        if unknown:
            raise ConfigError(f"the backend {NAME!r} of joblib has no option {', '.join(sorted(unknown))}")
        self._said = {"foreman": foreman, **options}
        self._foreman = foreman
        self._options = {"name": "joblib", **options}
        self._crew: _Crew | None = None  # from `configure` to `terminate`

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many calls may run at once: what was asked for, or for -1 all slots of the crew. Raises: LinkError."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            n_jobs = self.default_n_jobs
        if n_jobs > 0:
            return n_jobs
        if _is_in_slot():
            return int(ThreadingBackend().effective_n_jobs(n_jobs))
        # With one, joblib would not ask us at all, and run everything in this process.
        return max(self._count_slots() + 1 + n_jobs, 2)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **others: Any) -> int:
        """Raises: FallbackToBackend, which joblib understands; LinkError, ConfigError."""
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        if _is_in_slot():  # calls that wait for calls could fill all slots, and wait forever
            raise FallbackToBackend(ThreadingBackend(nesting_level=self.nesting_level))
        # `Parallel` may have options too. Among them are some of joblib's own, and there may be more one day.
        said = {**self._said, **{key: value for key, value in others.items() if key in {"foreman", *OPTIONS}}}
        # A generator that began in the same `with` block may not have ended: each has a crew of its own.
        if said != self._said or self._crew is not None:
            raise FallbackToBackend(GandyBackend(self.nesting_level, **said))
        count = self.effective_n_jobs(n_jobs)
        limit = None if n_jobs == -1 else count
        limits = [some for some in (limit, self._options.get("limit")) if some is not None]
        self._crew = _Crew(self._foreman, {**self._options, "limit": min(limits, default=None)})
        self.parallel = parallel
        return count

    def submit(self, func: BatchedCalls, callback: Callable[[Batch], None] | None = None) -> Batch:
        """Never fails: joblib may call it on a thread where nobody would see that."""
        crew = self._crew
        if crew is None:  # it was terminated just now
            return Future()
        batch: Batch
        try:
            batch = crew.run(func)
        except Exception as error:  # noqa: BLE001 - pickling runs what the arguments want to run
            batch = Future()
            batch.set_exception(error)
        if callback is not None:
            crew.tell_when_done(batch, callback)
        return batch

    def retrieve_result_callback(self, batch: Batch) -> list[Any]:
        """The values of a batch. Raises: what a function raised, TaskFailed."""
        return batch.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """What waits is not started, and what runs is killed."""
        if self._crew is not None:
            self._crew.abandon_all()
            if ensure_ready:
                self._crew.fall_silent()

    def terminate(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.close()
        self.reset_batch_stats()

    def _count_slots(self) -> int:
        """Of workers that can run our calls."""
        with Client(self._foreman) as client:
            rows = client.workers()
        tags = {*self._options.get("tags", ()), PYTHON_TAG}
        fitting = [row.slots for row in rows if row.connected and not row.draining and tags <= set(row.tags)]
        if not fitting:
            warnings.warn(f"no worker with the tags {', '.join(sorted(tags))} is connected: calls wait", stacklevel=2)
        return sum(slots // self._options.get("slots", 1) for slots in fitting)


class _Crew:
    """What one `Parallel` call, or one `with Parallel(...)` block, has of the crew. Raises: LinkError."""

    def __init__(self, foreman: str | None, options: dict[str, Any]) -> None:
        self._client = Client(foreman).__enter__()
        self._functions = self._client.functions(**options)
        # joblib asks for the next items and has them pickled where it is told of an end: the client's loop is no place
        # for that.
        self._telling = ThreadPoolExecutor(1, "gandy-joblib")
        self._lock = Lock()
        self._is_closed = False
        self._futures: set[FunctionFuture[Any]] = set()  # that have not ended
        self._aborts = 0

    def run(self, batch: BatchedCalls) -> FunctionFuture[Any]:
        """Raises: NotPicklable, RuntimeError after `close`."""
        with self._lock:
            if self._is_closed:
                raise RuntimeError("this call of joblib.Parallel is over")
            future = self._functions.run(batch)
            self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    def tell_when_done(self, batch: Batch, callback: Callable[[Batch], None]) -> None:
        aborts = self._aborts

        def tell() -> None:
            if aborts == self._aborts:
                callback(batch)

        def on_done(_: Batch) -> None:
            with suppress(RuntimeError):  # it was shut down: nobody listens any more
                self._telling.submit(tell)

        batch.add_done_callback(on_done)

    def abandon_all(self) -> None:
        self._aborts += 1
        for future in list(self._futures):
            future.abandon()

    def fall_silent(self) -> None:
        """Until nobody is told of what was abandoned: joblib would take it for an error of what it does next."""
        self._telling.submit(int).result()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._telling.shutdown(wait=False)
        self.abandon_all()
        self._client.close()


def _is_in_slot() -> bool:
    """Whether this process runs calls for a worker."""
    return SLOT_MARK in os.environ


register_parallel_backend(NAME, GandyBackend)
