"""What every part of a simulated crew has: its own random numbers, and actions that are due later unless it dies first.

Each actor draws from a stream of its own, so that nothing that happens to one depends on the order in which the
foreman speaks to several in the same step.
"""

from collections.abc import Callable
from random import Random

from gandy.testing.simulation import Simulation


class Actor:
    """`life` counts starts: actions that an earlier life scheduled are not performed."""

    def __init__(self, simulation: Simulation, name: str) -> None:
        self.simulation = simulation
        self.name = name
        self.random = Random(f"{simulation.seed} {name}")
        self.life = 0
        self.is_up = False

    def start(self) -> None:
        """Begin a new life."""
        raise NotImplementedError

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        life = self.life
        self.simulation.call_later(delay, lambda: action() if life == self.life and self.is_up else None)

    def happens(self, chance: float) -> bool:
        return chance > 0 and self.random.random() < chance
