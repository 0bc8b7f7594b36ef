"""Calls that have not ended, as the program sees them: futures, and streams of values. They send nothing themselves.

Defaults that most calls never change are class attributes: a client may make a hundred thousand calls a second.
"""

import asyncio
import random
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from gandy.errors import (
    Busy,
    CallError,
    CallFailed,
    CallTimeout,
    GandyError,
    LinkError,
    NoClock,
    UnknownCommand,
    WorkerLost,
)
from gandy.functions.values import decode_value
from gandy.limits import MAX_VALUE_BYTES
from gandy.moments import Monotonic, Shared
from gandy.wire.calls import (
    BUSY,
    EXPIRED,
    FAILED,
    FRAME_COST,
    LAST,
    LOST,
    NO_CLOCK,
    PICKLED,
    REFUSED,
    UNKNOWN,
    WHOLE,
    WINDOW_BYTES,
    decode_failure,
    decode_refusal,
    read_name,
)

if TYPE_CHECKING:
    from gandy.client.caller import Caller

PAUSES: Final = (0.01, 1.0)  # seconds before a call is sent again: the first pause, and the longest; each doubles

_ERRORS: Final[dict[int, type[GandyError]]] = {
    UNKNOWN: UnknownCommand,
    BUSY: Busy,
    LOST: WorkerLost,
    EXPIRED: CallTimeout,
    NO_CLOCK: NoClock,
}


class _Outgoing:
    """What is sent, and may be sent again."""

    caller: "Caller"
    target: bytes  # the name of the command, as it is sent
    body: bytes  # the arguments
    number = 0  # on its link
    flags = 0
    at: Shared | None = None  # when it begins
    patience: float | None = None  # its timeout in seconds, from `at` or from now on
    deadline: Monotonic | None = None
    can_wait = True
    is_repeatable = False
    credit = WINDOW_BYTES  # for arguments
    room: asyncio.Event | None = None  # set when there is credit
    sender: asyncio.Task[None] | None = None  # sends large arguments
    timer: asyncio.TimerHandle | None = None  # for the deadline
    _pause = PAUSES[0]  # before it is sent again

    @property
    def name(self) -> str:
        return read_name(self.target)[0].decode()

    @property
    def is_pickled(self) -> bool:
        return bool(self.flags & PICKLED)

    def forget(self) -> None:
        """The call is over: cancel its timer and its sender."""
        if self.timer is not None:
            self.timer.cancel()
        if self.sender is not None:
            self.sender.cancel()

    def open_error(self, flags: int, payload: bytes) -> BaseException:
        if flags & FAILED:
            return _open_failure(payload, self.is_pickled)
        code, text = decode_refusal(payload)
        return _ERRORS.get(code, CallError)(text)

    def can_repeat(self, code: int) -> bool:
        return (code == BUSY and self.can_wait) or (code == LOST and self.is_repeatable)

    def repeat(self) -> None:
        """Send it again, after a pause."""
        if self.sender is not None:
            self.sender.cancel()
        pause, self._pause = self._pause, min(PAUSES[1], 2 * self._pause)
        loop = asyncio.get_running_loop()
        loop.call_later(pause * random.uniform(0.5, 1.0), self.caller.start_again, cast("Pending", self))  # noqa: S311

    def make_timeout(self) -> CallTimeout:
        return CallTimeout(f"{self.name} did not end in time")


class CallFuture(asyncio.Future[Any], _Outgoing):
    """The value of a call. Cancelling it cancels the call."""

    pieces: Sequence[bytes] = ()  # of a large value
    _size = 0  # of these
    _owed = 0  # credit for them

    def cancel(self, msg: Any | None = None) -> bool:
        if not super().cancel(msg):
            return False
        self.forget()
        self.caller.cancel(self)
        return True

    def on_deadline(self) -> None:
        if not self.done():
            self.set_exception(self.make_timeout())
            self.forget()
            self.caller.cancel(self)

    def on_result(self, flags: int, payload: bytes) -> None:
        if not flags & LAST:
            self._on_piece(payload)
        elif flags & REFUSED and self.can_repeat(decode_refusal(payload)[0]):
            self.repeat()
        elif flags & (REFUSED | FAILED):
            self.forget()
            self.set_exception(self.open_error(flags, payload))
        else:
            self.forget()
            self._on_value(b"".join((*self.pieces, payload)) if self.pieces else payload)

    def _on_value(self, data: bytes) -> None:
        try:
            value = decode_value(data, self.is_pickled)
        except Exception as error:  # noqa: BLE001 - opening a pickle runs code of the value
            self.set_exception(error)
        else:
            self.set_result(value)

    def _on_piece(self, payload: bytes) -> None:
        self.pieces = self.pieces or []
        assert isinstance(self.pieces, list)
        self.pieces.append(payload)
        self._size += len(payload)
        if self._size > MAX_VALUE_BYTES:
            self.caller.cancel(self)
            self.forget()
            self.set_exception(CallError(f"the value of {self.name} has more than {MAX_VALUE_BYTES:,} bytes"))
            return
        self._owed += len(payload) + FRAME_COST
        if self._owed >= WINDOW_BYTES // 2:
            self.caller.grant(self, self._owed)
            self._owed = 0

    def on_failure(self, error: GandyError) -> None:
        """The link broke, or there is none."""
        if self.done():
            return
        if self.is_repeatable and isinstance(error, LinkError):
            self.repeat()
            return
        self.forget()
        self.set_exception(error)

    def repeat(self) -> None:
        self.pieces, self._size, self._owed = (), 0, 0
        super().repeat()


