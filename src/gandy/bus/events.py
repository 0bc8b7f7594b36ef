"""The types in which a program gets messages and processes from the bus."""

from typing import Any, NamedTuple

from gandy.bus.core.processes import ProcessState


class Message(NamedTuple):
    """A message as it was sent, for handlers of a whole service."""

    address: str
    types: str
    values: tuple[Any, ...]
    time: float  # shared time; 0.0: at once


class Neighbour(NamedTuple):
    """Another process of the ensemble."""

    name: str
    state: ProcessState
    services: tuple[str, ...]
