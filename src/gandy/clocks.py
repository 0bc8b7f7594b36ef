"""Reads the clocks of this machine. The shared clock is the ensemble's: `bus.core.clock`."""

import time
from typing import TYPE_CHECKING

from gandy.moments import Monotonic, Wall

if TYPE_CHECKING:

    def read_monotonic() -> Monotonic: ...

    def read_wall() -> Wall: ...

else:
    read_monotonic = time.monotonic  # not wrapped in a function, because it is called for every message
    read_wall = time.time
