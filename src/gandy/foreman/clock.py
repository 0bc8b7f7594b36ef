"""The shared time as a foreman knows it, beside the time of this machine by which it decides."""

import time
from typing import TYPE_CHECKING

from gandy.errors import GandyError
from gandy.foreman.refusal import Refusal

if TYPE_CHECKING:
    from gandy.bus import AsyncEnsemble


class ForemanClock:
    """One for each foreman. Without a band it knows no shared time."""

    def __init__(self) -> None:
        self._band: AsyncEnsemble | None = None

    def join(self, band: "AsyncEnsemble") -> None:
        self._band = band

    def find_ahead(self) -> float | None:
        """How far the shared time is ahead of this machine's; None where it is not known."""
        try:
            if self._band is None or not self._band.is_synced:
                return None
            return self._band.now() - time.time()
        except GandyError:  # we have left
            return None

    def now(self) -> float:
        """Raises: Refusal."""
        ahead = self.find_ahead()
        if ahead is not None:
            return time.time() + ahead
        if self._band is None:
            raise Refusal("no_clock", "the foreman keeps no shared time: start it with --ensemble NAME")
        raise Refusal("no_clock", "the foreman does not know the shared time yet", retryable=True)
