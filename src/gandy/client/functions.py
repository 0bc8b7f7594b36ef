"""Python functions on the crew: calls become futures. It pickles and opens, and leaves the sending to `stream`."""

import asyncio
import atexit
import logging
import os
import time
from collections.abc import Callable, Collection, Iterable, Iterator
from concurrent.futures import CancelledError, Future, InvalidStateError, as_completed, wait
from concurrent.futures._base import CANCELLED, PENDING
from contextlib import suppress
from itertools import islice
from threading import Condition, Lock, RLock
from typing import Any, Final, TypeVar, Unpack, cast
from weakref import WeakSet

from msgspec.structs import replace

from gandy.client.aio import SEND_PATIENCE, AsyncClient, tell_folder
from gandy.client.code import tell_code
from gandy.client.decorator import tell_options
from gandy.client.options import FunctionOptions
from gandy.client.progress import showing
from gandy.client.results import make_error
from gandy.client.spec import SubmitOptions, make_submit
from gandy.client.stream import CallStream
from gandy.core.model import JobSpec, PythonSpec, TaskState
from gandy.core.requests import ResultRow
from gandy.errors import CallTooLarge, ConfigError, GandyError
from gandy.functions import open_result, pack_function, pack_items, pack_task
from gandy.functions.tag import PYTHON_TAG
from gandy.functions.tasks import name_function
from gandy.ids import JobId

MAX_CALL_BYTES: Final = 2 << 30  # of one pickled call; the foreman takes no more
CANCEL_PATIENCE: Final = 10.0  # seconds for the foreman to say whether a call has begun, and its worker if it has it

C = TypeVar("C")
T = TypeVar("T")

log = logging.getLogger("gandy.client")


class LightCondition:
    """What a future needs of a `threading.Condition`, in a tenth of its memory as long as nobody waits.

    Futures of one stream share a lock: each holds it for a moment.
    """

    __slots__ = ("_full", "_lock")

    def __init__(self, lock: "RLock") -> None:
        self._lock = lock
        self._full: Condition | None = None

    def acquire(self) -> bool:
        return self._lock.acquire()

    def release(self) -> None:
        self._lock.release()

    def __enter__(self) -> bool:
        return self._lock.acquire()

    def __exit__(self, *error: object) -> None:
        self._lock.release()

    def wait(self, timeout: float | None = None) -> bool:
        if self._full is None:
            self._full = Condition(self._lock)
        return self._full.wait(timeout)

    def notify_all(self) -> None:
        if self._full is not None:
            self._full.notify_all()


class CallFuture(Future[T]):
    """The value of a call that runs elsewhere."""

    def __init__(self, stream: CallStream, call: bytes, size: int = 1) -> None:
        super().__init__()
        self._condition = LightCondition(stream.callers_lock)  # type: ignore[assignment]
        self.size = size  # items of a map in it
        self.stream = stream
        self.number = 0
        stream.add(call, self)

    @property
    def job(self) -> JobId:
        """The job that the call is a task of, once the foreman has it. Raises: GandyError."""
        return self.stream.job.result()

    def cancel(self) -> bool:
        """Whether the call never runs. It may wait for the answer of a worker that has it, and has not begun it.

        On the client's own thread, where callbacks run, it cannot wait: there a call that has just begun is killed.
        """
        if self.done() or self.running():
            return self.cancelled()
        if self.stream.is_on_loop:
            return self._cancel_at_once()
        answer = self.stream.retract([self.number])
        with suppress(TimeoutError):
            answer.result(CANCEL_PATIENCE)
        return self.cancelled() or (answer.done() and self.number in answer.result())

    def _cancel_at_once(self) -> bool:
        if not super().cancel():
            return False
        if self.stream.cancel(self.number):
            self._start_or_notify()
        return True

    def _start_or_notify(self) -> None:
        """It runs; or whoever waits for several futures learns that this one was cancelled."""
        with self._condition:  # a second attempt may start, and two threads may cancel
            if self._state in (PENDING, CANCELLED):
                self.set_running_or_notify_cancel()

    def abandon(self) -> None:
        """Nobody wants the value any more: the call is not started, or killed."""
        if not self._cancel_at_once() and self.stream.cancel(self.number):
            self._settle(None, CancelledError())

    # What the stream tells

    def on_start(self) -> None:
        self._start_or_notify()

    def on_end(self, row: ResultRow) -> None:
        if row.state is TaskState.FINISHED:
            self._settle(*open_value(row.result))
        elif row.state is not TaskState.CANCELLED:
            self._settle(None, make_error(row))
        elif super().cancel():
            self._start_or_notify()
        else:
            self._settle(None, CancelledError(f"task {row.task} was cancelled"))

    def on_failure(self, error: GandyError) -> None:
        self._settle(None, error)

    def _settle(self, value: Any, error: BaseException | None) -> None:
        try:
            if error is None:
                self.set_result(value)
            else:
                self.set_exception(error)
        except InvalidStateError:  # cancelled just now
            self._start_or_notify()


