"""A reactor among people and workers who do things in any order, with a store that is quick at times and slow at times.

What is decided is done only when the store has it; who gets what is decided only when a batch is taken. After each
step all accounts are right, and where nothing has happened since the last decision, nothing waits that could run. No
worker gets a task while one of higher rank waits that it could have had. Where slots are gathered, others fill them
only as long as something is in the way that was there before. A task runs only if its worker said so, or is one that
cannot say so.
"""

from collections.abc import Iterable

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule
from msgspec.structs import replace

from gandy.core.effects import Effect, Give, KillAttempts, Recall
from gandy.core.gather import Place
from gandy.core.jobs import ActiveJob
from gandy.core.linking import SourceJob
from gandy.core.model import AttemptKey, Cause, Ending, JobSpec, TaskState
from gandy.core.policy import Policy
from gandy.core.queue import Rank
from gandy.core.reactor import LONGEST_REFUSAL_PAUSE, Reactor
from gandy.core.records import Began, Claimed, Ended
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId, TaskNumber

MAX_WORKERS = 4

QUICK = Ending(cause=Cause.EXIT, exit_code=0, started=0.0, ended=0.001)

choices = st.integers(0, 59)
endings = st.sampled_from(
    [
        QUICK,
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
        self.begun: set[AttemptKey] = set()  # recorded so
        self.said: set[AttemptKey] = set()  # by workers: that they run these
        self.ended: set[AttemptKey] = set()
        self.retracted: set[tuple[JobId, TaskNumber]] = set()
        self.seen: dict[JobId, ActiveJob] = {}  # every job that was ever in memory
        self.gathered: dict[
            tuple[str, JobId], set[AttemptKey]
        ] = {}  # what a worker had when it began to gather for a job
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
                assert (effect.state is TaskState.ASSIGNED) == self.infos[effect.worker].reports_begun
                self.begun.update(effect.attempts if effect.state is TaskState.RUNNING else ())
            elif isinstance(effect, Began):
                new = set(effect.attempts)
                assert new <= self.claimed - self.ended - self.begun, "what begins is claimed, and begins once"
                self.begun |= new
            elif isinstance(effect, Ended):
                assert effect.attempt in self.claimed - self.ended, "what ends was claimed, and ends once"
                assert (effect.before is TaskState.RUNNING) == (effect.attempt in self.begun)
                self.ended.add(effect.attempt)
            elif isinstance(effect, Give | KillAttempts | Recall):
                wanted_back = effect.attempts if isinstance(effect, Recall) else ()
                assert self.begun.isdisjoint(wanted_back), "what has begun stays"
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
        tasks=st.sampled_from([0, 1, 2, 6, 30]),
        slots=st.sampled_from([1, 1, 2, 3]),
        priority=st.sampled_from([0, 0, 1, 2]),
        limit=st.sampled_from([None, None, 1, 2]),
        pause=st.sampled_from([0.0, 0.5]),
        is_held=st.sampled_from([False, False, False, True]),
        is_open=st.booleans(),
        after=choices,
    )
    def submit(
        self,
        tasks: int,
        slots: int,
        priority: int,
        limit: int | None,
        pause: float,
        is_held: bool,
        is_open: bool,
        after: int,
    ) -> None:
        spec = JobSpec(
            command="true",
            tasks=tasks if is_open else max(1, tasks),
            slots=slots,
            priority=priority,
            limit=limit,
            retries=1,
            retry_pause=pause,
            held=is_held,
            is_open=is_open,
            after=(self.choose_job(after),) if after % 3 == 0 and len(self.reactor.jobs) else (),
            after_any=(self.choose_job(after),) if after % 5 == 0 and len(self.reactor.jobs) else (),
        )
        self.take(self.reactor.control.submit(spec, self.now)[1])

    @has_jobs
    @rule(choice=choices, other=choices)
    def submit_task_by_task(self, choice: int, other: int) -> None:
        """Each task needs those with its number in one or two other jobs."""
        jobs = [self.reactor.jobs.get(self.choose_job(each)) for each in (choice, other)]
        after_each = tuple(dict.fromkeys(job.id for job in jobs))
        count = max(1, *(job.tasks.count for job in jobs))
        spec = JobSpec(command="true", tasks=count, retries=1, after_each=after_each)
        self.take(self.reactor.control.submit(spec, self.now)[1])

    @has_workers
    @rule(choice=choices, count=st.integers(1, 3))
    def submit_large(self, choice: int, count: int) -> None:
        """Behind an array of which nothing is known but that some of its tasks are quick."""
        worker = self.choose_worker(choice)
        self.take(self.reactor.control.submit(JobSpec(command="true", tasks=30, retries=1), self.now)[1])
        self.commit()
        self.end(choice, count, True, QUICK)
        spec = JobSpec(command="true", tasks=count, slots=self.infos[worker].slots, priority=1, retries=1)
        self.take(self.reactor.control.submit(spec, self.now)[1])

    @has_jobs
    @rule(choice=choices, count=st.integers(1, 3))
    def add_tasks(self, choice: int, count: int) -> None:
        job = self.reactor.jobs.find(self.choose_job(choice))
        assert job is not None
        self.take(self.reactor.control.add_tasks(job.id, TaskNumber(job.tasks.count + 1), (b"",) * count, self.now))

    @has_jobs
    @rule(choice=choices)
    def close(self, choice: int) -> None:
        self.take(self.reactor.control.close(self.choose_job(choice), self.now))

    @has_jobs
    @rule(choice=choices, is_held=st.sampled_from([False, False, True]))
    def hold(self, choice: int, is_held: bool) -> None:
        act = self.reactor.control.hold if is_held else self.reactor.control.release
        self.take(act(self.choose_job(choice), self.now))

    @has_jobs
    @rule(choice=choices, tasks=st.sampled_from([None, (1,), (2, 3)]))
    def cancel(self, choice: int, tasks: tuple[int, ...] | None) -> None:
        chosen = None if tasks is None else map(TaskNumber, tasks)
        self.take(self.reactor.control.cancel(self.choose_job(choice), chosen, self.now))

    @has_jobs
    @rule(choice=choices, tasks=st.sampled_from([(1,), (2, 3), (3, 1, 9)]))
    def retract(self, choice: int, tasks: tuple[int, ...]) -> None:
        """Only what no worker has: none was told to run it, and none ever will be."""
        job = self.choose_job(choice)
        retracted, effects = self.reactor.control.retract(job, map(TaskNumber, tasks), self.now)
        self.take(effects)
        self.retracted.update((job, task) for task in retracted)
        assert not self.retracted & self.list_told()

    def list_told(self) -> set[tuple[JobId, TaskNumber]]:
        return {attempt.task_key for held in self.held.values() for attempt in held if self.is_current(attempt)}

    def is_current(self, attempt: AttemptKey) -> bool:
        return self.reactor.current_attempt(attempt.job, attempt.task) == attempt

    @has_jobs
    @rule(choice=choices)
    def retry(self, choice: int) -> None:
        self.retracted.clear()
        job = self.reactor.jobs.get(self.choose_job(choice))
        self.take(self.reactor.control.retry(job.id, None, self.now, self.find_sources(job)))

    @precondition(lambda self: bool(self.list_final()))
    @rule(choice=choices, tasks=st.sampled_from([None, (1,), (2, 3)]))
    def retry_final(self, choice: int, tasks: tuple[int, ...] | None) -> None:
        """A job that has left the memory comes back only if it has something to retry."""
        self.retracted.clear()
        final = self.list_final()
        job = final[choice % len(final)]
        job.is_cancelled = False  # the store does not keep this
        before = (*job.spec.after, *job.spec.after_any)
        job.awaited = {each for each in before if self.reactor.jobs.find(each) is not None}
        job.has_takers = False
        wanted = None if tasks is None else tuple(map(TaskNumber, tasks))
        self.take(self.reactor.control.revive(job, wanted, self.now, self.find_sources(job)))

    def find_sources(self, job: ActiveJob) -> dict[JobId, SourceJob]:
        """What the store has of those that have left the memory."""
        gone = [self.seen[each] for each in job.spec.after_each if self.reactor.jobs.find(each) is None]
        return {each.id: SourceJob(each.tasks.copy_states(TaskNumber(1), each.tasks.count), True) for each in gone}

    def list_final(self) -> list[ActiveJob]:
        return [job for job in self.seen.values() if self.reactor.jobs.find(job.id) is None]

    # Workers

    @precondition(lambda self: len(self.held) < MAX_WORKERS)
    @rule(slots=st.integers(1, 3), ahead=st.sampled_from([None, 0, 3, 8]))
    def greet(self, slots: int, ahead: int | None) -> None:
        """A plain worker does not say what it begins, and nothing waits there."""
        name = f"w{len(self.infos)}"
        self.infos[name] = WorkerInfo(name, name, slots, ahead=ahead or 0, reports_begun=ahead is not None)
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
    @rule(choice=choices, is_known=st.booleans(), count=st.integers(0, 3))
    def succeed(self, choice: int, is_known: bool, count: int) -> None:
        """A worker dies, and another one in its folder reports some of what it held."""
        former = self.choose_worker(choice)
        if is_known:
            self.take(self.reactor.on_absent(former, self.now))
        name = f"w{len(self.infos)}"
        self.infos[name] = replace(self.infos[former], id=name, name=name)
        self.held[name] = set(sorted(self.held.pop(former))[:count])
        self.take(self.reactor.on_hello(self.infos[name], self.held[name], self.now, [former, "nobody", name]))
        if not is_known:
            self.take(self.reactor.on_gone(former, self.now))

    @has_workers
    @rule(choice=choices, first=st.integers(0, 5), count=st.integers(1, 3))
    def begin(self, choice: int, first: int, count: int) -> None:
        """A worker says what it runs, and perhaps said so before; of what it does not have, nothing is believed."""
        worker = self.choose_worker(choice)
        if self.infos[worker].reports_begun:
            attempts = sorted(self.held[worker])[first : first + count]
            self.said.update(attempts)
            not_given = self.claimed - set().union(*self.held.values()) - self.said
            self.take(self.reactor.on_begun(worker, [*attempts, *sorted(not_given)[:count]], self.now))

    @has_workers
    @rule(choice=choices, count=st.integers(1, 3), is_newest=st.booleans(), ending=endings)
    def end(self, choice: int, count: int, is_newest: bool, ending: Ending) -> None:
        self.report(self.choose_worker(choice), count, ending, is_newest)

    def report(self, worker: str, count: int, ending: Ending, is_newest: bool = False) -> None:
        over = sorted(self.held[worker], reverse=is_newest)[:count]
        self.held[worker].difference_update(over)
        if over:
            self.take(self.reactor.on_results(worker, [(attempt, ending) for attempt in over], self.now))

    @has_workers
    @rule(choice=choices)
    def refuse(self, choice: int) -> None:
        worker = self.choose_worker(choice)
        refused = sorted(self.held[worker])[-1:]
        self.held[worker].difference_update(refused)
        self.take(self.reactor.on_refused(worker, refused, self.now))

    @has_workers
    @rule(choice=choices, slots=st.integers(0, 3))
    def use_fewer_slots(self, choice: int, slots: int) -> None:
        worker = self.choose_worker(choice)
        most = self.infos[worker]
        is_short = slots < most.slots
        self.reactor.on_capacity(
            worker, min(slots, most.slots), 0 if is_short else most.ahead, "memory" if is_short else ""
        )

    # Time and the store

    @rule(seconds=st.sampled_from([0.001, 0.01, 0.5, 2.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        deadline = self.reactor.next_deadline()
        if deadline is not None and deadline <= self.now:
            self.take(self.reactor.on_time(self.now))
        assert all(worker.ask_again_at > self.now for worker in self.reactor.workers.refusing.values())

    @invariant()
    def no_refusal_lasts(self) -> None:
        """A worker that refused is asked again, whatever it says or does not say."""
        latest = self.now + LONGEST_REFUSAL_PAUSE
        assert all(worker.ask_again_at <= latest for worker in self.reactor.workers.refusing.values())

    @invariant()
    def only_what_a_worker_said_runs(self) -> None:
        for worker in self.reactor.workers:
            is_plain = worker.info.id in self.infos and not self.infos[worker.info.id].reports_begun
            for attempt in worker.held:
                job = self.reactor.jobs.find(attempt.job)
                if job is not None and self.is_current(attempt) and job.tasks.state(attempt.task) is TaskState.RUNNING:
                    assert is_plain or attempt in self.said

    @invariant()
    def disk_works(self) -> None:
        assert not self.retracted & self.list_told()
        self.reactor.check()
        self.seen |= {job.id: job for job in self.reactor.jobs}
        self.steps += 1
        if self.steps % self.every == 0:
            self.commit()
            self.reactor.check()

    def commit(self) -> None:
        if self.reactor.dispatcher.is_needed:
            before = {worker.info.id: set(worker.held) for worker in self.reactor.workers}
            effects = self.reactor.dispatch(self.now)
            gifts = [effect for effect in effects if isinstance(effect, Give)]
            self.check_rank(gifts)
            self.check_gathering(gifts, before)
            self.take(effects)
        sends, self.sends = self.sends, []
        for send in sends:
            self.perform(send)

    def check_rank(self, gifts: list[Give]) -> None:
        """What was given out just now left no task of higher rank behind that its worker could have had.

        But for tasks of several slots: those are gathered on one worker, and others need not wait for that. Where slots
        are gathered for a job, one of lower rank waits if its tasks may take too long, and quick ones of yet lower rank
        fill the slots meanwhile.
        """
        waiting = [job for job in self.reactor.jobs if job.may_start and job.spec.slots == 1]
        for gift in gifts:
            worker = self.reactor.workers.find(gift.worker)
            assert worker is not None
            lowest = max(self.rank_of(given.attempt) for given in gift.assignments)
            for job in waiting:
                task = job.tasks.find_ready(self.now)
                place = self.reactor.dispatcher.places.get(gift.worker)
                is_kept_out = place is not None and place.goes_before(job)
                if task is not None and job.rank < lowest and not is_kept_out:
                    assert worker.held.has_task((job.id, task)), "rank decides, unless an older attempt is still there"

    def check_gathering(self, gifts: list[Give], before: dict[str, set[AttemptKey]]) -> None:
        """Slots are given to a task of lower rank only if what was there before leaves too few for a large one."""
        served = {given.attempt.job for gift in gifts for given in gift.assignments}
        here = {(name, place.job) for name, place in self.reactor.dispatcher.places.items()}
        self.gathered = {key: old for key, old in self.gathered.items() if self.still_gathers(*key, served, here)}
        for key in here - self.gathered.keys():
            self.gathered[key] = before[key[0]]
        for gift in gifts:
            place = self.reactor.dispatcher.places.get(gift.worker)
            if place is not None and place.job not in served:
                self.check_filling(gift, place, self.gathered[gift.worker, place.job])

    def still_gathers(self, name: str, number: JobId, served: set[JobId], here: set[tuple[str, JobId]]) -> bool:
        """Perhaps the place was not looked for this time. A job that got something, or was overtaken, waits anew."""
        worker, job = self.reactor.workers.find(name), self.reactor.jobs.find(number)
        if worker is None or job is None or number in served or not (worker.is_willing and job.suits(worker)):
            return False
        is_moved = any(place[0] == name or place[1] == number for place in here)
        waits = job.may_start and job.tasks.waiting > 0
        return (name, number) in here or (waits and not is_moved)

    def check_filling(self, gift: Give, place: Place, old: set[AttemptKey]) -> None:
        worker, job = self.reactor.workers.find(gift.worker), self.reactor.jobs.find(place.job)
        assert worker is not None
        assert job is not None
        if all(self.rank_of(given.attempt) <= place.rank for given in gift.assignments):
            return
        suspects = [job.tasks.strikes[task].suspect_slots for task in job.tasks.delayed.list_suspects(self.now)]
        needed = min(worker.slots.shared, job.spec.slots if place.is_ordinary else max(job.spec.slots, suspects[0]))
        kept = {attempt for attempt in worker.held if attempt in old or not self.is_lower(attempt, place.rank)}
        in_the_way = sum(worker.held[attempt].slots for attempt in kept)
        assert worker.slots.shared - in_the_way < needed, "what fills slots must not be waited for again and again"

    def is_lower(self, attempt: AttemptKey, rank: Rank) -> bool:
        job = self.reactor.jobs.find(attempt.job)
        return job is None or job.rank > rank

    def rank_of(self, attempt: AttemptKey) -> tuple[int, JobId]:
        job = self.reactor.jobs.find(attempt.job)
        assert job is not None
        return job.rank

    def perform(self, send: Effect) -> None:
        match send:
            case Give(worker, assignments):
                current = self.reactor.on_given(worker, [given.attempt for given in assignments], self.now)
                self.held.get(worker, set()).update(current)
            case KillAttempts(worker, attempts):
                self.report_over(worker, attempts, Ending(cause=Cause.CANCELLED))
            case Recall(worker, attempts):
                self.report_over(worker, set(attempts) - self.said, Ending(cause=Cause.RETURNED))
            case _:
                raise AssertionError("nothing else is kept")

    def report_over(self, worker: str, attempts: Iterable[AttemptKey], ending: Ending) -> None:
        over = [attempt for attempt in attempts if attempt in self.held.get(worker, ())]
        self.held.get(worker, set()).difference_update(over)
        if over:
            self.take(self.reactor.on_results(worker, [(attempt, ending) for attempt in over], self.now))

    def teardown(self) -> None:
        """Everything comes to an end, if people and workers let it, and time goes on. Then no task holds a slot."""
        for job in list(self.reactor.jobs):
            self.take(self.reactor.control.release(job.id, self.now))
        self.greet(3, 0)
        self.run_out()
        for job in list(self.reactor.jobs):
            self.take(self.reactor.control.close(job.id, self.now))
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
            is_busy = any(job.tasks.given for job in self.reactor.jobs) or self.reactor.next_deadline() is not None
            if not (is_busy or self.reactor.dispatcher.is_needed):
                return
        raise AssertionError(f"still there: {[job.id for job in self.reactor.jobs]}")
