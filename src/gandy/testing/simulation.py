"""Time that passes only when the program says so, and chance that comes from a seed."""

import heapq
from collections.abc import Callable
from random import Random


class Simulation:
    """A queue of things to do at simulated times. The same seed gives the same run."""

    def __init__(self, seed: int = 0) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.now = 0.0
        self._due: list[tuple[float, int, Callable[[], None]]] = []
        self._count = 0  # breaks ties: what was asked for first is done first

    def call_later(self, delay: float, action: Callable[[], None]) -> None:
        self._count += 1
        heapq.heappush(self._due, (self.now + delay, self._count, action))

    def step(self) -> bool:
        """Do the next thing; False where there is none."""
        if not self._due:
            return False
        self.now, _, action = heapq.heappop(self._due)
        action()
        return True

    def run(self, max_steps: int = 1_000_000) -> int:
        """Go on until nothing is left to do. Gives the number of steps.

        Raises: RuntimeError, after too many steps: something goes in circles.
        """
        for steps in range(max_steps):
            if not self.step():
                return steps
        raise RuntimeError(f"seed {self.seed} is not done after {max_steps} steps")
