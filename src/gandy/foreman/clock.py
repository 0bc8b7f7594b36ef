"""The clocks of a foreman: one that never steps, by which it decides; the wall clock, for records; the shared one."""

import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gandy.core.ages import Ages
from gandy.core.refusal import Refusal
from gandy.errors import GandyError

if TYPE_CHECKING:
    from gandy.bus import AsyncEnsemble

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class ForemanClock:
    """One for each foreman. Without a band it knows no shared time."""

    def __init__(self) -> None:
        self._band: AsyncEnsemble | None = None
        self.boot = _read_boot()  # for how long `now` means the same, also to the next foreman; "" is unknown
        self._ages = Ages(time.time() - time.monotonic())

    def join(self, band: "AsyncEnsemble") -> None:
        self._band = band

    def now(self) -> float:
        """Monotonic seconds: for all that is waited for."""
        return time.monotonic()

    def wall(self) -> float:
        """The time of day: for all that is kept and shown, and for the validity of keys. It may step at any moment."""
        return time.time()

    def read_wall_ahead(self) -> float:
        """How far the wall clock is ahead of `now`, for what is stamped with it."""
        now = time.monotonic()
        ahead = time.time() - now
        self._ages.note(ahead, now)
        return ahead

    def note_last_stamp(self, wall: float) -> None:
        """The last time of day that an earlier foreman kept."""
        self._ages.note_last_stamp(wall, time.monotonic())

    def find_oldest(self, seconds: float) -> float:
        """The time of day before which everything is older than so many seconds. No step makes anything older."""
        return self._ages.find_oldest(seconds, time.monotonic())

    def shared(self) -> float:
        """Raises: Refusal."""
        ahead = self.find_ahead()
        if ahead is not None:
            return time.monotonic() + ahead
        if self._band is None:
            raise Refusal("no_clock", "the foreman keeps no shared time: start it with --ensemble NAME")
        raise Refusal("no_clock", "the foreman does not know the shared time yet", retryable=True)

    def find_ahead(self) -> float | None:
        """How far the shared time is ahead of `now`; None where it is not known."""
        try:
            if self._band is None or not self._band.is_synced:
                return None
            return self._band.now() - time.monotonic()
        except GandyError:  # we have left
            return None


def _read_boot() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:  # not Linux
        return ""
