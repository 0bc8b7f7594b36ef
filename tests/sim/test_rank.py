"""Rank decides: a job does not wait long while others of lower rank begin tasks, however little is known of its pace.

Workers that come and go, arrays of all kinds, some with tasks of unequal length, and jobs of higher rank that come
later, from a seed. Each time that a task begins, all jobs of higher rank that could have had its worker are looked at.
"""

import os
from functools import partial

import pytest

from gandy.core.jobs import ActiveJob
from gandy.core.model import JobSpec
from gandy.core.policy import Policy
from gandy.ids import JobId
from gandy.store.memory import MemoryStore
from gandy.testing import Simulation
from gandy.testing.crew import Luck, SimulatedForeman, SimulatedWorker
from gandy.wire.messages import Task

SEEDS = int(os.environ.get("GANDY_SIM_SEEDS", "1000")) // 20
LOOK_AHEAD = 0.5
LATENCY = 0.3  # seconds that the network, the disk and the clock of the simulation may take
DURATIONS = (0.001, 0.02, 0.1, 0.4, 1.0)
SLOW = 1.0  # seconds that some tasks of an array take, whatever the others do


class RankedCrew:
    """Every job has a pace of its own, and keeps to it more or less."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        chance = self.simulation.random
        luck = Luck(max_commit=0.005)
        self.foreman = SimulatedForeman(self.simulation, MemoryStore(), luck, Policy(look_ahead=LOOK_AHEAD))
        self.foreman.after_step = self.note_waiting
        self.seconds: dict[int, float] = {}  # that a task takes, by job
        self.vary = chance.choice([0.0, 0.0, 0.5])
        self.slow_one_in = chance.choice([0, 0, 3, 7, 50])  # tasks of the arrays
        self.waiting_since: dict[JobId, float] = {}  # for the next task of a job to be given out, if one is ready
        self.attempts: dict[JobId, int] = {}
        self.begun = 0
        self.foreman.start()
        self.workers = []
        for number in range(chance.randint(1, 3)):
            worker = SimulatedWorker(self.simulation, self.foreman, f"worker{number}", chance.choice([1, 2, 4]), luck)
            worker.ahead = worker.slots * 100
            worker.choose_seconds = self.choose_seconds
            worker.on_start = partial(self.on_start, worker)
            worker.start()
            self.workers.append(worker)
        self.slots = max(worker.slots for worker in self.workers)
        self.arrays = chance.randint(1, 3)
        for _ in range(self.arrays):
            self.submit(tasks=3_000, slots=chance.choice([1, 1, 1, self.slots]))
        for number in range(chance.randint(1, 4)):
            slots = chance.choice([self.slots] if self.slow_one_in else [1, 1, 2, self.slots])
            priority, tasks = chance.randint(1, 9), chance.choice([1, 1, 5])
            self.simulation.call_later(1.0 + number, partial(self.submit, tasks, slots, priority))
        for _ in range(chance.choice([0, 0, 1, 3])):
            self.simulation.call_later(chance.uniform(0.5, 6.0), partial(self.restart, chance.choice(self.workers)))

    def restart(self, worker: SimulatedWorker) -> None:
        """What was gathered there is lost, so that all wait anew."""
        worker.crash()
        worker.start()
        self.waiting_since = dict.fromkeys(self.waiting_since, self.simulation.now)

    def submit(self, tasks: int, slots: int = 1, priority: int = 0) -> None:
        self.seconds[len(self.seconds) + 1] = self.simulation.random.choice(DURATIONS)
        self.foreman.submit(JobSpec(command="x", tasks=tasks, slots=min(slots, self.slots), priority=priority))

    def choose_seconds(self, task: Task) -> float:
        chance = self.simulation.random
        if self.slow_one_in and task.job.job_id <= self.arrays and not chance.randrange(self.slow_one_in):
            return SLOW
        return self.seconds[task.job.job_id] * (1 + self.vary * chance.uniform(-1, 1))

    def note_waiting(self) -> None:
        """A job that was given something, or has nothing that could begin, waits anew.

        So does one of several slots behind it, for which slots could not be gathered before.
        """
        is_overtaken = False
        for job in sorted(self.foreman.foreman.reactor.jobs, key=lambda job: job.rank):
            given = job.tasks.count - job.tasks.waiting
            is_given = given != self.attempts.get(job.id, 0)
            if is_given or job.tasks.find_ready(self.foreman.now) is None or (is_overtaken and job.spec.slots > 1):
                self.attempts[job.id] = given
                self.waiting_since[job.id] = self.simulation.now
            is_overtaken = is_overtaken or is_given
            self.waiting_since.setdefault(job.id, self.simulation.now)

    def on_start(self, worker: SimulatedWorker, task: Task) -> None:
        self.begun += 1
        reactor = self.foreman.foreman.reactor
        begun = reactor.jobs.find(task.job.job_id)
        for job in reactor.jobs:
            if begun is not None and job.rank < begun.rank and self.could_take(worker, job):
                waited = self.simulation.now - self.waiting_since[job.id]
                assert waited <= self.bound(job), (self.simulation.seed, job.id, job.spec, begun.id, waited)

    def could_take(self, worker: SimulatedWorker, job: ActiveJob) -> bool:
        return job.spec.slots <= worker.slots and job.tasks.find_ready(self.foreman.now) is not None

    def bound(self, job: ActiveJob) -> float:
        """What waits on workers, what runs there, and, where slots are gathered, what filled them meanwhile."""
        longest = max(SLOW if self.slow_one_in else 0.0, max(self.seconds.values()) * (1 + self.vary))
        return LOOK_AHEAD * (1 + self.vary) + longest * (1 if job.spec.slots == 1 else 2) + LATENCY

    def run(self, seconds: float) -> None:
        while self.simulation.now < seconds:
            self.simulation.step()


@pytest.mark.parametrize("block", range(10))
def test_no_task_waits_while_one_of_lower_rank_begins_on_a_worker_that_could_take_it(block: int) -> None:
    for seed in range(block * SEEDS // 10, (block + 1) * SEEDS // 10):
        crew = RankedCrew(seed)
        crew.run(9.0)
        assert crew.begun > 5
