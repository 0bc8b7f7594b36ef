"""What begins at a shared time: calls and tasks that are held until then. On the worker's loop.

It never lets anything begin before its time. A clock that is put right meanwhile is followed; one that begins anew
makes the time mean nothing, and then whoever waits is told.
"""

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gandy.errors import GandyError

if TYPE_CHECKING:
    from gandy.bus import Ensemble

SLICE: Final = 0.5  # seconds between two looks at a clock that may be put right meanwhile
NEAR: Final = 0.2  # seconds; from here on the engine waits, which does so to the microsecond
RESTART: Final = 10.0  # seconds; a clock that moves by more between two looks has begun anew

OnLost = Callable[[str], None]


class Appointment:
    """One of them. `act` is called once at its time, or `on_lost` with a reason, or it is cancelled."""

    def __init__(self, band: "Ensemble", at: float, act: Callable[[], None], on_lost: OnLost) -> None:
        self._band = band
        self._at = at
        self._act = act
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._take_back: Callable[[], bool] | None = None
        self._is_over = False
        self._ahead: float | None = None  # of the shared time before the local one, at the last look
        self._timer = self._loop.call_later(0, self._look)

    def cancel(self) -> None:
        self._is_over = True
        self._timer.cancel()
        if self._take_back is not None:
            with suppress(GandyError):  # the band has ended, and its timers with it
                self._take_back()

    def _look(self) -> None:
        """Now and then until its time, so that nobody waits for what will never be."""
        try:
            left = self._tell_left()
            if left <= NEAR and self._take_back is None:
                self._take_back = self._band.call_at(self._at, self._wake)
        except GandyError as error:
            self.cancel()
            self._on_lost(str(error))
            return
        pause = SLICE if left <= NEAR else min(left - NEAR / 2, SLICE)
        self._timer = self._loop.call_later(pause, self._look)

    def _tell_left(self) -> float:
        """Raises: GandyError."""
        now = self._band.now()
        ahead = now - time.monotonic()
        before, self._ahead = self._ahead, ahead
        if before is not None and abs(ahead - before) > RESTART:
            raise GandyError("the shared time has begun anew, so its time means nothing now")
        return self._at - now

    def _wake(self) -> None:
        """In the engine's thread."""
        with suppress(RuntimeError):  # the worker has stopped
            self._loop.call_soon_threadsafe(self._on_time)

    def _on_time(self) -> None:
        if not self._is_over:
            self._is_over = True
            self._timer.cancel()
            self._act()


class Appointments:
    """For one worker. Without a band it knows no time."""

    def __init__(self) -> None:
        self._band: Ensemble | None = None
        self.knows_time = False

    def join(self, band: "Ensemble") -> None:
        self._band = band

    def look(self) -> bool:
        """Whether we know the shared time, and have not or the other way round when we looked last."""
        before, self.knows_time = self.knows_time, self._is_synced()
        return self.knows_time != before

    def _is_synced(self) -> bool:
        try:
            return self._band is not None and self._band.is_synced
        except GandyError:
            return False

    def tell_late(self, at: float) -> float:
        """How many seconds ago the shared time was; below zero, where it is still to come. Raises: NoClock."""
        assert self._band is not None
        return self._band.now() - at

    def make(self, at: float, act: Callable[[], None], on_lost: OnLost) -> Appointment:
        """Neither is called from within this."""
        assert self._band is not None
        return Appointment(self._band, at, act, on_lost)
