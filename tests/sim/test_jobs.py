"""A crew with a store, in which everything fails at any time: no task is lost, and no result is recorded twice."""

import os
from collections import Counter
from collections.abc import Callable
from random import Random

import pytest

from gandy.core.effects import Effect
from gandy.core.jobs import FINAL_JOB_STATES
from gandy.core.model import AttemptKey, JobSpec, TaskKey, TaskState
from gandy.core.policy import Policy
from gandy.core.reactor import LONGEST_REFUSAL_PAUSE
from gandy.core.records import Record
from gandy.ids import JobId, TaskNumber
from gandy.store.memory import MemoryStore
from gandy.testing import Referee, Simulation, Weather
from gandy.testing.crew import Asked, Luck, SimulatedForeman, SimulatedWorker, run_sync

SEEDS = int(os.environ.get("GANDY_SIM_SEEDS", "1000"))
MAX_SECONDS = 300.0  # of simulated time: by then every crew must be done
MAX_IDLE = LONGEST_REFUSAL_PAUSE + 1.0  # seconds: the pause after refusals, and what a disk with errors takes
GRACE = 1.0  # seconds
LOOK_AHEAD = 10.0  # seconds; so long that tasks wait on workers
MAX_DEADLINE = (
    max(GRACE, LONGEST_REFUSAL_PAUSE, LOOK_AHEAD) + 1e-6
)  # seconds; a foreman waits for nothing longer. Sums are not exact.


class Caller:
    """A client that adds calls to an open job, some at a time, and again what it has no answer for."""

    def __init__(self, foreman: SimulatedForeman, calls: int) -> None:
        self._foreman = foreman
        self._calls = calls
        self._waits_in = -1  # the life of the foreman in which an answer is due
        self._sure = 0  # calls that the foreman has
        self.job: JobId | None = None
        self.is_closed = False

    def tick(self, now: float, chance: Random) -> None:
        if self._waits_in == self._foreman.life or self.is_closed:
            return
        reactor = self._foreman.foreman.reactor
        if self.job is None:
            spec = JobSpec(command="f", tasks=0, is_open=True, has_lines=True, retries=3, retry_pause=0.05)
            job, effects = reactor.submit(spec, now)
            self._ask(effects, lambda: setattr(self, "job", job))
        elif self._sure < self._calls:
            first = chance.randint(max(1, self._sure - 2), self._sure + 1)
            last = min(self._calls, first + chance.randint(1, 5))
            inputs = tuple(b"%d" % number for number in range(first, last + 1))
            effects = reactor.add_tasks(self.job, TaskNumber(first), inputs, now)
            self._ask(effects, lambda: setattr(self, "_sure", max(self._sure, last)))
        else:
            # A job that was opened just before a crash may be nobody's.
            mine = [job.id for job in reactor.jobs if job.is_open]
            effects = [effect for job in mine for effect in reactor.close(job, now)]
            self._ask(effects, lambda: setattr(self, "is_closed", True))

    def _ask(self, effects: list[Effect], on_done: Callable[[], None]) -> None:
        self._waits_in = self._foreman.life

        def finish() -> None:
            self._waits_in = -1
            on_done()

        self._foreman.decide(effects, Asked(finish, lambda: setattr(self, "_waits_in", -1)))

    def check_end(self, store: MemoryStore) -> None:
        assert self.job is not None
        row = run_sync(store.find_job(self.job))
        assert row is not None
        assert (row.spec.tasks, row.spec.is_open) == (self._calls, False)
        lines = run_sync(store.read_lines(self.job, TaskNumber(1), self._calls + 1))
        assert lines == [b"%d" % number for number in range(1, self._calls + 1)]


