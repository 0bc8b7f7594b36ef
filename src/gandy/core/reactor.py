"""Decides about jobs: events and the time come in, effects go out, records before sends.

It holds all that is not final in memory and never waits. A result counts only for the current attempt of its task;
everything else is acknowledged, so that the worker can forget it, and changes nothing. Who gets what is decided when
the program calls `dispatch`: once for all that has happened since. `now` is monotonic time. Only records carry the
time of day, which may step and decides nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from enum import Enum
from typing import Final

from msgspec.structs import replace

from gandy.core.dispatch import Dispatcher
from gandy.core.effects import (
    Acknowledge,
    Dismiss,
    Effect,
    Give,
    KillAttempts,
)
from gandy.core.gather import Place
from gandy.core.jobs import FINAL_JOB_STATES, ActiveJob, JobTable
from gandy.core.model import GIVEN_STATES, AttemptKey, Cause, Ending, Input, JobSpec, JobState, TaskState
from gandy.core.owners import Owners
from gandy.core.policy import POLICY, Policy
from gandy.core.queue import Need
from gandy.core.records import Began, Claimed, Ended, JobAdded, JobSet, OpenJobClosed, TasksAdded, TasksSet
from gandy.core.tasks import TaskTable
from gandy.core.withdrawal import Withdrawal
from gandy.core.workers import Held, KnownWorker, WorkerInfo, WorkerTable
from gandy.ids import JobId, TaskNumber
from gandy.moments import LONG_AGO, NEVER, Monotonic, Wall

LONGEST_RETRY_PAUSE: Final = 300.0  # seconds; a pause doubles until here
FIRST_REFUSAL_PAUSE: Final = 0.02  # seconds; the original frees a processor a moment after it reported a result
LONGEST_REFUSAL_PAUSE: Final = 5.0  # seconds; the longest that a free worker goes without a task that waits
FIRST_JOB: Final = JobId(1)


class Blame(Enum):
    """What an attempt has to do with the end of its worker."""

    NONE = 0  # it had not begun
    SHARED = 1  # others ran beside it
    ALONE = 2


class Reactor:
    """One for each foreman. Every method that changes something gives the effects of the change."""

    def __init__(self, policy: Policy = POLICY, next_job: JobId = FIRST_JOB, boot: str = "") -> None:
        """`boot`: for how long `now` means the same, also to the next foreman; "" is unknown."""
        self.policy = policy
        self.boot = boot
        self.wall_ahead = 0.0  # how far the time of day is ahead of `now`; the program sets it before each event
        self.jobs = JobTable()
        self.workers = WorkerTable()
        self._next_job = next_job
        self._owners = Owners()
        self._dispatcher = Dispatcher(policy, self.jobs, self.workers, self._owners)
        self.needs_dispatch = False  # something has happened since `dispatch`
        self.unmet: set[Need | None] = set()  # needs of tasks that could start and found no slot when we looked last
        self._dispatched = LONG_AGO  # when we looked last for what may start
        self._has_more = True  # perhaps tasks may start now that could not when we looked
        self._next_again = NEVER  # when the first task may start that waits again, if it waits since we looked

    # Beginning again

    def restore_job(self, job: ActiveJob) -> None:
        """A job that the store knew when the foreman started."""
        self._add_job(job)
        self._next_job = JobId(max(self._next_job, job.id + 1))

    def restore_attempt(self, attempt: AttemptKey, worker: str, now: Monotonic) -> None:
        """An attempt that a worker had when the foreman stopped: it has the grace period to come back with it."""
        job = self.jobs.find(attempt.job)
        assert job is not None
        owner = self.workers.find(worker)
        if owner is None:
            owner = self.workers.add(KnownWorker(WorkerInfo(worker, worker, 0), absent_since=now))
        self._owners.take(owner, attempt, Held(job.spec.slots, now))
        if job.tasks.state(attempt.task) is TaskState.RUNNING:
            owner.begun.add(attempt)
        self.workers.use(owner)

    # Clients

    def submit(
        self,
        spec: JobSpec,
        now: Monotonic,
        lines: tuple[str, ...] = (),
        past: Mapping[JobId, JobState] | None = None,
        upload: int = 0,
    ) -> tuple[JobId, list[Effect]]:
        """Take a job. `past` tells the states of jobs in `spec.after` that are final already."""
        number = self._next_job
        self._next_job = JobId(number + 1)
        states = past or {}
        awaited = {before for before in spec.after if self.jobs.find(before) is not None}
        at = self._stamp(now)
        job = ActiveJob(number, spec, TaskTable(spec.tasks), at, spec.held, awaited=awaited, is_open=spec.is_open)
        self._add_job(job)
        effects: list[Effect] = [JobAdded(number, spec, at, lines, upload)]
        if any(states.get(before, JobState.FINISHED) is not JobState.FINISHED for before in spec.after):
            effects += self._cancel_tasks(job, None, now)
        self._request_dispatch()
        return number, effects + self._settle_job(job, now)

    def add_tasks(self, number: JobId, first: TaskNumber, inputs: tuple[Input, ...], now: Monotonic) -> list[Effect]:
        """Give an open job more tasks, numbered from `first`. Those that it has already came twice, and are skipped."""
        job = self.jobs.find(number)
        if job is None or not job.is_open or first > job.tasks.count + 1:
            return []
        new = inputs[job.tasks.count + 1 - first :]
        if not new:
            return []
        record = TasksAdded(number, TaskNumber(job.tasks.count + 1), new, self._stamp(now))
        job.tasks.grow(len(new))
        self.jobs.settle(job)
        self._request_dispatch()
        return [record]

    def close(self, number: JobId, now: Monotonic) -> list[Effect]:
        """An open job gets no more tasks, and ends with its last one."""
        job = self.jobs.find(number)
        if job is None or not job.is_open:
            return []
        job.is_open = False
        return [OpenJobClosed(number, self._stamp(now)), *self._settle_job(job, now)]

    def hold(self, number: JobId, now: Monotonic) -> list[Effect]:
        """Start no more tasks of this job; what runs goes on."""
        return self._set_held(number, True, now)

    def release(self, number: JobId, now: Monotonic) -> list[Effect]:
        return self._set_held(number, False, now)

    def cancel(self, number: JobId, tasks: Iterable[TaskNumber] | None, now: Monotonic) -> list[Effect]:
        """End a whole job, or some of its tasks."""
        job = self.jobs.find(number)
        if job is None:
            return []
        self._request_dispatch()
        return self._cancel_tasks(job, tasks, now) + self._settle_job(job, now)

    def retry(self, number: JobId, tasks: Iterable[TaskNumber] | None, now: Monotonic) -> list[Effect]:
        """Let tasks that failed or were cancelled wait again. No effects: nothing is to be retried."""
        job = self.jobs.find(number)
        return [] if job is None else self._retry(job, tasks, now)

    def revive(self, job: ActiveJob, tasks: Iterable[TaskNumber] | None, now: Monotonic) -> list[Effect]:
        """Do the same for a final job, as the store has it. It stays out of memory if there is nothing to retry."""
        return self._retry(job, tasks, now)

    def _retry(self, job: ActiveJob, tasks: Iterable[TaskNumber] | None, now: Monotonic) -> list[Effect]:
        unlucky = (TaskState.FAILED, TaskState.CANCELLED)
        wanted = list(job.tasks.in_states(*unlucky)) if tasks is None else tasks
        chosen = tuple(t for t in dict.fromkeys(wanted) if t in job.tasks and job.tasks.state(t) in unlucky)
        if not chosen:
            return []
        for task in chosen:
            job.tasks.forgive(task)
            job.tasks.wait(task, now)
        job.is_cancelled = False
        if self.jobs.find(job.id) is None:
            self._add_job(job)
        record = TasksSet(job.id, TaskState.WAITING, None if tasks is None else chosen, self._stamp(now))
        self._request_dispatch()
        return [record, *self._settle_job(job, now)]

    def retract(
        self, number: JobId, tasks: Iterable[TaskNumber], now: Monotonic
    ) -> tuple[tuple[TaskNumber, ...], list[Effect]]:
        """Cancel those of the tasks that no worker has. Gives them, and the effects."""
        job = self.jobs.find(number)
        if job is None:
            return (), []
        chosen = tuple(t for t in dict.fromkeys(tasks) if t in job.tasks and self._is_at_hand(job, t))
        return chosen, self.cancel(number, chosen, now) if chosen else []

    def list_given(self, number: JobId, tasks: Iterable[TaskNumber]) -> dict[str, list[AttemptKey]]:
        """What workers have of these tasks and have not begun, as far as is known, by worker."""
        given: dict[str, list[AttemptKey]] = {}
        job = self.jobs.find(number)
        for task in dict.fromkeys(tasks) if job is not None else ():
            attempt = self.current_attempt(number, task)
            worker = self._owners.find(attempt)
            if worker is not None and attempt not in worker.ungiven and attempt not in worker.begun:
                given.setdefault(worker.info.id, []).append(attempt)
        return given

    def _is_at_hand(self, job: ActiveJob, task: TaskNumber) -> bool:
        """Whether the task waits, or its attempt has not been sent to a worker yet."""
        if job.tasks.state(task) not in GIVEN_STATES:
            return job.tasks.state(task) is TaskState.WAITING
        attempt = job.last_attempt(task)
        worker = self._owners.find(attempt)
        return worker is not None and attempt in worker.ungiven

    def current_attempt(self, job: JobId, task: TaskNumber) -> AttemptKey:
        """The attempt that runs now, for peers that have no attempts; one that never was where none runs."""
        found = self.jobs.find(job)
        last = found.last_attempt(task) if found is not None and task in found.tasks else None
        return AttemptKey(job, task, 0) if last is None or self._owners.find(last) is None else last

    def is_same_job(self, number: JobId, identity: int) -> bool:
        """False if the job that has this number now is another one than the job with this identity."""
        found = self.jobs.find(number)
        return found is None or 0 in (identity, found.spec.identity) or identity == found.spec.identity

    def find_absent_owner(self, attempts: Iterable[AttemptKey]) -> str | None:
        """The worker that these attempts belong to, if it is away: a peer that has them must be it."""
        for attempt in attempts:
            worker = self._owners.find(attempt)
            if worker is not None and not worker.connected:
                return worker.info.id
        return None

    @property
    def gathering(self) -> Mapping[str, Place]:
        """Workers where slots were kept free for a task that needs several, at the last decision."""
        return self._dispatcher.places

    def is_current(self, attempt: AttemptKey) -> bool:
        """Whether this is what a task runs as now."""
        return self._owners.find(attempt) is not None

    def withdraw(self, new: Withdrawal, now: Monotonic) -> list[Effect]:
        """The store could not keep this work, and no peer has heard of it: it never was. Jobs' numbers are used up."""
        for attempt, worker in new.claims.items():
            self._withdraw_claim(attempt, worker)
        touched = {attempt.job for attempt in new.claims} | set(new.grown)
        for number in new.jobs:
            job = self.jobs.find(number)
            if job is not None:
                self.jobs.remove(job)  # what was to run after it is as new, and withdrawn, too
        for number, first in new.grown.items():
            job = self.jobs.find(number)
            if job is not None:
                job.tasks.shrink(first - 1)
        self._request_dispatch()
        left = [job for number in sorted(touched) if (job := self.jobs.find(number)) is not None]
        return [effect for job in left for effect in self._settle_job(job, now)]

    def _withdraw_claim(self, attempt: AttemptKey, worker: str) -> None:
        holder = self.workers.find(worker)
        if holder is not None:
            holder.release(attempt)
            self.workers.settle(holder)
        job = self.jobs.find(attempt.job)
        if self._owners.drop(attempt) is not None and job is not None:
            job.tasks.unstart(attempt.task)

    # Workers

    def on_hello(
        self, info: WorkerInfo, held: Iterable[AttemptKey], now: Monotonic, former: Iterable[str] = ()
    ) -> list[Effect]:
        """A worker is here, or here again, and tells what it holds. It keeps what is still its own.

        Also its own is what `former` workers held: they died in its folder, and it reports their results.
        """
        worker = self.workers.find(info.id) or self.workers.add(KnownWorker(info))
        worker.introduce(info)
        worker.problem = ""  # it says so again, if there is one
        worker.connected = True
        worker.last_heard = now
        self._forgive(worker)
        told = set(held)
        forgotten = sorted(set(worker.held) - told - worker.ungiven)  # it never heard of these, or has done with them
        effects = self._return(worker, forgotten, now)
        for name in former:
            effects += self._succeed(name, worker, told, now)
        strange = sorted(attempt for attempt in told if not self._owners.is_current(attempt, worker))
        for attempt in strange:  # until it says that they are over, they hold slots
            worker.take(attempt, Held(1, now))
        if strange:
            effects.append(KillAttempts(info.id, tuple(strange)))
        if not info.reports_begun:
            effects += self.on_begun(info.id, told, now)
        if worker.draining:  # it may not have heard
            effects.append(Dismiss(info.id, worker.dismissed))
        self.workers.settle(worker)
        self._request_dispatch()
        return effects

    def _succeed(self, name: str, worker: KnownWorker, told: set[AttemptKey], now: Monotonic) -> list[Effect]:
        """Move the attempts that a worker reports from a former one to it. What the former one held besides is lost."""
        former = self.workers.find(name)
        if former is None or former is worker:
            return []
        for attempt in sorted(told):
            if self._owners.is_current(attempt, former):
                slots, has_begun = former.held[attempt], attempt in former.begun
                former.release(attempt)
                self._owners.take(worker, attempt, slots)
                if has_begun:
                    worker.begun.add(attempt)
        if former.connected:  # a copy of its folder is in use elsewhere
            self.workers.settle(former)
            return []
        return self._forget_worker(former, now)

    def on_capacity(self, worker: str, slots: int, ahead: int, problem: str) -> None:
        """A worker uses so many slots from now on, and says what it is short of."""
        found = self.workers.find(worker)
        if found is not None:
            found.introduce(replace(found.info, slots=slots, ahead=ahead))
            found.problem = problem
            self.workers.settle(found)
            self._request_dispatch()

    def on_room(self, worker: KnownWorker) -> None:
        """Calls may have left slots of this worker."""
        if any(need is not None and need.fits(worker) for need in self.unmet):
            self.workers.settle(worker)
            self.needs_dispatch = True

    def on_absent(self, worker: str, now: Monotonic) -> list[Effect]:
        """A worker's link is gone. It keeps its tasks for the grace period."""
        found = self.workers.find(worker)
        if found is None or not found.connected:
            return []
        found.connected = False
        found.absent_since = now
        self.workers.settle(found)
        return self._forget_worker(found, now) if found.dismissed or not found.held else []

    def on_gone(self, worker: str, now: Monotonic) -> list[Effect]:
        """A worker is known to be dead, or has left for good: what it held is lost."""
        found = self.workers.find(worker)
        return [] if found is None else self._forget_worker(found, now)

    def on_given(self, worker: str, attempts: Iterable[AttemptKey], now: Monotonic) -> list[AttemptKey]:
        """The time has come to send these to a worker. Gives those that are still its own."""
        found = self.workers.find(worker)
        if found is None:
            return []
        found.last_moved = now
        ungiven = [attempt for attempt in attempts if attempt in found.ungiven]
        current = [attempt for attempt in ungiven if self._owners.is_current(attempt, found)]
        found.ungiven.difference_update(current)
        if len(current) < len(ungiven):  # cancelled meanwhile: no worker would say that they are over
            for attempt in set(ungiven).difference(current):
                found.release(attempt)
            self.workers.settle(found)
        return current

    def on_begun(self, worker: str, attempts: Iterable[AttemptKey], now: Monotonic) -> list[Effect]:
        """A worker runs these attempts, it says. Of what it does not have, or ran before, nothing is recorded."""
        found = self.workers.find(worker)
        if found is None:
            return []
        new = (set(attempts) & found.held.keys()) - found.ungiven - found.begun
        found.begun.update(new)
        if not found.recalled.isdisjoint(new):  # it comes back no more, so another one may be wanted in its stead
            found.recalled.difference_update(new)
            self.workers.settle(found)
        current = tuple(sorted(attempt for attempt in new if self._owners.is_current(attempt, found)))
        for attempt in current:
            self._get_job(attempt.job).tasks.begin(attempt.task)
        return [Began(worker, current, self._stamp(now))] if current else []

    def on_refused(self, worker: str, attempts: Iterable[AttemptKey], now: Monotonic) -> list[Effect]:
        """A worker has not started these attempts. It is asked again when a task ends there, or after a pause.

        A worker that refuses while it runs nothing may never speak again, so the pause must end by itself.
        """
        found = self.workers.find(worker)
        if found is None:
            return []
        pause = FIRST_REFUSAL_PAUSE * 2 ** min(found.refusals, 20)
        self.workers.pause(found, now + min(LONGEST_REFUSAL_PAUSE, pause))
        self._request_dispatch()
        return self._return(found, attempts, now)

    def on_claims_lost(self, attempts: Iterable[AttemptKey]) -> None:
        """Another foreman got these first. They wait here, and are not tried again before something else happens."""
        for attempt in attempts:
            worker = self._owners.drop(attempt)
            job = self.jobs.find(attempt.job)
            if worker is not None and job is not None:
                worker.release(attempt)
                self.workers.settle(worker)
                job.tasks.unstart(attempt.task)
                self.jobs.settle(job)
                self._has_more = True

    def on_results(
        self, worker: str, ended: Sequence[tuple[AttemptKey, Ending]], now: Monotonic, reporter: str = ""
    ) -> list[Effect]:
        """Attempts ended, says their worker. `reporter`: what it is called on the link that it says so on."""
        thanks = Acknowledge(reporter or worker, tuple(attempt for attempt, _ in ended))
        owner = self.workers.find(worker)
        if owner is None:
            return [thanks]
        owner.last_moved = now
        self._forgive(owner)
        effects: list[Effect] = []
        touched: dict[JobId, ActiveJob] = {}
        for attempt, ending in ended:
            if self._owners.is_current(attempt, owner):
                effects.append(self._end(attempt, ending, now))
                touched[attempt.job] = self._get_job(attempt.job)
            if ending.cause is Cause.WORKER_STOPPED:
                owner.draining = True  # it is about to leave
            owner.release(attempt)
        self.workers.settle(owner)
        self.needs_dispatch = True  # but no worker whose account has not changed can get more
        changes = [effect for job in touched.values() for effect in self._settle_job(job, now)]
        return [*effects, *changes, thanks]

    def drain(self, worker: str, immediate: bool = False) -> list[Effect]:
        """Give a worker nothing new, and let it go when it has done what it holds, or now."""
        found = self.workers.find(worker)
        if found is None:
            return []
        found.draining = True
        found.dismissed = found.dismissed or immediate
        self.workers.settle(found)
        return [Dismiss(worker, immediate)]

    # Time

    def next_deadline(self) -> Monotonic | None:
        """When `on_time` should be called next, if nothing else happens."""
        deadlines = [worker.absent_since + self.policy.grace for worker in self.workers if not worker.connected]
        deadlines += [worker.ask_again_at for worker in self.workers.refusing.values()]
        if not self.needs_dispatch:  # else `dispatch` comes first, and the store may keep it waiting for long
            deadlines += self._list_dues()
        return min(deadlines, default=None)

    def _list_dues(self) -> Iterator[Monotonic]:
        """When `dispatch` can do more than the last time. What was due then waits for a slot."""
        dues = [job.tasks.next_due() for job in self.jobs.delayed.values() if job.may_start]
        dues += map(self._dispatcher.due, self.jobs.timed.values())
        dues.append(self._dispatcher.next_look)
        yield from (due for due in dues if due is not None and self._dispatched < due < NEVER)
        if self._dispatcher.patient_until < NEVER:
            yield self._dispatcher.patient_until

    @property
    def clock_ahead(self) -> float | None:
        """How far the shared time is ahead of `now`; None where it is not known."""
        return self._dispatcher.clock_ahead

    def on_clock(self, ahead: float | None) -> None:
        """What is known of the shared time. `on_time` follows, which may start what has a time."""
        self._dispatcher.clock_ahead = ahead
        if ahead is not None:
            for job in self.jobs.timed.values():
                job.on_clock(ahead)

    def next_moment(self) -> Monotonic:
        """When `on_time` should be called even if that is within milliseconds. `NEVER`: no such deadline.

        Tasks may wait on a worker while another is idle, or a worker that refused a task is to be asked again.
        """
        pauses = (worker.ask_again_at for worker in self.workers.refusing.values())
        return min(self._dispatcher.patient_until, min(pauses, default=NEVER))

    def on_time(self, now: Monotonic) -> list[Effect]:
        """Pauses end, and so does patience with absent workers."""
        effects: list[Effect] = []
        for worker in [w for w in self.workers if not w.connected and w.absent_since + self.policy.grace <= now]:
            effects += self._forget_worker(worker, now)
        for worker in [w for w in self.workers.refusing.values() if w.ask_again_at <= now]:
            self.workers.resume(worker)
            self.workers.settle(worker)
        self._request_dispatch()
        return effects

    def _request_dispatch(self) -> None:
        """Any worker might get a task now."""
        self.needs_dispatch = self._has_more = True

    def dispatch(self, now: Monotonic) -> list[Effect]:
        """Give what is ready to whom it is the turn of."""
        self.needs_dispatch = False
        is_time = any(self._dispatched < self._dispatcher.due(job) <= now for job in self.jobs.timed.values())
        self._dispatched = now
        gifts = self._dispatcher.give(now, anew=self._has_more or self._next_again <= now or is_time)
        self._has_more = self._dispatcher.is_unsettled
        self.unmet = self._dispatcher.list_unmet()
        if self._next_again <= now:
            dues = (job.tasks.next_due() for job in self.jobs.delayed.values())
            self._next_again = min((due for due in dues if due is not None), default=NEVER)
        at = self._stamp(now)
        claims = [self._make_claim(gift, at) for gift in gifts]
        started = sorted({attempt.job for claim in claims for attempt in claim.attempts})
        changes = [effect for job in started for effect in self._settle_job(self._get_job(job), now)]
        return [*claims, *changes, *gifts, *self._dispatcher.recall(now)]

    def check(self) -> None:
        """What must hold after every step; for tests."""
        self.jobs.check()
        self.workers.check()
        if not (self.needs_dispatch or self._has_more):
            self._dispatcher.check(self._dispatched)
        assert all(job.compute_state() not in FINAL_JOB_STATES for job in self.jobs), "a final job leaves the memory"
        assert sum(job.tasks.given for job in self.jobs) == len(self._owners)
        for attempt, worker in self._owners:
            job = self._get_job(attempt.job)
            assert job.last_attempt(attempt.task) == attempt
            assert attempt in worker.held
            assert (job.tasks.state(attempt.task) is TaskState.RUNNING) == (attempt in worker.begun)

    # Inside

    def _stamp(self, now: Monotonic) -> Wall:
        """The time of day, for a record."""
        return Wall(float(now) + self.wall_ahead)

    def _make_claim(self, gift: Give, at: Wall) -> Claimed:
        worker = self.workers.find(gift.worker)
        assert worker is not None, "it got them just now"
        state = TaskState.ASSIGNED if worker.info.reports_begun else TaskState.RUNNING
        return Claimed(gift.worker, tuple(given.attempt for given in gift.assignments), at, state)

    def _add_job(self, job: ActiveJob) -> None:
        """The shared time may have begun anew since the job came: then our clock tells when it begins.

        Where the machine was started again since, only the wall clock can tell.
        """
        spec = job.spec
        is_same_boot = self.boot and spec.boot == self.boot
        job.clock_ahead = spec.boot_ahead if is_same_boot else spec.clock_ahead + self.wall_ahead
        self.jobs.add(job)

    def _get_job(self, number: JobId) -> ActiveJob:
        job = self.jobs.find(number)
        assert job is not None
        return job

    def _forgive(self, worker: KnownWorker) -> None:
        """The worker said something about its slots, so a refusal before that proves nothing."""
        if worker.refusals:
            worker.refusals = 0
            self.workers.resume(worker)

    def _return(self, worker: KnownWorker, attempts: Iterable[AttemptKey], now: Monotonic) -> list[Effect]:
        """These never began there. Their tasks wait again; the numbers of attempts are used up, for the fence."""
        effects: list[Effect] = []
        for attempt in attempts:
            if self._owners.is_current(attempt, worker):
                effects.append(self._end(attempt, Ending(cause=Cause.RETURNED), now))
                effects += self._settle_job(self._get_job(attempt.job), now)
            worker.release(attempt)
        self.workers.settle(worker)
        return effects

    def _end(self, attempt: AttemptKey, ending: Ending, now: Monotonic, blame: Blame = Blame.ALONE) -> Ended:
        """The current attempt of a task ended: decide where the task goes, and record both.

        Its slots stay taken until the worker says that it is over, or is gone itself. The job's own state is another
        matter.
        """
        job = self._get_job(attempt.job)
        before = job.tasks.state(attempt.task)
        self._owners.drop(attempt)
        had_pace = job.pace is not None
        job.observe(ending)
        state, due = self._decide(job, attempt, ending, now, blame)
        if state is TaskState.WAITING:
            job.tasks.wait(attempt.task, due)
            self._next_again = min(self._next_again, due)
        else:
            job.tasks.end(attempt.task, state)
        # Another task may start; or more may wait on each worker now, and not only on the one that told the pace.
        is_paced_now = not had_pace and job.pace is not None and job.tasks.waiting > 0
        self._has_more = self._has_more or job.spec.limit is not None or is_paced_now
        due_at = self._stamp(due) if state is TaskState.WAITING else Wall(0.0)
        return Ended(attempt, ending, state, self._stamp(now), due_at, *job.tasks.strikes(attempt.task), before)

    def _decide(
        self, job: ActiveJob, attempt: AttemptKey, ending: Ending, now: Monotonic, blame: Blame
    ) -> tuple[TaskState, Monotonic]:
        """The state that an ending leads to, and when the task may start again."""
        if ending.is_success:
            return TaskState.FINISHED, NEVER
        if job.is_cancelled or ending.cause is Cause.CANCELLED:
            return TaskState.CANCELLED, NEVER
        if ending.cause in (Cause.WORKER_STOPPED, Cause.RETURNED) or blame is Blame.NONE:
            return TaskState.WAITING, now
        is_crash = ending.cause is Cause.WORKER_LOST
        failures, crashes = job.tasks.strike(attempt.task, is_crash)
        if failures > job.spec.retries or (crashes >= self.policy.crash_limit and blame is Blame.ALONE):
            return TaskState.FAILED, NEVER
        pause = 0.0 if is_crash else min(LONGEST_RETRY_PAUSE, job.spec.retry_pause * 2 ** min(failures - 1, 20))
        return TaskState.WAITING, now + pause

    def _cancel_tasks(self, job: ActiveJob, tasks: Iterable[TaskNumber] | None, now: Monotonic) -> list[Effect]:
        """Waiting tasks are cancelled at once; those that workers have are killed and counted as cancelled."""
        chosen = None if tasks is None else [task for task in dict.fromkeys(tasks) if task in job.tasks]
        effects: list[Effect] = []
        if chosen is None:
            if job.is_open:
                job.is_open = False
                effects.append(OpenJobClosed(job.id, self._stamp(now)))
            job.is_cancelled = True
            given = list(job.tasks.in_states(*GIVEN_STATES))
            if job.tasks.cancel_waiting():
                effects.append(TasksSet(job.id, TaskState.CANCELLED, None, self._stamp(now)))
        else:
            given = [task for task in chosen if job.tasks.state(task) in GIVEN_STATES]
            waiting = tuple(task for task in chosen if job.tasks.state(task) is TaskState.WAITING)
            for task in waiting:
                job.tasks.end(task, TaskState.CANCELLED)
            if waiting:
                effects.append(TasksSet(job.id, TaskState.CANCELLED, waiting, self._stamp(now)))
        return effects + self._kill(job, given, now)

    def _kill(self, job: ActiveJob, tasks: list[TaskNumber], now: Monotonic) -> list[Effect]:
        kills: dict[str, list[AttemptKey]] = {}
        effects: list[Effect] = []
        for task in tasks:
            attempt = job.last_attempt(task)
            worker = self._owners.find(attempt)
            assert worker is not None, "it is given"
            kills.setdefault(worker.info.id, []).append(attempt)
            effects.append(self._end(attempt, Ending(cause=Cause.CANCELLED, note="cancelled"), now))
        return [*effects, *(KillAttempts(worker, tuple(attempts)) for worker, attempts in kills.items())]

    def _set_held(self, number: JobId, held: bool, now: Monotonic) -> list[Effect]:
        job = self.jobs.find(number)
        if job is None or job.held == held:
            return []
        job.held = held
        self.jobs.settle(job)
        job.state = job.compute_state()
        record = JobSet(number, job.state, held, self._stamp(now))
        self._request_dispatch()
        return [record]

    def _settle_job(self, job: ActiveJob, now: Monotonic) -> list[Effect]:
        """Record and tell a job's new state, if it has one; a final job leaves the memory."""
        state = job.compute_state()
        if self.jobs.find(job.id) is None:
            return []
        self.jobs.settle(job)
        if state is job.state and state not in FINAL_JOB_STATES:
            return []
        job.state = state
        record = JobSet(job.id, state, job.held, self._stamp(now))
        effects: list[Effect] = [record]
        if state in FINAL_JOB_STATES:
            for dependent in self.jobs.remove(job):
                effects += self._on_dependency(dependent, job, now)
        return effects

    def _on_dependency(self, job: ActiveJob, finished: ActiveJob, now: Monotonic) -> list[Effect]:
        job.awaited.discard(finished.id)
        if finished.state is JobState.FINISHED:
            self.jobs.settle(job)
            self._request_dispatch()
            return []
        return self._cancel_tasks(job, None, now) + self._settle_job(job, now)

    def _forget_worker(self, worker: KnownWorker, now: Monotonic) -> list[Effect]:
        self.workers.remove(worker)
        self._request_dispatch()
        ending = Ending(cause=Cause.WORKER_LOST, note=f"worker {worker.info.name} was lost")
        if worker.dismissed:
            ending = Ending(cause=Cause.WORKER_STOPPED, note=f"worker {worker.info.name} was stopped")
        effects: list[Effect] = []
        suspects = worker.list_suspects()
        for attempt in worker.held:
            if self._owners.is_current(attempt, worker):
                blame = _blame(attempt, suspects)
                effects.append(self._end(attempt, ending, now, blame))
                effects += self._settle_job(self._get_job(attempt.job), now)
        return effects


def _blame(attempt: AttemptKey, suspects: list[AttemptKey]) -> Blame:
    """For the end of a worker on which these attempts had begun."""
    if attempt not in suspects:
        return Blame.NONE
    return Blame.SHARED if len(suspects) > 1 else Blame.ALONE
