"""Answers about the ensemble of the bus that the dashboard takes part in, if it was told to."""

from gandy.dashboard.bus_view import BusAnswer
from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.endpoints import ApiCall


async def show_bus(crew: ShownCrew, _call: ApiCall) -> BusAnswer:
    return crew.bus.answer
