"""Decides how many slots a worker uses while it is short of something. Knows neither tasks nor the foreman.

After a shortage, a worker uses no more slots than it does then. After a pause it tries one more, then two, then four.
Each new shortage doubles the pause, so a worker that stays short gives few tasks back.
"""

from typing import Final

from gandy.moments import LONG_AGO, Monotonic

FIRST_PAUSE: Final = 0.25  # seconds; many shortages are over when the next task ends
LAST_PAUSE: Final = 30.0  # seconds; a user who has repaired the machine waits no longer than this
CALM_SECONDS: Final = 60.0  # without a shortage, after which the pauses start again with the first

# Bytes that a worker leaves free on the disk of its output for other programs, and for a foreman's store.
RESERVED_BYTES: Final = 64_000_000
RESERVED_SHARE: Final = 0.05  # of a file system, if that is less
# Times the reserve that must be free before tasks begin again, so that the worker does not stop and start repeatedly.
ENOUGH: Final = 1.25


class SlotLimit:
    """One per worker."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._limit = slots
        self._problem = ""
        self._disk_problem = ""
        self._step = 1
        self._pause = 0.0
        self._next_look = LONG_AGO
        self._has_tried = True  # it has tried to use more slots since the last pause began
        self._last_shortage = LONG_AGO

    @property
    def slots(self) -> int:
        """How many slots may be used now. What runs already may use more."""
        return 0 if self._disk_problem else self._limit

    @property
    def problem(self) -> str:
        """What is short; empty: nothing."""
        return self._disk_problem or self._problem

    @property
    def next_look(self) -> Monotonic | None:
        """When `on_time` should be called."""
        return self._next_look if self._problem else None

    def on_shortage(self, problem: str, busy: int, now: Monotonic) -> None:
        """A task could not be started while this many slots were busy."""
        if now - self._last_shortage > CALM_SECONDS:
            self._pause = 0.0
        if self._has_tried:  # else several tasks met the same shortage
            self._pause = min(LAST_PAUSE, max(FIRST_PAUSE, 2 * self._pause))
            self._next_look = now + self._pause
            self._has_tried = False
        self._last_shortage = now
        self._problem = problem
        self._limit = min(self._limit, busy)
        self._step = 1

    def on_time(self, now: Monotonic) -> None:
        """Use more slots after a pause without a shortage. With all slots in use, the next pause ends the shortage."""
        if not self._problem or now < self._next_look:
            return
        self._has_tried = True
        if self._limit >= self._slots:
            self._problem = ""
            return
        self._limit = min(self._slots, self._limit + self._step)
        self._step *= 2
        self._next_look = now + self._pause

    def on_disk(self, free: int, size: int) -> None:
        """`free` of the `size` bytes of the disk are free."""
        reserve = min(RESERVED_BYTES, int(size * RESERVED_SHARE))
        wanted = reserve * ENOUGH if self._disk_problem else reserve
        if free >= wanted:
            self._disk_problem = ""
        else:
            self._disk_problem = f"room on the disk of its output: {free:,} bytes are free, and it leaves {reserve:,}"
