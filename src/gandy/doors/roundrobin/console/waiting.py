"""Waits, until a signal (Ctrl-C, SIGTERM or SIGHUP) ends the wait.

Signals interrupt nothing else: an exception in the middle of other code could leave a lock held that threads wait for.
"""

import signal
import sys
from collections.abc import Callable
from queue import Empty, SimpleQueue
from threading import Event
from typing import Any, Final, TypeVar

from gandy.clocks import read_monotonic
from gandy.moments import Monotonic

STEP: Final = 0.1  # seconds of a wait between two checks for signals

T = TypeVar("T")


class Signals:
    """Signals that came and are not handled yet."""

    def __init__(self) -> None:
        self._came: set[int] = set()
        self._can_raise = False

    def install(self) -> None:
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGHUP, self._on_signal)
        if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:  # else our parent wants it ignored
            signal.signal(signal.SIGINT, self._on_signal)

    def _on_signal(self, number: int, _frame: Any) -> None:
        self._came.add(number)
        if self._can_raise:
            self.check()

    def check(self) -> None:
        """Raises: KeyboardInterrupt, SystemExit."""
        came, self._came = self._came, set()
        if came - {signal.SIGINT}:
            sys.exit(0)
        if came:
            raise KeyboardInterrupt

    def read(self, function: Callable[[], T]) -> T:
        """Call a function that may wait forever. Raises: KeyboardInterrupt, SystemExit."""
        try:
            self._can_raise = True
            self.check()
            return function()
        finally:
            self._can_raise = False

    def shield(self, function: Callable[[], None]) -> None:
        """Inside `read`, call a function that signals must not interrupt."""
        self._can_raise = False
        function()
        self._can_raise = True


SIGNALS: Final = Signals()  # there is one process


def wait_for(flag: Event, seconds: float) -> bool:
    """True if the flag was set in time. Raises: KeyboardInterrupt, SystemExit."""
    deadline = read_monotonic() + seconds
    while not flag.wait(_get_step(deadline)):
        if read_monotonic() >= deadline:
            return False
        SIGNALS.check()
    return True


def take(queue: SimpleQueue[T], seconds: float) -> T | None:
    """The next item, if it comes in time. Raises: KeyboardInterrupt, SystemExit."""
    deadline = read_monotonic() + seconds
    while True:
        SIGNALS.check()
        try:
            return queue.get(timeout=_get_step(deadline))
        except Empty:
            if read_monotonic() >= deadline:
                return None


def _get_step(deadline: Monotonic) -> float:
    return max(0.0, min(STEP, deadline - read_monotonic()))
