"""Decides whether a thread polls again at once instead of sleeping.

Waking a thread takes tens of microseconds, and in a dialogue both ends pay that for every message. So a reader that got
two messages in quick succession spins for a moment. After a few spins without a message it sleeps again, and does not
spin for a while: at most a hundredth of a processor is wasted.
"""

from typing import Final

from gandy.moments import LONG_AGO, Monotonic

SOON: Final = 0.001  # seconds between two messages that may be a dialogue
MOMENT: Final = 0.0004  # seconds to spin
MISSES_BEFORE_REST: Final = 3  # spins without a message, one after the other
REST: Final = 0.1  # seconds without spinning after that


class SpinPolicy:
    """When one thread spins. `until`: it spins until then; None while it sleeps."""

    def __init__(self, is_allowed: bool) -> None:
        """Forbid it on a machine with one processor: there a spinning reader keeps the sender from sending."""
        self.until: Monotonic | None = None
        self._is_allowed = is_allowed
        self._last_message = LONG_AGO
        self._misses = 0
        self._rests_until = LONG_AGO

    def on_message(self, now: Monotonic) -> None:
        if now - self._last_message < SOON and self._is_allowed and now >= self._rests_until:
            self.until = now + MOMENT
        self._last_message = now

    def on_caught(self) -> None:
        """A message came while it was spinning."""
        self.until = None
        self._misses = 0

    def on_missed(self, now: Monotonic) -> None:
        """It stopped spinning before a message came."""
        self.until = None
        self._misses += 1
        if self._misses >= MISSES_BEFORE_REST:
            self._misses = 0
            self._rests_until = now + REST
