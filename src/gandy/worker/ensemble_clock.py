"""The shared clock as a worker uses it: calls and tasks that begin at a shared time. Runs on the worker's loop.

Nothing begins before its time. If the clock is adjusted meanwhile, the start follows it. If the clock starts over, the
time means nothing any more, and `on_lost` is called for the call or task that waits for it.
"""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from gandy.clocks import read_monotonic
from gandy.errors import GandyError
from gandy.moments import Shared

if TYPE_CHECKING:
    from gandy.bus import Ensemble

LOOK_PERIOD: Final = 0.5  # seconds between two looks at a clock that may be adjusted meanwhile
NEAR: Final = 0.2  # seconds; from then on the ensemble's engine waits, which is exact to the microsecond
RESTART: Final = 10.0  # seconds; a clock that moves by more between two looks has started over

OnLost = Callable[[str], None]


class TimedStart:
    """Calls `act` once at its time, or `on_lost` with a reason, unless it is cancelled."""

    def __init__(self, ensemble: "Ensemble", at: Shared, act: Callable[[], None], on_lost: OnLost) -> None:
        self._ensemble = ensemble
        self._at = at
        self._act = act
        self._on_lost = on_lost
        self._loop = asyncio.get_running_loop()
        self._cancel_wake: Callable[[], bool] | None = None  # once the engine waits for the time
        self._is_over = False
        self._offset: float | None = None  # shared time minus monotonic time, at the last look
        self._timer = self._loop.call_later(0, self._look)

    def cancel(self) -> None:
        self._is_over = True
        self._timer.cancel()
        if self._cancel_wake is not None:
            with suppress(GandyError):  # the ensemble is closed, and its timers with it
                self._cancel_wake()

    def _look(self) -> None:
        """Look again until its time: the clock may be lost or start over meanwhile."""
        try:
            left = self._compute_seconds_left()
            if left <= NEAR and self._cancel_wake is None:
                self._cancel_wake = self._ensemble.call_at(float(self._at), self._wake)
        except GandyError as error:
            self.cancel()
            self._on_lost(str(error))
            return
        pause = LOOK_PERIOD if left <= NEAR else min(left - NEAR / 2, LOOK_PERIOD)
        self._timer = self._loop.call_later(pause, self._look)

    def _compute_seconds_left(self) -> float:
        """Raises: GandyError."""
        now = Shared(self._ensemble.now())
        offset = float(now) - float(read_monotonic())
        before, self._offset = self._offset, offset
        if before is not None and abs(offset - before) > RESTART:
            raise GandyError("the shared time was reset, so its time means nothing now")
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


class EnsembleClock:
    """The shared clock of one worker. Until it joins an ensemble, the time is not known."""

    def __init__(self, on_change: Callable[[], None]) -> None:
        """`on_change` is called when `is_known` has changed."""
        self.is_known = False
        self._ensemble: Ensemble | None = None
        self._on_change = on_change

    def join(self, ensemble: "Ensemble") -> None:
        loop = asyncio.get_running_loop()
        self._ensemble = ensemble

        def on_news(_news: object) -> None:
            with suppress(RuntimeError):  # the worker has stopped
                loop.call_soon_threadsafe(self.update)

        ensemble.on_news(on_news)
        self.update()

    def update(self) -> None:
        """Find out if the time is known now: a clock can be lost without any news."""
        before, self.is_known = self.is_known, self._is_synced()
        if self.is_known != before:
            self._on_change()

    def _is_synced(self) -> bool:
        try:
            return self._ensemble is not None and self._ensemble.is_synced
        except GandyError:
            return False

    def seconds_since(self, at: Shared) -> float:
        """Return how long ago this shared time was; negative if it is in the future. Raises: NoClock."""
        assert self._ensemble is not None
        return Shared(self._ensemble.now()) - at

    def call_at(self, at: Shared, act: Callable[[], None], on_lost: OnLost) -> TimedStart:
        """Call `act` at the time, or `on_lost` if the clock is lost before; neither from within this method."""
        assert self._ensemble is not None
        return TimedStart(self._ensemble, at, act, on_lost)
