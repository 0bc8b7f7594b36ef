"""The ensemble of the bus that the dashboard takes part in: processes, services and clock, looked at each second."""

import asyncio
from collections import deque
from math import isfinite
from typing import TYPE_CHECKING, Final

from msgspec import Struct

from gandy.clocks import read_wall

if TYPE_CHECKING:
    from gandy.bus import Ensemble

PERIOD: Final = 1.0  # seconds between two looks
POINTS: Final = 900  # a quarter of an hour
MICROSECONDS: Final = 1e6

ClockPoint = tuple[float, float, float]  # when; the probable error and its bound, in microseconds


class ClockAnswer(Struct, frozen=True):
    """How well the dashboard's process knows the shared time: its probable error, and the bound of that."""

    synced: bool = False
    error_us: float | None = None
    bound_us: float | None = None
    points: tuple[ClockPoint, ...] = ()


class ProcessLine(Struct, frozen=True):
    """Another process of the ensemble."""

    process: str
    state: str
    services: tuple[str, ...]


class ServiceLine(Struct, frozen=True):
    """A service, and the process that has it."""

    service: str
    process: str


class BusAnswer(Struct, frozen=True):
    """The ensemble; its name is null if the dashboard takes part in none."""

    ensemble: str | None = None
    processes: tuple[ProcessLine, ...] = ()
    services: tuple[ServiceLine, ...] = ()
    leader: str | None = None
    clock: ClockAnswer = ClockAnswer()


class BusView:
    """`run` looks until it is cancelled; `answer` is what it saw last."""

    def __init__(self, ensemble: "Ensemble | None") -> None:
        self._ensemble = ensemble
        self._points: deque[ClockPoint] = deque(maxlen=POINTS)
        self.answer = BusAnswer()

    async def run(self) -> None:
        if self._ensemble is None:
            return
        while True:
            self.answer = await asyncio.to_thread(self._look, self._ensemble)  # the engine may be busy with a handler
            await asyncio.sleep(PERIOD)

    async def close(self) -> None:
        if self._ensemble is not None:
            await asyncio.to_thread(self._ensemble.close)

    def _look(self, ensemble: "Ensemble") -> BusAnswer:
        neighbours = sorted(ensemble.neighbours())
        return BusAnswer(
            ensemble.name,
            tuple(ProcessLine(name, state.name.lower(), tuple(services)) for name, state, services in neighbours),
            tuple(ServiceLine(service, process) for service, process in sorted(ensemble.services().items())),
            ensemble.clock_leader,
            self._look_at_clock(ensemble),
        )

    def _look_at_clock(self, ensemble: "Ensemble") -> ClockAnswer:
        error, bound = ensemble.clock_estimate() * MICROSECONDS, ensemble.clock_error() * MICROSECONDS
        if not (isfinite(error) and isfinite(bound)):
            return ClockAnswer(ensemble.is_synced, points=tuple(self._points))
        self._points.append((float(read_wall()), error, bound))
        return ClockAnswer(ensemble.is_synced, error, bound, tuple(self._points))


async def join_ensemble(name: str | None) -> "Ensemble | None":
    """Raises: ConfigError."""
    if name is None:
        return None
    from gandy.bus import Ensemble  # slow to import, and seldom needed

    return await asyncio.to_thread(Ensemble, name)
