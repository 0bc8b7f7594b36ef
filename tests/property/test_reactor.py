"""A reactor among people and workers who do things in any order, with a store that is quick at times and slow at times.

What is decided is done only when the store has it; who gets what is decided only when a batch is taken. After each
step all accounts are right, and where nothing has happened since the last decision, nothing waits that could run.
"""

from collections.abc import Iterable

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from gandy.core.effects import Effect, Give, Kill, Recall
from gandy.core.model import AttemptKey, Cause, Ending, JobSpec
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.records import Claimed, Ended
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId, TaskNumber

MAX_WORKERS = 4

choices = st.integers(0, 59)
endings = st.sampled_from(
    [
        Ending(cause=Cause.EXIT, exit_code=0, started=0.0, ended=0.001),
        Ending(cause=Cause.EXIT, exit_code=1),
        Ending(cause=Cause.RETURNED),
    ]
)


class ReactorMachine(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.reactor = Reactor(Policy(grace=5.0, crash_limit=3))
        self.now = 0.0
        self.sends: list[Effect] = []  # decided, and not done yet
        self.held: dict[str, set[AttemptKey]] = {}  # by worker: what it was told to run
        self.infos: dict[str, WorkerInfo] = {}
        self.claimed: set[AttemptKey] = set()
        self.ended: set[AttemptKey] = set()
        self.steps = 0
        self.every = 1

    @initialize(every=st.sampled_from([1, 1, 1, 2, 5]))
    def choose_disk(self, every: int) -> None:
        """A quick one commits after each step."""
        self.every = every

    def take(self, effects: Iterable[Effect]) -> None:
        """Records must make sense one after the other; the rest is for later."""
        for effect in effects:
            if isinstance(effect, Claimed):
                assert self.claimed.isdisjoint(effect.attempts), "no attempt is made twice"
                self.claimed.update(effect.attempts)
            elif isinstance(effect, Ended):
                assert effect.attempt in self.claimed - self.ended, "what ends has begun, and ends once"
                self.ended.add(effect.attempt)
            elif isinstance(effect, Give | Kill | Recall):
                self.sends.append(effect)

    def choose_job(self, choice: int) -> JobId:
        jobs = [job.id for job in self.reactor.jobs]
        return jobs[choice % len(jobs)]

    def choose_worker(self, choice: int) -> str:
        return sorted(self.held)[choice % len(self.held)]

    has_jobs = precondition(lambda self: len(self.reactor.jobs) > 0)
    has_workers = precondition(lambda self: bool(self.held))

    # People

    @rule(
        tasks=st.sampled_from([0, 1, 1, 2, 6]),
        slots=st.sampled_from([1, 1, 2]),
        limit=st.sampled_from([None, None, 1, 2]),
        pause=st.sampled_from([0.0, 0.5]),
        is_held=st.sampled_from([False, False, False, True]),
        is_open=st.booleans(),
        after=choices,
    )
    def submit(
        self, tasks: int, slots: int, limit: int | None, pause: float, is_held: bool, is_open: bool, after: int
    ) -> None:
        spec = JobSpec(
            command="true",
            tasks=tasks if is_open else max(1, tasks),
            slots=slots,
            limit=limit,
            retries=1,
            retry_pause=pause,
            held=is_held,
            is_open=is_open,
            after=(self.choose_job(after),) if after % 3 == 0 and len(self.reactor.jobs) else (),
        )
        self.take(self.reactor.submit(spec, self.now)[1])

    @has_jobs
    @rule(choice=choices, count=st.integers(1, 3))
    def add_tasks(self, choice: int, count: int) -> None:
        job = self.reactor.jobs.find(self.choose_job(choice))
        assert job is not None
        self.take(self.reactor.add_tasks(job.id, TaskNumber(job.tasks.count + 1), (b"",) * count, self.now))

    @has_jobs
    @rule(choice=choices)
    def close(self, choice: int) -> None:
        self.take(self.reactor.close(self.choose_job(choice), self.now))

    @has_jobs
    @rule(choice=choices, is_held=st.sampled_from([False, False, True]))
    def hold(self, choice: int, is_held: bool) -> None:
        act = self.reactor.hold if is_held else self.reactor.release
        self.take(act(self.choose_job(choice), self.now))

    @has_jobs
    @rule(choice=choices, tasks=st.sampled_from([None, (1,), (2, 3)]))
    def cancel(self, choice: int, tasks: tuple[int, ...] | None) -> None:
        chosen = None if tasks is None else map(TaskNumber, tasks)
        self.take(self.reactor.cancel(self.choose_job(choice), chosen, self.now))

    @has_jobs
    @rule(choice=choices)
    def retry(self, choice: int) -> None:
        self.take(self.reactor.retry(self.choose_job(choice), None, self.now))

    # Workers

    @precondition(lambda self: len(self.held) < MAX_WORKERS)
    @rule(slots=st.integers(1, 3), ahead=st.sampled_from([0, 3]))
    def greet(self, slots: int, ahead: int) -> None:
        name = f"w{len(self.infos)}"
        self.infos[name] = WorkerInfo(name, name, slots, ahead=ahead)
        self.held[name] = set()
        self.take(self.reactor.on_hello(self.infos[name], [], self.now))

    @has_workers
    @rule(choice=choices, fate=st.sampled_from(["back", "back", "away", "dead"]))
    def cut(self, choice: int, fate: str) -> None:
        worker = self.choose_worker(choice)
        self.take(self.reactor.on_absent(worker, self.now))
        if fate == "back":
            self.take(self.reactor.on_hello(self.infos[worker], self.held[worker], self.now))
            return
        del self.held[worker]
        if fate == "dead":
            self.take(self.reactor.on_gone(worker, self.now))

    @has_workers
    @rule(choice=choices, count=st.integers(1, 3), ending=endings)
    def end(self, choice: int, count: int, ending: Ending) -> None:
        self.report(self.choose_worker(choice), count, ending)

    def report(self, worker: str, count: int, ending: Ending) -> None:
        over = sorted(self.held[worker])[:count]
        self.held[worker].difference_update(over)
        self.reactor.on_heard(worker, self.now)
        if over:
            self.take(self.reactor.on_results(worker, [(attempt, ending) for attempt in over], self.now))

    @has_workers
    @rule(choice=choices)
    def refuse(self, choice: int) -> None:
        worker = self.choose_worker(choice)
        refused = sorted(self.held[worker])[-1:]
        self.held[worker].difference_update(refused)
        self.take(self.reactor.on_refused(worker, refused, self.now))

    # Time and the store

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.5, 2.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        deadline = self.reactor.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.take(self.reactor.on_time(self.now))

    @invariant()
    def disk_works(self) -> None:
        self.reactor.check()
        self.steps += 1
        if self.steps % self.every == 0:
            self.commit()
            self.reactor.check()

    def commit(self) -> None:
        if self.reactor.is_stirred:
            self.take(self.reactor.dispatch(self.now))
        sends, self.sends = self.sends, []
        for send in sends:
            self.perform(send)

    def perform(self, send: Effect) -> None:
        match send:
            case Give(worker, assignments):
                current = self.reactor.on_given(worker, [given.attempt for given in assignments], self.now)
                self.held.get(worker, set()).update(current)
            case Kill(worker, attempts):
                self.tell_over(worker, attempts, Ending(cause=Cause.CANCELLED))
            case Recall(worker, attempts):
                self.tell_over(worker, attempts, Ending(cause=Cause.RETURNED))
            case _:
                raise AssertionError("nothing else is kept")

    def tell_over(self, worker: str, attempts: Iterable[AttemptKey], ending: Ending) -> None:
        over = [attempt for attempt in attempts if attempt in self.held.get(worker, ())]
        self.held.get(worker, set()).difference_update(over)
        if over:
            self.take(self.reactor.on_results(worker, [(attempt, ending) for attempt in over], self.now))

    def teardown(self) -> None:
        """Everything comes to an end, if people and workers let it, and time goes on. Then nobody holds a slot."""
        for job in list(self.reactor.jobs):
            self.take(self.reactor.release(job.id, self.now))
        self.greet(3, 0)
        self.run_out()
        for job in list(self.reactor.jobs):
            self.take(self.reactor.close(job.id, self.now))
            self.reactor.check()
            self.commit()
        self.run_out()
        assert [job.id for job in self.reactor.jobs] == []
        assert not any(worker.held for worker in self.reactor.workers if worker.connected)

    def run_out(self) -> None:
        for _ in range(500):
            self.wait(2.0)
            self.commit()
            for worker in self.held:
                self.report(worker, 100, Ending(cause=Cause.EXIT, exit_code=0, started=0.0, ended=0.001))
            is_busy = any(job.tasks.running for job in self.reactor.jobs) or self.reactor.next_deadline() is not None
            if not (is_busy or self.reactor.is_stirred):
                return
        raise AssertionError(f"still there: {[job.id for job in self.reactor.jobs]}")


TestReactor = ReactorMachine.TestCase
TestReactor.settings = settings(max_examples=150, stateful_step_count=80)