Chunk = CallFuture[list[Any]]  # of values of a map


class Functions:
    """Calls with the same options, unless `@gandy.task` says otherwise about a function.

    Any thread may use it; the loop must run in another one, or be awaited on.
    """

    def __init__(
        self, client: AsyncClient, loop: asyncio.AbstractEventLoop, **options: Unpack[FunctionOptions]
    ) -> None:
        """Raises: ConfigError."""
        unknown = options.keys() - FunctionOptions.__annotations__.keys()
        if unknown:
            raise ConfigError(f"functions have no option {', '.join(sorted(unknown))}")
        self._client = client
        self.loop = loop
        self._options = options
        self._lock = Lock()
        self._singles: dict[str, CallStream] = {}  # calls that are queued one by one, by what their functions want
        self._streams: list[CallStream] = []
        self._refusal = ""  # why no more calls are taken
        _living.add(self)

    def run(self, function: Callable[..., T], /, *args: Any, **kwargs: Any) -> CallFuture[T]:
        """Call it somewhere. Raises: NotPicklable, ConfigError, RuntimeError after `close`."""
        return self.queue(CallFuture[T], function, args, kwargs)

    def queue(
        self,
        make: Callable[[CallStream, bytes], C],
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
    ) -> C:
        """The same; `make` puts the pickled call into the stream and gives what the caller gets."""
        call = _check_size(pack_task(function, args, kwargs))
        wish = tell_options(function)
        while True:
            single = self._get_single(wish)
            try:
                return make(single, call)
            except (RuntimeError, CancelledError):
                if single.takes_calls:  # else it was closed or cancelled just now, and the next one is open
                    raise

    def _get_single(self, wish: FunctionOptions) -> CallStream:
        key = repr(sorted(wish.items())) if wish else ""
        with self._lock:
            single = self._singles.get(key)
            if single is None or not single.takes_calls:
                single = self._singles[key] = self._open("functions", wish)
            return single

    def map(
        self,
        function: Callable[..., Any],
        *iterables: Iterable[Any],
        chunksize: int = 1,
        ordered: bool = True,
        timeout: float | None = None,
        progress: bool = False,
    ) -> Iterator[Any]:
        """The values for all items, in order or as they come. All calls are queued now, `chunksize` items to a task.

        Whoever stops half way, or sees an error, cancels the rest. `progress` draws a bar in a terminal or a notebook.

        Raises: TimeoutError, and what the function raises.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        futures = self.run_chunks(function, *iterables, chunksize=chunksize)
        values = _iterate(futures, deadline) if ordered else _iterate_as_they_come(futures, deadline)
        return _show(values, name_function(function), futures) if progress else values

    def run_chunks(
        self, function: Callable[..., Any], *iterables: Iterable[Any], chunksize: int = 1
    ) -> list[CallFuture[list[Any]]]:
        """Each future gives the list of values of a chunk."""
        return self.run_items(function, zip(*iterables, strict=False), chunksize)

    def run_items(
        self, function: Callable[..., Any], items: Iterable[tuple[Any, ...]], chunksize: int = 1
    ) -> list[CallFuture[list[Any]]]:
        """The same, with all arguments of a call in one tuple."""
        return self.queue_items(CallFuture[list[Any]], function, items, chunksize)

    def queue_items(
        self,
        make: Callable[[CallStream, bytes, int], C],
        function: Callable[..., Any],
        items: Iterable[tuple[Any, ...]],
        chunksize: int,
    ) -> list[C]:
        """The same; `make` puts a pickled chunk of so many items into the stream and gives what the caller gets."""
        if chunksize < 1:
            raise ValueError("chunksize must be >= 1.")
        shared = pack_function(function)
        with self._lock:
            stream = self._open(name_function(function), tell_options(function), shared)
        left = iter(items)
        chunks = iter(lambda: list(islice(left, chunksize)), [])
        try:
            return [make(stream, _check_size(pack_items(chunk)), len(chunk)) for chunk in chunks]
        except BaseException:
            stream.cancel_waiting()  # nobody will have their futures
            raise
        finally:
            stream.close()

    def close(self, cancel: bool = False) -> None:
        """Take no more calls; those that wait are cancelled if so wanted, the others go on."""
        with self._lock:
            self._refusal = self._refusal or "cannot schedule new futures after shutdown"
            streams = list(self._streams)
        answers = [stream.cancel_waiting() for stream in streams] if cancel else []
        for stream in streams:
            stream.close()
        if not any(stream.is_on_loop for stream in streams):
            wait(answers, CANCEL_PATIENCE)

    def close_job(self, job: JobId, is_cancelled: bool) -> None:
        """Let a job end with the calls that it has. The next call opens another."""
        with self._lock:
            streams = [stream for stream in self._streams if stream.number == job]
        for stream in streams:
            if is_cancelled:
                stream.on_job_cancelled()
            else:
                stream.close()

    async def wait_sent(self) -> None:
        for stream in self._streams:
            await stream.wait_sent()

    def wait(self) -> None:
        """Until all calls have ended, for other threads than the loop's. It must be closed."""
        wait([stream.running for stream in self._streams])

    async def wait_closed(self) -> None:
        for stream in self._streams:
            await stream.wait_closed()

    async def end(self, patience: float) -> None:
        """Take no more calls, see that the foreman has those that were queued, and forget them here."""
        self.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                await self.wait_sent()
        if unsent := sum(stream.unsent for stream in self._streams):
            log.warning("%d calls have not reached the foreman at %s", unsent, self._client.address)
        for stream in self._streams:
            stream.abort()

    def forget(self) -> None:
        """In a process that was forked: the loop runs in the parent only, and a lock may be held for ever."""
        self._lock = Lock()
        self._singles = {}
        self._streams = []
        self._refusal = "this belongs to the process that was forked: make another one here"

    def _open(self, label: str, wish: FunctionOptions, shared: bytes = b"") -> CallStream:
        if self._refusal:
            raise RuntimeError(self._refusal)
        stream = CallStream(self._client, self.loop, make_spec(label, shared, **(self._options | wish)))
        self._streams = [known for known in self._streams if not known.is_over] + [stream]
        return stream


