"""Runs the commands of calls: at once, on the loop, in a thread or in a process. Sends nothing."""

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import aclosing, closing
from functools import partial
from threading import Condition
from typing import Any, Protocol, assert_never

from gandy.errors import ConfigError
from gandy.functions.values import decode_args, encode_value
from gandy.wire.calls import CAST, STREAM
from gandy.worker.call_results import CallResults
from gandy.worker.commands import Way
from gandy.worker.loop_queue import LoopQueue
from gandy.worker.running_call import CallCancelled, RunningCall
from gandy.worker.threads import Threads


class ProcessCalls(Protocol):
    """Runs calls of isolated commands in processes."""

    def run(self, call: RunningCall, body: bytes, results: CallResults) -> None: ...

    def kill(self, call: RunningCall) -> None: ...


class CallRunner:
    """One per conversation, on the current loop. The outcome of each call goes to `results`."""

    def __init__(self, threads: Threads, results: CallResults, queue: LoopQueue) -> None:
        self.isolated: ProcessCalls | None = None
        self._results = results
        self._queue = queue
        self._threads = threads

    def prepare(self, call: RunningCall, body: bytes) -> Callable[[], None]:
        """Decode the arguments, and return the function that starts the call.

        Raises: TypeError, ValueError, and whatever unpickling the arguments raises.
        """
        way = call.command.way
        if way.is_stream and not call.flags & (STREAM | CAST):
            raise TypeError(f"{call.command.name} returns a stream: use stream()")
        if way is Way.PROCESS:
            return partial(self._start_isolated, call, body)
        args = decode_args(body, call.is_pickled)
        match way:
            case Way.AT_ONCE:
                return partial(self._run_at_once, call, args)
            case Way.LOOP:
                return lambda: self._results.spawn(call, self._run(call, args))
            case Way.LOOP_STREAM:
                return lambda: self._results.spawn(call, self._run_stream(call, args))
            case Way.THREAD:
                return partial(self._threads.submit, self._work, call, args)
            case Way.THREAD_STREAM:
                call.room = Condition()
                return partial(self._threads.submit, self._work_stream, call, args)
            case _:
                assert_never(way)

    def cancel(self, call: RunningCall) -> None:
        """Cancel a call that has begun. A plain function in a thread cannot be stopped; its result is dropped."""
        if call.task is not None:
            call.task.cancel()
        elif isinstance(call.room, Condition):
            with call.room:
                call.room.notify_all()
        elif call.command.way is Way.PROCESS and self.isolated is not None:
            self.isolated.kill(call)

    def _run_at_once(self, call: RunningCall, args: Sequence[Any]) -> None:
        try:
            value = call.command.function(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            self._results.fail(call, error)
        else:
            self._results.finish(call, value)

    def _start_isolated(self, call: RunningCall, body: bytes) -> None:
        try:
            if self.isolated is None:
                raise ConfigError("a worker must have its isolated commands when it starts")
            self.isolated.run(call, body, self._results)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            self._results.fail(call, error)

    async def _run(self, call: RunningCall, args: Sequence[Any]) -> None:
        try:
            value = await call.command.function(*args)
        except BaseException as error:  # noqa: BLE001 - also CancelledError
            self._results.fail(call, error)
        else:
            self._results.finish(call, value)

    async def _run_stream(self, call: RunningCall, args: Sequence[Any]) -> None:
        call.room = asyncio.Event()
        try:
            values: AsyncIterator[Any] = call.command.function(*args)
            async with aclosing(values):  # type: ignore[type-var]
                async for value in values:
                    await self._results.send_pieces(call, encode_value(value, call.is_pickled))
        except BaseException as error:  # noqa: BLE001 - also CancelledError
            self._results.fail(call, error)
        else:
            self._results.finish_stream(call)

    # In threads

    def _work(self, call: RunningCall, args: Sequence[Any]) -> None:
        try:
            _check_wanted(call)
            value = call.command.function(*args)
        except BaseException as error:  # noqa: BLE001 - a thread of ours must not die of it
            self._queue.put(self._results.fail, call, error)
        else:
            self._queue.put(self._results.finish, call, value)

    def _work_stream(self, call: RunningCall, args: Sequence[Any]) -> None:
        try:
            _check_wanted(call)
            values: Iterator[Any] = call.command.function(*args)
            with closing(values):  # type: ignore[type-var]
                for value in values:
                    self._results.send_pieces_from_thread(call, encode_value(value, call.is_pickled))
        except BaseException as error:  # noqa: BLE001 - a thread of ours must not die of it
            self._queue.put(self._results.fail, call, error)
        else:
            self._queue.put(self._results.finish_stream, call)


def _check_wanted(call: RunningCall) -> None:
    """Raises: CallCancelled, if the call was cancelled while it waited for a thread."""
    if call.is_cancelled:
        raise CallCancelled
