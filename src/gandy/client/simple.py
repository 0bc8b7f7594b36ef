"""The fast path for simple calls, as most are: without options, with small arguments, over a link that is open.

Each is a plain future, which a coroutine awaits in half the time. What was sent is kept with it: if a call turns out
not to be simple, `caller` takes it over.
"""

import asyncio
from collections.abc import Callable, Container
from typing import Any, Final

from gandy.errors import GandyError
from gandy.functions.values import decode_value
from gandy.limits import LAST_NUMBER, MAX_CALL_PAYLOAD
from gandy.wire.calls import CANCEL, PLAIN_CALL, PLAIN_HEADER, PLAIN_RESULT, encode

SWEEP_PERIOD: Final = 0.05  # seconds between two looks for simple calls that were cancelled

_HEAD: Final = PLAIN_HEADER.size
_pack: Final = PLAIN_HEADER.pack
_unpack_from: Final = PLAIN_HEADER.unpack_from


class SimpleCalls:
    """The simple calls of one link."""

    def __init__(self, write: Callable[[bytes], None], write_soon: Callable[[bytes], None], others: Container[int]):
        """`others`: the numbers of calls that are not simple."""
        self._loop = asyncio.get_running_loop()
        self._write = write
        self._write_soon = write_soon
        self._others = others
        self._number = 0
        self._calls: dict[int, tuple[asyncio.Future[Any], bytes, bytes]] = {}  # by number, with target and body
        self._sweeping: asyncio.TimerHandle | None = None

    def __contains__(self, number: int) -> bool:
        return number in self._calls

    def __len__(self) -> int:
        return len(self._calls)

    def take_number(self) -> int:
        """Return a number that no call of this link has."""
        number = self._number % LAST_NUMBER + 1
        while number in self._calls or number in self._others:
            number = number % LAST_NUMBER + 1
        self._number = number
        return number

    def start(self, target: bytes, body: bytes) -> "asyncio.Future[Any]":
        calls, number = self._calls, self.take_number()
        data = _pack(PLAIN_CALL, number, 0, len(target) + len(body)) + target + body
        if calls:
            self._write_soon(data)
        else:  # no answer is about to arrive, so nothing else will be written soon
            self._write(data)
        future = self._loop.create_future()
        calls[number] = (future, target, body)
        if self._sweeping is None:
            self._sweeping = self._loop.call_later(SWEEP_PERIOD, self._sweep)
        return future

    def take_plain(self, data: bytes, at: int) -> int:
        """Handle the results of simple calls. Returns where the first other frame begins."""
        end, calls = len(data), self._calls
        while (body := at + _HEAD) <= end:
            head, number, _, size = _unpack_from(data, at)
            stop = body + size
            if head != PLAIN_RESULT or stop > end or size > MAX_CALL_PAYLOAD or number not in calls:
                break
            future = calls.pop(number)[0]
            if not future.done():  # else it was cancelled, and the sweep has not come yet
                try:
                    future.set_result(decode_value(data[body:stop]))
                except ValueError as error:
                    future.set_exception(error)
            at = stop
        return at

    def pop(self, number: int) -> "tuple[asyncio.Future[Any], bytes, bytes]":
        """Remove a call that is not simple any more. Returns its future, target and body."""
        return self._calls.pop(number)

    def fail(self, error: GandyError) -> None:
        """The link is gone: all calls fail."""
        if self._sweeping is not None:
            self._sweeping.cancel()
            self._sweeping = None
        calls, self._calls = self._calls, {}
        for future, _, _ in calls.values():
            if not future.done():
                future.set_exception(error)

    def _sweep(self) -> None:
        """Cancel calls whose futures were cancelled: plain futures do not report that, so they are checked here."""
        self._sweeping = None
        if not self._calls:
            return
        for number in [number for number, (future, _, _) in self._calls.items() if future.done()]:
            del self._calls[number]
            self._write_soon(encode(CANCEL, 0, number))
        self._sweeping = self._loop.call_later(SWEEP_PERIOD, self._sweep)