class Crew:
    """Jobs, workers and bad luck from a seed; the trouble ends after a while, and then everything must come right."""

    def __init__(self, seed: int, workers: int | None = None, tasks: int | None = None) -> None:
        self.simulation = Simulation(seed)
        chance = self.simulation.random
        weather = Weather(max_delay=chance.choice([0.001, 0.01]), tear=0.3, cut=chance.choice([0, 0, 0.002, 0.02]))
        luck = Luck(
            weather,
            max_commit=chance.choice([0.005, 0.1]),
            disk_error=chance.choice([0, 0, 0.1]),
            refusal=chance.choice([0, 0, 0.1, 0.5]),
            task_failure=chance.choice([0, 0, 0.2]),
        )
        self.store = MemoryStore()
        # A crash limit that is never reached: here a crash is bad luck, and not the task's fault.
        self.foreman = SimulatedForeman(
            self.simulation, self.store, luck, Policy(grace=GRACE, crash_limit=1_000, look_ahead=LOOK_AHEAD)
        )
        self.foreman.after_step = self.check_step
        self.foreman.start()
        count = workers or chance.randint(1, 6)
        self.workers = [
            SimulatedWorker(
                self.simulation, self.foreman, f"worker{number}", chance.randint(1, 4), luck, chance.random() < 0.3
            )
            for number in range(count)
        ]
        for worker in self.workers:
            worker.start()
        self.trouble = chance.choice([0.0, 0.02, 0.1])
        self.idle_since: dict[str, float] = {}  # workers that could have a task that waits
        self.steps = chance.choice([0.0, 0.1, 0.5])  # of the wall clock
        self.submit(tasks or chance.randint(1, 40))
        self.caller = Caller(self.foreman, chance.randint(1, 20))
        self.simulation.call_later(0.05, self.tick)

    def submit(self, tasks: int) -> None:
        chance = self.simulation.random
        while tasks > 0:
            size = chance.randint(1, tasks)
            tasks -= size
            limit = chance.choice([None, None, chance.randint(1, 5)])
            spec = JobSpec(command="true", tasks=size, retries=chance.randint(0, 3), retry_pause=0.05, limit=limit)
            self.foreman.submit(spec)

    def check_step(self) -> None:
        reactor = self.foreman.foreman.reactor
        reactor.check()
        for worker in reactor.workers:
            running = [worker.held[attempt] for attempt in worker.begun if reactor.is_current(attempt)]
            assert not worker.info.slots or sum(held.slots for held in running) <= worker.info.slots
            if worker.info.reports_begun:
                assert all(any(attempt in each.runs for each in self.workers) for attempt in worker.begun)
        deadline = reactor.next_deadline()
        assert deadline is None or deadline - self.foreman.now <= MAX_DEADLINE

    def check_starvation(self) -> None:
        """No worker that is here and idle stays without a task that fits: it is offered one within the bound."""
        reactor, now = self.foreman.foreman.reactor, self.simulation.now
        ahead = self.foreman.now - now
        is_ready = any(job.may_start and job.tasks.find_ready(now + ahead) is not None for job in reactor.jobs)
        if not (self.foreman.is_up and is_ready):
            self.idle_since.clear()
            return
        here = (worker for worker in reactor.workers if worker.connected and not worker.draining)
        idle = [worker for worker in here if not worker.slots.by_tasks]
        since = {worker.info.id: self.idle_since.get(worker.info.id, now) for worker in idle}
        self.idle_since = {worker.info.id: max(since[worker.info.id], worker.last_moved - ahead) for worker in idle}
        assert all(now - then <= MAX_IDLE for then in self.idle_since.values()), self.idle_since

    def tick(self) -> None:
        """Once in a while somebody pulls a plug."""
        self.check_starvation()
        chance = self.simulation.random
        if self.simulation.now > 5:
            self.trouble = 0.0
        if chance.random() < self.steps:
            self.foreman.wall_ahead += chance.choice([-86_400.0, -3_600.0, -1.0, 1.0, 3_600.0, 86_400.0])
        if not self.foreman.is_up:
            self.foreman.start()
        elif chance.random() < self.trouble:
            self.foreman.crash()
        if self.foreman.is_up:
            self.caller.tick(self.foreman.now, chance)
        for worker in self.workers:
            if not worker.is_up:
                worker.start()
            elif chance.random() < self.trouble:
                chance.choice([worker.crash, worker.cut, worker.cut])()
        if not self.is_done() and self.simulation.now < MAX_SECONDS:
            self.simulation.call_later(0.1, self.tick)

    def is_done(self) -> bool:
        rows = run_sync(self.store.list_jobs(None, 1_000, None))
        is_submitted = self.foreman.is_up and not self.foreman.foreman.has_work and self.simulation.now > 1
        return is_submitted and self.caller.is_closed and all(row.state in FINAL_JOB_STATES for row in rows)

    def run(self) -> None:
        while not self.is_done() and self.simulation.now < MAX_SECONDS:
            self.simulation.step()

    def check_end(self) -> None:
        assert self.is_done(), f"seed {self.simulation.seed} is not done"
        self.caller.check_end(self.store)
        assert self.caller.job is not None
        # The number of a job that was never stored may be given again after a crash: nobody was told it.
        refused = set(self.foreman.refused).difference(self.foreman.acknowledged, [self.caller.job])
        assert all(run_sync(self.store.find_job(job)) is None for job in refused)
        for job in [*self.foreman.acknowledged, self.caller.job]:
            row = run_sync(self.store.find_job(job))
            assert row is not None
            for task in range(1, row.spec.tasks + 1):
                self.check_task(job, TaskNumber(task), row.spec.retries)
        runs = sum((worker.runs for worker in self.workers), Counter[AttemptKey]())
        assert all(count == 1 for count in runs.values())
        # A worker is back before its time is over, with what ended on its disk.
        successes = sum((worker.successes for worker in self.workers), Counter[TaskKey]())
        assert max(successes.values(), default=1) == 1, (
            f"seed {self.simulation.seed}: a task ran again that had ended well"
        )

    def check_task(self, job: JobId, task: TaskNumber, retries: int) -> None:
        attempts = run_sync(self.store.list_attempts(job, task))
        assert [attempt.attempt for attempt in attempts] == list(range(1, len(attempts) + 1))
        *earlier, last = attempts
        assert last.state in (TaskState.FINISHED, TaskState.FAILED)
        assert all(attempt.state is TaskState.WAITING for attempt in earlier)
        failures = sum(attempt.ending is not None and attempt.ending.exit_code == 1 for attempt in attempts)
        assert failures <= retries + 1
        assert last.state is TaskState.FINISHED or failures == retries + 1


