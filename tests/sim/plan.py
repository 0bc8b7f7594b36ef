"""The members of a simulated crew, and what goes wrong: drawn from a seed, or written by a test."""

from random import Random
from typing import Final

from msgspec import Struct
from tests.sim.network import LinkFaults
from tests.sim.workers import WorkerLuck

HORIZON: Final = 2.5  # seconds in which clients want something new
CLEAR: Final = 3.0  # seconds, then nothing fails any more


class Plan(Struct):
    """Chances are from 0 to 1; those without a comment are for each tenth of a second."""

    faults: LinkFaults = LinkFaults()
    grace: float = 15.0
    look_ahead: float = 0.5
    max_commit: float = 0.005
    disk_error: float = 0.0  # of one commit
    full_disk: float = 0.0  # that it gets full, or has room again
    luck: WorkerLuck = WorkerLuck()
    trouble: float = 0.0  # that a peer crashes or is cut
    crash: float = 0.0  # of the foreman
    down: tuple[float, ...] = (0.0, 0.0, 1.0, 12.0)  # seconds that it is then down; the last is longer than doors wait
    steps: float = 0.0  # of its wall clock
    gandy: int = 1  # workers
    plain: int = 0
    first_generation: int = 0
    roundrobin: int = 0
    pingpong: int = 0
    clients: int = 1
    jobs: int = 1  # of each client
    tasks: int = 5  # of each job, at most
    calls: int = 10  # of each client
    is_calm: bool = False  # clients let everything end, and users do nothing to jobs and workers
    drops: float = 0.0  # of one call by a round-robin worker
    has_clock: bool = False
    is_watched: bool = False  # by a referee on every v2 link


def draw_plan(seed: int) -> Plan:
    chance = Random(f"{seed} plan")
    cut, deaf = chance.choice([0.0, 0.0, 0.01, 0.04]), chance.choice([0.0, 0.0, 0.0, 0.3])
    return Plan(
        faults=LinkFaults(max_delay=chance.choice([0.002, 0.01]), cut=cut, deaf=deaf),
        grace=30.0 if deaf else chance.choice([1.0, 15.0]),  # longer than it takes to notice silence
        look_ahead=chance.choice([0.5, 10.0]),
        max_commit=chance.choice([0.005, 0.1]),
        disk_error=chance.choice([0.0, 0.0, 0.1]),
        full_disk=chance.choice([0.0, 0.0, 0.05]),
        luck=WorkerLuck(
            refusal=chance.choice([0.0, 0.0, 0.1, 0.5]),
            task_failure=chance.choice([0.0, 0.0, 0.2]),
            task_seconds=chance.choice([0.02, 0.1, 0.4]),
        ),
        trouble=chance.choice([0.0, 0.0, 0.05, 0.15]),
        crash=chance.choice([0.0, 0.0, 0.05]),
        steps=chance.choice([0.0, 0.2]),
        gandy=chance.choice([0, 1, 1, 2, 4]),
        plain=chance.choice([0, 0, 0, 1]),
        first_generation=chance.choice([0, 0, 0, 1]),
        roundrobin=chance.choice([0, 0, 0, 1, 2]),
        pingpong=chance.choice([0, 0, 0, 1, 2]),
        clients=chance.choice([1, 2, 3]),
        jobs=chance.choice([0, 1, 2, 4]),
        tasks=chance.choice([1, 5, 20]),
        calls=chance.choice([0, 10, 30]),
        drops=chance.choice((0.0, 0.0, 0.1)),
        has_clock=chance.random() < 0.1,
        is_watched=chance.random() < 0.1,
    )
