"""A crew on simulated time: for gandy's own tests, and for programs that want to test theirs against it.

Nothing here opens a socket or reads a clock. Chance comes from a seed, so whatever happens once happens again.
"""

from gandy.testing.ends import ForemanEnd, Ledger, WorkerEnd
from gandy.testing.link import End, SimulatedLink, Watcher
from gandy.testing.referee import BrokenLaw, Referee
from gandy.testing.simulation import Simulation
from gandy.testing.transcript import Transcript
from gandy.testing.weather import Weather, WeatheredLink

__all__ = [
    "BrokenLaw",
    "End",
    "ForemanEnd",
    "Ledger",
    "Referee",
    "SimulatedLink",
    "Simulation",
    "Transcript",
    "Watcher",
    "Weather",
    "WeatheredLink",
    "WorkerEnd",
]