def make_spec(label: str, shared: bytes, **options: Unpack[FunctionOptions]) -> JobSpec:
    """Raises: ConfigError."""
    said = dict(options)
    python = PythonSpec(shared=shared, fresh=bool(said.pop("fresh", False)))
    said["cwd"] = tell_folder(options.get("cwd"))
    said["env"] = {**tell_code(), **options.get("env", {})}
    spec = make_submit(("python", label), **cast("SubmitOptions", said)).spec
    return replace(spec, tasks=0, has_lines=True, is_open=True, python=python, tags=(*spec.tags, PYTHON_TAG))


def _check_size(call: bytes) -> bytes:
    if len(call) > MAX_CALL_BYTES:
        raise CallTooLarge(
            f"the pickled call has {len(call):,} bytes, and {MAX_CALL_BYTES:,} is the limit: pass a file's name"
        )
    return call


def _show(values: Iterator[Any], label: str, futures: list[Chunk]) -> Iterator[Any]:
    with showing(label, futures):
        yield from values


def open_value(result: bytes) -> tuple[Any, BaseException | None]:
    try:
        return open_result(result), None
    except BaseException as error:  # noqa: BLE001 - opening runs what the value wants to run, in our thread
        return None, error


def _iterate(futures: list[Chunk], deadline: float | None) -> Iterator[Any]:
    futures.reverse()
    try:
        while futures:
            values = futures[-1].result(_tell_left(deadline))
            del futures[-1]
            yield from _hand_out(values)
    finally:
        _retract(futures)


def _iterate_as_they_come(futures: list[Chunk], deadline: float | None) -> Iterator[Any]:
    waiting = set(futures)
    futures.clear()
    try:
        for future in as_completed(waiting, _tell_left(deadline)):
            waiting.discard(future)
            values = future.result()
            del future
            yield from _hand_out(values)
    finally:
        _retract(waiting)


def _retract(futures: Collection[Chunk]) -> None:
    """Cancel calls of one stream that have not begun. Nobody else has their futures, so nobody waits for the answer."""
    if futures:
        next(iter(futures)).stream.retract(future.number for future in futures)


def _hand_out(values: list[Any]) -> Iterator[Any]:
    """Keep none: each may be large."""
    values.reverse()
    while values:
        yield values.pop()


def _tell_left(deadline: float | None) -> float | None:
    return None if deadline is None else max(0.0, deadline - time.monotonic())


_living: Final[WeakSet[Functions]] = WeakSet()


def _end_all() -> None:
    """A program that ends without closing its client has queued its calls all the same."""
    running = [functions for functions in list(_living) if functions.loop.is_running()]
    ending = [asyncio.run_coroutine_threadsafe(functions.end(SEND_PATIENCE), functions.loop) for functions in running]
    wait(ending, SEND_PATIENCE + 1)


def _forget_all() -> None:
    for functions in list(_living):
        functions.forget()
    _living.clear()


atexit.register(_end_all)
os.register_at_fork(after_in_child=_forget_all)
