"""Rank decides: a job does not wait long while jobs of lower rank begin tasks, however little is known of its pace.

Workers that come and go, arrays of all kinds, some with tasks of unequal length, and jobs of higher rank that come
later, from a seed. Each time that a task begins, all jobs of higher rank that could have had its worker are looked at.
"""

from collections.abc import Iterable
from functools import partial
from random import Random

import pytest
from tests.sim.clients import JobClient
from tests.sim.crew import SEEDS
from tests.sim.disk import Disk
from tests.sim.foreman import ForemanProgram
from tests.sim.laws import BrokenLaw, Law, Laws, require
from tests.sim.network import LinkFaults, Network
from tests.sim.shared_clock import NoClock
from tests.sim.workers import GandyWorker, WorkerLuck

from gandy.core.jobs import ActiveJob
from gandy.core.model import JobSpec
from gandy.core.policy import Policy
from gandy.core.queue import Rank
from gandy.ids import JobId
from gandy.testing.simulation import Simulation
from gandy.wire.messages import Task

RANKED_SEEDS = SEEDS // 20
BLOCKS = 10
LOOK_AHEAD = 0.5
LATENCY = 0.3  # seconds that the network, the disk and the clock of the simulation may take
DURATIONS = (0.001, 0.02, 0.1, 0.4, 1.0)
SLOW = 1.0  # seconds that some tasks of an array take, whatever its other tasks take


class RankedCrew:
    """Every job has a pace of its own, and keeps to it more or less."""

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        self.random = chance = Random(f"{seed} ranks")
        self.laws = Laws()
        network, disk = Network(self.simulation, LinkFaults()), Disk(self.laws, 0.005, 0.0, seed)
        policy = Policy(look_ahead=LOOK_AHEAD)
        self.program = ForemanProgram(self.simulation, network, disk, self.laws, policy, NoClock())
        self.program.after_step = self.note_waiting
        self.seconds: dict[str, float] = {}  # that a task takes, by the name of its job
        self.vary = chance.choice([0.0, 0.0, 0.5])
        self.slow_one_in = chance.choice([0, 0, 3, 7, 50])  # tasks of the arrays
        self.waiting_since: dict[JobId, float] = {}  # for the next task of a job to be given out, if one is ready
        self.given: dict[JobId, int] = {}  # tasks, by job
        self.begun = 0
        self.program.start()
        self.workers = [self.add_worker(number) for number in range(chance.randint(1, 3))]
        self.slots = max(worker.slots for worker in self.workers)
        self.client = JobClient(self.simulation, self.program, self.laws, "client", NoClock())
        self.client.start()
        self.arrays = chance.randint(1, 3)
        for _ in range(self.arrays):
            self.submit_later(0.1, tasks=3_000, slots=chance.choice([1, 1, 1, self.slots]), priority=0)
        for number in range(chance.randint(1, 4)):
            slots = chance.choice([self.slots] if self.slow_one_in else [1, 1, 2, self.slots])
            self.submit_later(1.0 + number, chance.choice([1, 1, 5]), slots, chance.randint(1, 9))
        for _ in range(chance.choice([0, 0, 1, 3])):
            self.simulation.call_later(chance.uniform(0.5, 6.0), partial(self.restart, chance.choice(self.workers)))

    def add_worker(self, number: int) -> GandyWorker:
        slots = self.random.choice([1, 2, 4])
        worker = GandyWorker(self.simulation, self.program, self.laws, f"worker{number}", slots, WorkerLuck())
        worker.ahead = slots * 100
        worker.tasks.choose_seconds = self.choose_seconds
        worker.on_start = partial(self.on_start, worker)
        worker.start()
        return worker

    def restart(self, worker: GandyWorker) -> None:
        """The slots gathered there are lost, so all waits start again."""
        worker.crash()
        worker.start()
        self.waiting_since = dict.fromkeys(self.waiting_since, self.simulation.now)

    def submit_later(self, delay: float, tasks: int, slots: int, priority: int) -> None:
        spec = JobSpec(command="x", tasks=tasks, slots=min(slots, self.slots), priority=priority)
        self.client.call_later(delay, lambda: self.client.submit(spec))

    def choose_seconds(self, task: Task) -> float:
        name = task.job.name
        if self.slow_one_in and task.job.job_id <= self.arrays and not self.random.randrange(self.slow_one_in):
            return SLOW
        if name not in self.seconds:
            self.seconds[name] = self.random.choice(DURATIONS)
        return self.seconds[name] * (1 + self.vary * self.random.uniform(-1, 1))

    def note_waiting(self) -> None:
        """A job that was given something, or has nothing that could begin, waits anew.

        So does one of several slots behind it, for which slots could not be gathered before.
        """
        is_overtaken = False
        for job in sorted(self.program.foreman.reactor.jobs, key=find_rank):
            given = job.tasks.count - job.tasks.waiting
            is_given = given != self.given.get(job.id, 0)
            if is_given or job.tasks.find_ready(self.program.now) is None or (is_overtaken and job.spec.slots > 1):
                self.given[job.id] = given
                self.waiting_since[job.id] = self.simulation.now
            is_overtaken = is_overtaken or is_given
            self.waiting_since.setdefault(job.id, self.simulation.now)

    def on_start(self, worker: GandyWorker, task: Task) -> None:
        self.begun += 1
        reactor = self.program.foreman.reactor
        begun = reactor.jobs.find(task.job.job_id)
        for job in reactor.jobs:
            if begun is not None and find_rank(job) < find_rank(begun) and self.could_take(worker, job):
                waited = self.simulation.now - self.waiting_since[job.id]
                text = f"seed {self.simulation.seed}: job {job.id} waited {waited:.3f} s when one of {begun.id} began"
                require(waited <= self.find_bound(job), Law.RANK, text)

    def could_take(self, worker: GandyWorker, job: ActiveJob) -> bool:
        return job.spec.slots <= worker.slots and job.tasks.find_ready(self.program.now) is not None

    def find_bound(self, job: ActiveJob) -> float:
        """Tasks that wait or run on workers and, if slots are gathered, those that filled them meanwhile."""
        slowest = max(self.seconds.values(), default=0.0) * (1 + self.vary)
        longest = max(SLOW if self.slow_one_in else 0.0, slowest)
        return LOOK_AHEAD * (1 + self.vary) + longest * (1 if job.spec.slots == 1 else 2) + LATENCY

    def run(self, seconds: float) -> None:
        while self.simulation.now < seconds:
            self.simulation.step()


def find_rank(job: ActiveJob) -> Rank:
    """Higher priority first, then the older job: stated again, because a broken foreman may order them differently."""
    return -job.spec.priority, job.id


def run_ranked(seeds: Iterable[int]) -> None:
    for seed in seeds:
        crew = RankedCrew(seed)
        crew.run(9.0)
        assert crew.begun > 5


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_task_waits_while_one_of_lower_rank_begins_on_a_worker_that_could_take_it(block: int) -> None:
    run_ranked(range(block * RANKED_SEEDS // BLOCKS, (block + 1) * RANKED_SEEDS // BLOCKS))


def test_a_foreman_that_does_not_know_rank_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ActiveJob, "rank", property(lambda job: (0, job.id)))
    with pytest.raises(BrokenLaw, match=Law.RANK):
        run_ranked(range(20))
