"""The crew as a backend of joblib, and so of scikit-learn. Importing it is enough:

    import gandy.joblib
    with joblib.parallel_config("gandy"): ...

Each `Parallel` call is one job, and each batch one of its tasks.
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
from gandy.config import Addresses
from gandy.errors import ConfigError
from gandy.functions.tag import PYTHON_TAG
from gandy.worker.table import SLOT_MARK

NAME: Final = "gandy"
OPTIONS: Final = frozenset(FunctionOptions._fields)

Batch = Future[list[Any]]  # the values of its items


class GandyBackend(AutoBatchingMixin, ParallelBackendBase):  # type: ignore[misc]  # joblib has no types
    """`parallel_config("gandy", foreman=..., retries=...)` makes one. It takes the options of `Client.functions`.

    Raises: ConfigError.
    """

    supports_retrieve_callback = True
    default_n_jobs = -1

    def __init__(self, nesting_level: int | None = None, foreman: Addresses | None = None, **options: Any) -> None:
        super().__init__(nesting_level=nesting_level)
        unknown = set(options) - OPTIONS
        if unknown:
            raise ConfigError(f"the backend {NAME!r} of joblib has no option {', '.join(sorted(unknown))}")
        self._given = {"foreman": foreman, **options}
        self._foreman = foreman
        self._options = {"name": "joblib", **options}
        self._crew: _Crew | None = None  # from `configure` to `terminate`

    def effective_n_jobs(self, n_jobs: int | None) -> int:
        """How many batches may run at once: `n_jobs`, or for -1 all slots of the crew. Raises: LinkError."""
        if n_jobs == 0:
            raise ValueError("n_jobs == 0 in Parallel has no meaning")
        if n_jobs is None:
            n_jobs = self.default_n_jobs
        if n_jobs > 0:
            return n_jobs
        if _is_in_slot():
            return int(ThreadingBackend().effective_n_jobs(n_jobs))
        # With 1, joblib would not use this backend at all, and would run everything in this process.
        return max(self._count_slots() + 1 + n_jobs, 2)

    def configure(self, n_jobs: int = 1, parallel: Any = None, **others: Any) -> int:
        """Raises: FallbackToBackend, which joblib handles; LinkError, ConfigError."""
        if n_jobs == 1:
            raise FallbackToBackend(SequentialBackend(nesting_level=self.nesting_level))
        if _is_in_slot():  # tasks that wait for tasks could fill all slots and wait for ever
            raise FallbackToBackend(ThreadingBackend(nesting_level=self.nesting_level))
        # `Parallel` passes its own options here too, and future versions of joblib may pass more.
        given = {**self._given, **{key: value for key, value in others.items() if key in {"foreman", *OPTIONS}}}
        # A generator from an earlier call in the same `with` block may still run, so each call has its own crew.
        if given != self._given or self._crew is not None:
            raise FallbackToBackend(GandyBackend(self.nesting_level, **given))
        count = self.effective_n_jobs(n_jobs)
        limit = None if n_jobs == -1 else count
        limits = [some for some in (limit, self._options.get("limit")) if some is not None]
        self._crew = _Crew(self._foreman, {**self._options, "limit": min(limits, default=None)})
        self.parallel = parallel
        return count

    def submit(self, func: BatchedCalls, callback: Callable[[Batch], None] | None = None) -> Batch:
        """Never raises: joblib may call it on a thread where the error would be lost."""
        crew = self._crew
        if crew is None:  # another thread has just called `terminate`
            return Future()
        batch: Batch
        try:
            batch = crew.run(func)
        except Exception as error:  # noqa: BLE001 - pickling runs code of the arguments
            batch = Future()
            batch.set_exception(error)
        if callback is not None:
            crew.call_when_done(batch, callback)
        return batch

    def retrieve_result_callback(self, batch: Batch) -> list[Any]:
        """Return the values of a batch. Raises: what a function raised, TaskFailed."""
        return batch.result()

    def abort_everything(self, ensure_ready: bool = True) -> None:
        """Cancel the tasks that wait, and kill those that run."""
        if self._crew is not None:
            self._crew.abandon_all()
            if ensure_ready:
                self._crew.wait_for_callbacks()

    def terminate(self) -> None:
        crew, self._crew = self._crew, None
        if crew is not None:
            crew.close()
        self.reset_batch_stats()

    def _count_slots(self) -> int:
        """Count the tasks that all suitable workers can run at once."""
        with Client(self._foreman) as client:
            rows = client.workers()
        tags = {*self._options.get("tags", ()), PYTHON_TAG}
        fitting = [row.slots for row in rows if row.connected and not row.draining and tags <= set(row.tags)]
        if not fitting:
            warnings.warn(f"no worker with the tags {', '.join(sorted(tags))} is connected: tasks wait", stacklevel=2)
        return sum(slots // self._options.get("slots", 1) for slots in fitting)


class _Crew:
    """The client and the function set of one `Parallel` call or `with Parallel(...)` block. Raises: LinkError."""

    def __init__(self, foreman: Addresses | None, options: dict[str, Any]) -> None:
        self._client = Client(foreman)
        try:
            self._client.connect()  # not `__enter__`: methods of decorated functions must not use this client
        except BaseException:
            self._client.close()
            raise
        self._functions = self._client.functions(**options)
        # joblib's callbacks fetch the next items and pickle them, which must not block the client's loop.
        self._callback_thread = ThreadPoolExecutor(1, "gandy-joblib")
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

    def call_when_done(self, batch: Batch, callback: Callable[[Batch], None]) -> None:
        aborts = self._aborts

        def run_callback() -> None:
            if aborts == self._aborts:
                callback(batch)

        def on_done(_: Batch) -> None:
            with suppress(RuntimeError):  # `close` has shut the thread down: joblib expects no more callbacks
                self._callback_thread.submit(run_callback)

        batch.add_done_callback(on_done)

    def abandon_all(self) -> None:
        self._aborts += 1
        for future in list(self._futures):
            future.abandon()

    def wait_for_callbacks(self) -> None:
        """Wait until no callback of an abandoned batch runs: joblib would take its error for one of the next call."""
        self._callback_thread.submit(int).result()

    def close(self) -> None:
        with self._lock:
            self._is_closed = True
        self._callback_thread.shutdown(wait=False)
        self.abandon_all()
        self._client.close()


def _is_in_slot() -> bool:
    """True if this process runs functions for a worker."""
    return SLOT_MARK in os.environ


register_parallel_backend(NAME, GandyBackend)
