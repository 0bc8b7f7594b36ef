"""A foreman and a worker of the native wire on simulated time: for programs that want to test theirs against them.

Nothing here opens a socket or reads a clock. Chance comes from a seed, so a run can be repeated. `Referee` finds the
first message of a link that breaks the law, and `Transcript` writes messages down. examples/simulated_crew.py uses all.
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
