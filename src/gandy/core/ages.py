"""How old things are that are stamped with a time of day: at least so old, however the wall clock was stepped."""

from math import inf
from typing import Final

from gandy.moments import Monotonic, Wall

STEP: Final = 1.0  # seconds; clocks that drift apart by less need not be looked at


class Ages:
    """Knows how far the wall clock was ahead of the monotonic one, and until when. `now` is monotonic."""

    def __init__(self, ahead: float) -> None:
        self._ahead = ahead
        self._past: list[tuple[Monotonic, float]] = []  # until when it was ahead by how much, if less than now

    def note(self, ahead: float, now: Monotonic) -> None:
        """The wall clock is ahead by so much."""
        if abs(ahead - self._ahead) > STEP:
            before, self._ahead = self._ahead, ahead
            self._remember(before, now)

    def note_last_stamp(self, wall: Wall, now: Monotonic) -> None:
        """Of an earlier foreman. What was stamped before it is so much older, and perhaps no time has passed since."""
        self._remember(float(wall) - float(now), now)

    def find_oldest(self, seconds: float, now: Monotonic) -> Wall:
        """The time of day before which everything is older than so many seconds: of 0 seconds, all that there is."""
        if seconds <= 0:
            return Wall(inf)
        since = now - seconds
        aheads = [ahead for until, ahead in self._past if until >= since]
        return Wall(float(since) + min(aheads, default=self._ahead) - STEP)

    def _remember(self, ahead: float, now: Monotonic) -> None:
        """Of two times, the later one with the lesser lead is the one that counts."""
        known = [*((until, past) for until, past in self._past if past < ahead), (now, ahead)]
        self._past = [(until, past) for until, past in known if past < self._ahead]
