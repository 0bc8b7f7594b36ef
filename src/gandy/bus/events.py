"""What the bus tells a program."""

from typing import Any, NamedTuple

from gandy.bus.core.processes import ProcessState


class Message(NamedTuple):
    """A message as it came, for handlers that take everything."""

    address: str
    types: str
    values: tuple[Any, ...]
    time: float  # shared; 0.0: at once


class Neighbour(NamedTuple):
    """Another process of the ensemble."""

    name: str
    state: ProcessState
    services: tuple[str, ...]
