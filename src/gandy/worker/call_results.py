"""How calls end: a value in pieces as credit allows, an error, or a refusal. Runs no commands."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, Final

from gandy.functions.failures import describe_error, format_error
from gandy.functions.values import encode_value
from gandy.limits import MAX_PIECE_BYTES, MAX_VALUE_BYTES
from gandy.wire.calls import (
    CAST,
    FAILED,
    FRAME_COST,
    LAST,
    REFUSED,
    RESULT,
    WHOLE,
    CallFailure,
    encode_failure,
    encode_refusal,
)
from gandy.worker.call_frames import CallFrames
from gandy.worker.loop_queue import LoopQueue
from gandy.worker.running_call import CallCancelled, RunningCall

_DONE: Final = LAST | WHOLE


class CallResults:
    """Runs on the current loop. `end` sends the last frame of a call and frees its slots; later ends are ignored."""

    def __init__(self, frames: CallFrames, queue: LoopQueue, end: Callable[[RunningCall, int, bytes], None]) -> None:
        self.end = end
        self._frames = frames
        self._queue = queue
        self._loop = asyncio.get_running_loop()

    def finish(self, call: RunningCall, value: Any) -> None:
        try:
            body = encode_value(None if call.flags & CAST else value, call.is_pickled)
            if len(body) > MAX_VALUE_BYTES:
                raise ValueError(f"a value may have {MAX_VALUE_BYTES:,} bytes, not {len(body):,}: use a stream")
        except Exception as error:  # noqa: BLE001 - pickling runs code of the value
            error.args = (f"the value of {call.command.name} {error}",)
            self.fail(call, error)
            return
        self.finish_encoded(call, body)

    def finish_encoded(self, call: RunningCall, body: bytes) -> None:
        if call.is_cancelled:
            self.fail(call, CallCancelled())
        elif len(body) <= MAX_PIECE_BYTES or call.flags & CAST:
            self.end(call, _DONE, b"" if call.flags & CAST else body)
        else:
            call.room = asyncio.Event()
            self.spawn(call, self._send_large(call, body))

    def finish_stream(self, call: RunningCall) -> None:
        self.end(call, LAST, b"")

    def fail(self, call: RunningCall, error: BaseException) -> None:
        if call.is_cancelled:
            failure = CallFailure("Cancelled", "the call was cancelled")
        else:
            failure = make_failure(error, call.is_pickled)
        self.fail_with(call, failure)

    def fail_with(self, call: RunningCall, failure: CallFailure) -> None:
        data = encode_failure(failure)
        if len(data) > MAX_PIECE_BYTES:
            data = encode_failure(CallFailure(failure.kind, failure.message[:1000], failure.trace[-10_000:]))
        self.end(call, LAST | FAILED, data)

    def refuse(self, call: RunningCall, code: int, text: str) -> None:
        """End a call with a refusal, for a reason that lies with the worker and not with the command."""
        self.end(call, LAST | REFUSED, encode_refusal(code, text))

    def spawn(self, call: RunningCall, work: Coroutine[Any, Any, None]) -> None:
        """Run a coroutine that ends the call."""
        call.task = self._loop.create_task(work)
        call.task.add_done_callback(lambda _task: self._on_task_done(call))

    def _on_task_done(self, call: RunningCall) -> None:
        # An asyncio.Task that is cancelled before its first step never runs, not even its `except`.
        if not call.is_over and call.is_cancelled:
            self.fail(call, CallCancelled())

    async def _send_large(self, call: RunningCall, body: bytes) -> None:
        try:
            await self.send_pieces(call, body, _DONE)
        except BaseException as error:  # noqa: BLE001 - also CancelledError
            self.fail(call, error)

    async def send_pieces(self, call: RunningCall, body: bytes, last: int = WHOLE) -> None:
        """Send a value in pieces, each when there is credit for it. The last piece of a call needs no credit.

        `last`: the flags of the last piece. Raises: CallCancelled.
        """
        for at in range(0, len(body) or 1, MAX_PIECE_BYTES):
            piece = body[at : at + MAX_PIECE_BYTES]
            is_end = at + MAX_PIECE_BYTES >= len(body)
            if is_end and last & LAST:
                self.end(call, last, piece)
                return
            if call.flags & CAST:  # its client reads nothing and grants no credit
                await asyncio.sleep(0)
                return
            await call.spend(len(piece) + FRAME_COST)
            self._frames.send(RESULT, last if is_end else 0, call.number, 0, piece)

    def send_pieces_from_thread(self, call: RunningCall, body: bytes) -> None:
        """Send one value of a stream in pieces, blocking the thread until there is credit. Raises: CallCancelled."""
        for at in range(0, len(body) or 1, MAX_PIECE_BYTES):
            piece = body[at : at + MAX_PIECE_BYTES]
            if call.flags & CAST and not call.is_cancelled:  # its client reads nothing and grants no credit
                return
            call.spend_in_thread(len(piece) + FRAME_COST)
            flags = WHOLE if at + MAX_PIECE_BYTES >= len(body) else 0
            self._queue.put(self._send_if_wanted, call, flags, piece)

    def _send_if_wanted(self, call: RunningCall, flags: int, piece: bytes) -> None:
        # The call may have been cancelled while the piece waited for the loop; the next link may reuse its number.
        if not call.is_cancelled:
            self._frames.send(RESULT, flags, call.number, 0, piece)


def make_failure(error: BaseException, is_pickled: bool = False) -> CallFailure:
    """Describe an exception for the caller."""
    trace = format_error(error)
    pickled = b""
    if is_pickled:
        from gandy.functions import pack_error

        pickled = pack_error(error, trace)
    return CallFailure(type(error).__name__, describe_error(error), trace, pickled)
