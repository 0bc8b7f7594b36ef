"""Whether to look again at once instead of sleeping: where messages follow one another, waking up is what takes long.

To be woken takes a thread tens of microseconds, and both ends of a dialogue pay that for every message. So after a
message that came soon after the last one, its reader stays awake for a moment. Where nothing comes of that a few times,
it sleeps again, and does not try for a while: vigils never take more than a hundredth of a processor for nothing.
"""

from typing import Final

SOON: Final = 0.001  # seconds between two messages that may be a dialogue
MOMENT: Final = 0.0004  # seconds to stay awake
MAX_VAIN: Final = 3  # vigils without a message, one after the other
REST: Final = 0.1  # seconds without vigils, then


class Vigil:
    """Of one thread."""

    def __init__(self, is_allowed: bool) -> None:
        """Not on a machine with one processor: there the others could not even send."""
        self.until = 0.0  # stay awake
        self._is_allowed = is_allowed
        self._last = 0.0  # message
        self._vain = 0
        self._rests_until = 0.0

    def on_message(self, now: float) -> None:
        if now - self._last < SOON and self._is_allowed and now >= self._rests_until:
            self.until = now + MOMENT
        self._last = now

    def on_end(self, was_vain: bool, now: float) -> None:
        """Something came, or it was in vain."""
        self.until = 0.0
        self._vain = self._vain + 1 if was_vain else 0
        if self._vain >= MAX_VAIN:
            self._vain = 0
            self._rests_until = now + REST