@pytest.mark.parametrize("block", range(20))
def test_no_seed_loses_a_task_or_records_a_result_twice(block: int) -> None:
    for seed in range(block * SEEDS // 20, (block + 1) * SEEDS // 20):
        crew = Crew(seed)
        crew.run()
        crew.check_end()


def test_the_wire_keeps_its_law_in_a_crew() -> None:
    for seed in range(50):
        crew = Crew(seed, workers=2)
        for worker in crew.workers:
            worker.watch = lambda: (Referee(),)
        crew.run()
        crew.check_end()


@pytest.mark.parametrize("seed", range(2))
def test_a_large_crew(seed: int) -> None:
    crew = Crew(seed, workers=50, tasks=5_000)
    crew.foreman.after_step = lambda: None  # checking 5,000 tasks after each of 100,000 steps takes minutes
    crew.run()
    crew.check_end()
    crew.check_step()


class HastyForeman(SimulatedForeman):
    """A broken one: it speaks first and commits afterwards."""

    def pump(self) -> None:
        if self._is_committing or not self.foreman.has_work:
            return
        batch = self.foreman.take_batch(self.now)
        records, batch.records = batch.records, []
        self._is_committing = True
        self.later(self._luck.max_commit, lambda: self._commit_late(records))
        self._perform(batch, frozenset())

    def _commit_late(self, records: list[Record]) -> None:
        run_sync(self._store.commit(records))
        self._is_committing = False
        self.pump()


class WallClockForeman(SimulatedForeman):
    """A broken one: it waits by the wall clock."""

    @property
    def now(self) -> float:
        return self._simulation.now + self.wall_ahead


@pytest.mark.parametrize("broken", [HastyForeman, WallClockForeman], ids=["hasty", "by the wall clock"])
def test_a_foreman_that_breaks_the_law_is_caught(
    monkeypatch: pytest.MonkeyPatch, broken: type[SimulatedForeman]
) -> None:
    monkeypatch.setitem(Crew.__init__.__globals__, "SimulatedForeman", broken)
    caught = 0
    for seed in range(150):
        try:
            crew = Crew(seed)
            crew.run()
            crew.check_end()
        except AssertionError:
            caught += 1
    assert caught > 0
