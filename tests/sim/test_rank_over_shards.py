"""Rank decides in the whole crew: a job does not wait long while jobs of lower rank, of any shard, begin tasks.

Workers that come and go share their slots among shards, long arrays of low rank fill them, and jobs of higher rank
come later to any foreman. Each time that a task begins, all jobs of higher rank that could have had its worker are
looked at.
"""

from functools import partial
from random import Random

import pytest
from tests.sim.crew import SEEDS
from tests.sim.laws import BrokenLaw, Law, require
from tests.sim.many_foremen import ManyForemenCrew, ManyPlan
from tests.sim.worker_process import WorkerProcess

from gandy.core import shares
from gandy.core.jobs import ActiveJob
from gandy.core.model import JobSpec, TaskState
from gandy.core.queue import Rank
from gandy.ids import JobId
from gandy.worker.order import Order

RANKED_SEEDS = SEEDS // 20
BLOCKS = 5
# Seconds, besides the longest task, for which a job may be overtaken: its foreman must say what it wants, the worker
# what it may use, and what waits on the worker may begin first.
LATENCY = 0.5
DURATIONS = (0.02, 0.1, 0.4, 1.0)


class RankedShards(ManyForemenCrew):
    """Every job has a pace of its own."""

    def __init__(self, seed: int) -> None:
        chance = self.chance = Random(f"{seed} ranks")
        self.seconds: dict[JobId, float] = {}  # that a task takes
        self.overtaken_since: dict[JobId, float] = {}  # jobs that could have begun a task when one of lower rank began
        self.begun = 0
        workers, foremen = chance.randint(1, 2), chance.randint(2, 3)
        super().__init__(seed, ManyPlan(foremen=foremen, workers=workers, clients=3, jobs=0, calls=0, is_calm=True))
        for worker in self.workers:
            worker.choose_seconds = self.choose_seconds
            worker.on_start = partial(self.on_start, worker)
        for _ in range(chance.randint(1, 4)):
            self.submit_later(0.5, tasks=2_000, priority=0)
        for number in range(chance.randint(1, 4)):
            self.submit_later(2.0 + number, tasks=chance.choice([1, 1, 5, 20]), priority=chance.randint(1, 9))
        for _ in range(chance.choice([0, 0, 2])):
            self.simulation.call_later(chance.uniform(1.0, 7.0), partial(self.restart, chance.choice(self.workers)))

    def submit_later(self, delay: float, tasks: int, priority: int) -> None:
        client = self.chance.choice(self.clients)
        spec = JobSpec(command="x", tasks=tasks, priority=priority)
        client.call_later(delay, lambda: client.submit(spec))

    def restart(self, worker: WorkerProcess) -> None:
        """It may be there again before foremen notice that its links are dead."""
        worker.kill()
        worker.start()
        self.overtaken_since.clear()

    def choose_seconds(self, order: Order) -> float:
        return self.seconds.setdefault(order.attempt.job, self.chance.choice(DURATIONS))

    def list_active(self) -> list[ActiveJob]:
        servers = (server for foreman in self.foremen for server in foreman.list_servers())
        return [job for server in servers for job in server.foreman.reactor.jobs]

    def on_start(self, worker: WorkerProcess, order: Order) -> None:
        """Tasks that wait on a worker may overtake others for a moment, if their shard wants slots for a better job."""
        self.begun += 1
        now, jobs = self.simulation.now, {job.id: job for job in self.list_active()}
        begun = jobs.get(order.attempt.job)
        if begun is None:
            return
        for job in jobs.values():
            if find_rank(job) >= find_rank(begun) or not has_waiting(job):
                self.overtaken_since.pop(job.id, None)
                continue
            seconds = now - self.overtaken_since.setdefault(job.id, now)
            text = f"seed {self.simulation.seed}: tasks of {begun.id} begin on {worker.id}, and not those of {job.id}"
            bound = max(self.seconds.values(), default=0.0) + LATENCY
            require(seconds <= bound, Law.RANK, f"{text}, for {seconds:.3f} s")

    def run_for(self, seconds: float) -> None:
        while self.simulation.now < seconds:
            self.simulation.step()
            if self.bugs:
                raise self.bugs[0]
        for process in (*self.foremen, *self.workers):
            process.loop.die()


def has_waiting(job: ActiveJob) -> bool:
    """True if a task waits, at its foreman or on a worker."""
    return job.may_start and any(True for _ in job.tasks.in_states(TaskState.WAITING, TaskState.ASSIGNED))


def find_rank(job: ActiveJob) -> Rank:
    """Higher priority first, then the older job: stated again, because a broken worker may order them differently."""
    return -job.spec.priority, job.id


def run_ranked(first: int, last: int) -> None:
    for seed in range(first, last):
        crew = RankedShards(seed)
        crew.run_for(9.0)
        assert crew.begun > 5


@pytest.mark.parametrize("block", range(BLOCKS))
def test_no_job_waits_while_one_of_lower_rank_begins_tasks_for_another_shard(block: int) -> None:
    run_ranked(block * RANKED_SEEDS // BLOCKS, (block + 1) * RANKED_SEEDS // BLOCKS)


def test_a_worker_that_does_not_know_rank_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shares, "get_rank", lambda claim: (0, -claim.job))
    with pytest.raises(BrokenLaw, match=Law.RANK):
        run_ranked(0, 40)
