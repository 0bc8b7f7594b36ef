"""The clocks of a foreman: one that never steps, by which it decides; the wall clock, for records; the shared one."""

from pathlib import Path
from typing import TYPE_CHECKING, Final

from gandy.clocks import read_monotonic, read_wall
from gandy.core.ages import Ages
from gandy.core.refusal import Refusal
from gandy.errors import GandyError
from gandy.moments import Monotonic, Wall

if TYPE_CHECKING:
    from gandy.bus import AsyncEnsemble

BOOT_ID: Final = Path("/proc/sys/kernel/random/boot_id")


class ForemanClock:
    """One for each foreman. Without a band it knows no shared time."""

    def __init__(self) -> None:
        self._band: AsyncEnsemble | None = None
        self.boot = _read_boot()  # for how long `now` means the same, also to the next foreman; "" is unknown
        self._ages = Ages(_measure_wall_ahead(read_monotonic()))

    def join(self, band: "AsyncEnsemble") -> None:
        self._band = band

    def now(self) -> Monotonic:
        """Monotonic seconds: for all that is waited for."""
        return read_monotonic()

    def wall(self) -> Wall:
        """The time of day: for all that is kept and shown, and for the validity of keys. It may step at any moment."""
        return read_wall()

    def read_wall_ahead(self) -> float:
        """How far the wall clock is ahead of `now`, for what is stamped with it."""
        now = read_monotonic()
        ahead = _measure_wall_ahead(now)
        self._ages.note(ahead, now)
        return ahead

    def note_last_stamp(self, wall: Wall) -> None:
        """The last time of day that an earlier foreman kept."""
        self._ages.note_last_stamp(wall, read_monotonic())

    def find_oldest(self, seconds: float) -> Wall:
        """The time of day before which everything is older than so many seconds. No step makes anything older."""
        return self._ages.find_oldest(seconds, read_monotonic())

    def get_shared_ahead(self) -> float:
        """How far the shared time is ahead of `now`. Raises: Refusal."""
        ahead = self.find_shared_ahead()
        if ahead is not None:
            return ahead
        if self._band is None:
            raise Refusal("no_clock", "the foreman keeps no shared time: start it with --ensemble NAME")
        raise Refusal("no_clock", "the foreman does not know the shared time yet", retryable=True)

    def find_shared_ahead(self) -> float | None:
        """The same; None where it is not known."""
        try:
            if self._band is None or not self._band.is_synced:
                return None
            return self._band.now() - float(read_monotonic())
        except GandyError:  # we have left
            return None


def _measure_wall_ahead(now: Monotonic) -> float:
    return float(read_wall()) - float(now)


def _read_boot() -> str:
    try:
        return BOOT_ID.read_text().strip()
    except OSError:  # not Linux
        return ""
