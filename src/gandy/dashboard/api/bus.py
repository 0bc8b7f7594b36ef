"""Answers about the ensemble of the bus that the dashboard takes part in, if it was told to."""

from typing import Any

from msgspec import Struct

from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.endpoints import ApiCall


class ClockAnswer(Struct, frozen=True):
    """How well this process knows the shared time. Points: at, error, bound."""

    synced: bool
    error_us: float | None
    bound_us: float | None
    points: tuple[tuple[float, float, float], ...]


class BusAnswer(Struct, frozen=True):
    """The ensemble; null, if the dashboard takes part in none."""

    ensemble: str | None
    processes: tuple[dict[str, Any], ...]
    services: tuple[dict[str, Any], ...]
    leader: str | None
    clock: ClockAnswer


async def show_bus(_crew: ShownCrew, _call: ApiCall) -> BusAnswer:
    return BusAnswer(None, (), (), None, ClockAnswer(False, None, None, ()))
