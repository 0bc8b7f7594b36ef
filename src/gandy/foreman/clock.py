"""The clocks of a foreman: one that never steps, by which it decides; the wall clock, for records; the shared one.

Offsets between them are measured here and nowhere else.
"""

import asyncio
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gandy.clocks import read_monotonic, read_wall
from gandy.core.ages import Ages
from gandy.core.reactor import Reactor
from gandy.core.refusal import Refusal
from gandy.errors import GandyError
from gandy.moments import Monotonic, Wall

if TYPE_CHECKING:
    from gandy.bus import AsyncEnsemble

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class ForemanClock:
    """Measures offsets for the reactor. Without an ensemble it knows no shared time."""

    def __init__(self, reactor: Reactor) -> None:
        self._reactor = reactor
        self._band: AsyncEnsemble | None = None
        self._ages = Ages(_measure_wall_ahead(read_monotonic()))

    def join(self, band: "AsyncEnsemble") -> None:
        self._band = band

    async def leave(self) -> None:
        if self._band is not None:
            await asyncio.to_thread(self._band.close)

    def now(self) -> Monotonic:
        """The time of an event. Updates the reactor's offset of the wall clock."""
        now = read_monotonic()
        ahead = self._reactor.clocks.wall_ahead = _measure_wall_ahead(now)
        self._ages.note(ahead, now)
        return now

    def note_last_stamp(self, wall: Wall) -> None:
        """Note the last time of day that an earlier foreman kept."""
        self._ages.note_last_stamp(wall, read_monotonic())

    def find_oldest(self, seconds: float) -> Wall:
        """The time of day before which everything is older than so many seconds. A step makes nothing older."""
        return self._ages.find_oldest(seconds, self.now())

    def get_shared_ahead(self) -> float:
        """How far the shared time is ahead of `now`. Raises: Refusal."""
        ahead = self.find_shared_ahead()
        if ahead is not None:
            return ahead
        if self._band is None:
            raise Refusal("no_clock", "the foreman keeps no shared time: start it with --ensemble NAME")
        raise Refusal("no_clock", "the foreman does not know the shared time yet", retryable=True)

    def find_shared_ahead(self) -> float | None:
        """The same; None if it is not known."""
        try:
            if self._band is None or not self._band.is_synced:
                return None
            return self._band.now() - float(read_monotonic())
        except GandyError:  # we have left
            return None


def _measure_wall_ahead(now: Monotonic) -> float:
    return float(read_wall()) - float(now)


@cache
def read_boot() -> str:
    """The boot id: until it changes, monotonic times mean the same, even to the next foreman. "" if unknown."""
    try:
        return BOOT_ID.read_text().strip()
    except OSError:  # not Linux
        return ""
