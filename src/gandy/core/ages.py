"""The least age of things that are stamped with the time of day, however the wall clock was stepped since."""

from math import inf
from typing import Final

from gandy.moments import Monotonic, Wall

STEP: Final = 1.0  # seconds; a smaller change is drift, not a step, and is ignored


class Ages:
    """Knows how far the wall clock was ahead of the monotonic one, and until when."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead
        self._past: list[tuple[Monotonic, float]] = []  # smaller leads of the past: until when, and how much

    def note(self, ahead: float, now: Monotonic) -> None:
        """Note how far the wall clock is ahead now."""
        if abs(ahead - self._ahead) > STEP:
            before, self._ahead = self._ahead, ahead
            self._remember(before, now)

    def note_last_stamp(self, wall: Wall, now: Monotonic) -> None:
        """Note the last stamp of an earlier foreman. Perhaps no time has passed since."""
        self._remember(float(wall) - float(now), now)

    def find_oldest(self, seconds: float, now: Monotonic) -> Wall:
        """The time of day before which everything is older than so many seconds; for 0 seconds, no stamp is later."""
        if seconds <= 0:
            return Wall(inf)
        since = now - seconds
        aheads = [ahead for until, ahead in self._past if until >= since]
        return Wall(float(since) + min(aheads, default=self._ahead) - STEP)

    def _remember(self, ahead: float, now: Monotonic) -> None:
        """Keep a past lead unless a later one was smaller: the smallest lead since a moment is what counts."""
        known = [*((until, past) for until, past in self._past if past < ahead), (now, ahead)]
        self._past = [(until, past) for until, past in known if past < self._ahead]
