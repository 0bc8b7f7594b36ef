"""The timers of calls: slots that tasks are asked to leave, calls that wait too long. It decides nothing.

Timers run by the time of the loop, which is that of `ForemanClock.now`.
"""

import asyncio
from typing import Final, Protocol

from gandy.clocks import read_monotonic
from gandy.core.call_output import AttachedDoor
from gandy.core.foreman import Foreman
from gandy.core.sharing import PATIENCE
from gandy.moments import Monotonic

LOOK_PERIOD: Final = 1.0  # seconds between two looks at calls that wait and commands that are gone


class ClosableDoor(AttachedDoor, Protocol):
    """A door whose socket ends with the foreman."""

    def close(self) -> None: ...


class CallTimers:
    """Also has the doors: their steps begin and end here."""

    def __init__(self, foreman: Foreman) -> None:
        self._foreman = foreman
        self.switchboard = foreman.switchboard
        self._loop = asyncio.get_running_loop()
        self._doors: list[ClosableDoor] = []
        self._sharing: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._looking = self._loop.call_later(LOOK_PERIOD, self._look)

    def close(self) -> None:
        self._is_closed = True
        self._looking.cancel()
        if self._sharing is not None:
            self._sharing.cancel()
        for door in self._doors:
            door.close()

    def add_door(self, door: ClosableDoor) -> None:
        self._doors.append(door)
        self._foreman.switchboard.output.doors.append(door)

    def begin(self) -> Monotonic:
        """Begin a step of a door. Returns the time of the step."""
        now = self.switchboard.now = read_monotonic()
        return now

    def flush(self) -> None:
        """End a step of a door."""
        self._foreman.switchboard.output.flush(read_monotonic())
        self.arm()

    def arm(self) -> None:
        """Start the timer by which calls that wait get slots, if any wait."""
        if self._sharing is None and self.switchboard.dispatcher.needs_ticks and not self._is_closed:
            self._sharing = self._loop.call_later(PATIENCE, self._share)

    def _share(self) -> None:
        self._sharing = None
        self._foreman.share_slots(read_monotonic())
        self.arm()

    def _look(self) -> None:
        self._foreman.on_call_time(read_monotonic())
        self.arm()
        self._looking = self._loop.call_later(LOOK_PERIOD, self._look)