class CallStream(AsyncIterator[Any], _Outgoing):
    """Values as they come. A program that stops early closes it, which ends the generator on the worker."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pieces: list[bytes] = []
        self._size = 0  # of these
        self._values: deque[tuple[bytes, int]] = deque()  # each with the credit that it used
        self._cost = 0  # credit that the incomplete value has used
        self._owed = 0  # credit for values that the program has read
        self._error: BaseException | None = None
        self._is_over = False
        self._has_begun = False  # a value has come: it cannot be repeated any more
        self._waiter: asyncio.Future[None] | None = None

    def __aiter__(self) -> "CallStream":
        return self

    async def __anext__(self) -> Any:
        """Raises: CallError, LinkError."""
        while not self._values:
            if self._is_over:
                error, self._error = self._error, None
                raise error or StopAsyncIteration
            self._waiter = self._loop.create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        payload, cost = self._values.popleft()
        self._owed += cost
        if self._owed >= WINDOW_BYTES // 2 and not self._is_over:
            self.caller.grant(self, self._owed)
            self._owed = 0
        return decode_value(payload, self.is_pickled)

    def done(self) -> bool:
        """True if no more values can come."""
        return self._is_over

    async def aclose(self) -> None:
        """Drop the rest of the values."""
        if not self._is_over:
            self.caller.cancel(self)
            self._end(None)
        self._values.clear()
        self._error = None

    async def __aenter__(self) -> "CallStream":
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    def on_deadline(self) -> None:
        if not self._is_over:
            self.caller.cancel(self)
            self._end(self.make_timeout())

    def on_result(self, flags: int, payload: bytes) -> None:
        if self._is_over:
            return
        if flags & REFUSED and not self._has_begun and self.can_repeat(decode_refusal(payload)[0]):
            self.repeat()
            return
        if flags & (REFUSED | FAILED):
            self._end(self.open_error(flags, payload))
            return
        self._has_begun = True
        if payload or flags & WHOLE:
            self._on_piece(flags, payload)
        if flags & LAST:
            self._end(None)

    def _on_piece(self, flags: int, payload: bytes) -> None:
        self._pieces.append(payload)
        self._size += len(payload)
        self._cost += len(payload) + FRAME_COST
        if flags & WHOLE:
            value = self._pieces[0] if len(self._pieces) == 1 else b"".join(self._pieces)
            self._values.append((value, self._cost))
            self._pieces.clear()
            self._size = self._cost = 0
            self._wake()
        elif self._size > MAX_VALUE_BYTES:
            self.caller.cancel(self)
            self._end(CallError(f"a value of {self.name} has more than {MAX_VALUE_BYTES:,} bytes"))
        elif self._cost >= WINDOW_BYTES // 2:
            # The value is larger than the window: all of it must be in memory here anyway.
            self.caller.grant(self, self._cost)
            self._cost = 0

    def on_failure(self, error: GandyError) -> None:
        """The link broke, or there is none. Values that came before can still be read."""
        if self._is_over:
            return
        if self.is_repeatable and not self._has_begun and isinstance(error, LinkError):
            self.repeat()
        else:
            self._end(error)

    def _end(self, error: BaseException | None) -> None:
        self._is_over, self._error = True, error
        self.forget()
        self._wake()

    def _wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)


Pending = CallFuture | CallStream


def _open_failure(payload: bytes, is_pickled: bool) -> BaseException:
    failure = decode_failure(payload)
    if is_pickled and failure.pickled:
        from gandy.functions import open_error

        opened = open_error(failure.pickled)
        if not isinstance(opened, StopIteration | StopAsyncIteration):  # no future and no iterator could raise these
            return opened
    error = CallFailed(failure.message, failure.kind, failure.trace)
    if failure.trace:
        error.add_note(f"On the worker:\n{failure.trace.rstrip()}")
    return error
