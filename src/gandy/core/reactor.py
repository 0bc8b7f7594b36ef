"""Decides about jobs: events and the time come in, effects go out, records before sends.

It keeps all jobs that are not final in memory, and never waits. A result counts only for the current attempt of its
task; any other is acknowledged, so that the worker can forget it, and changes nothing. Which worker gets what is
decided when the program calls `dispatch`: once for all that has happened since.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from msgspec.structs import replace

from gandy.core.control import JobControl
from gandy.core.dispatch import Dispatcher
from gandy.core.effects import Acknowledge, Dismiss, Effect, Give, KillAttempts
from gandy.core.held import Held
from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.linking import Linking
from gandy.core.model import FINAL_JOB_STATES, AttemptKey, Cause, Ending, TaskState
from gandy.core.offsets import ClockOffsets
from gandy.core.owners import Owners
from gandy.core.policy import POLICY, Policy
from gandy.core.progress import Blame, Ends, JobProgress
from gandy.core.records import Began, Claimed
from gandy.core.workers import KnownWorker, WorkerInfo, WorkerTable
from gandy.ids import JobId, TaskNumber
from gandy.moments import LONG_AGO, NEVER, Monotonic, Wall

FIRST_REFUSAL_PAUSE: Final = 0.02  # seconds; the original frees a processor a moment after it reported a result
LONGEST_REFUSAL_PAUSE: Final = 5.0  # seconds; the longest that a free worker goes without a task that waits
FIRST_JOB: Final = JobId(1)


class Reactor:
    """Takes the events of workers and of time. Those of clients are in `control`.

    Every method that changes something returns the effects of the change.
    """

    def __init__(self, policy: Policy = POLICY, next_job: JobId = FIRST_JOB, boot: str = "") -> None:
        self.policy = policy
        self.clocks = ClockOffsets(boot)
        self.jobs = JobTable()
        self.workers = WorkerTable()
        self.owners = Owners()
        tables = self.jobs, self.workers, self.owners
        self.dispatcher = Dispatcher(policy, *tables, self.clocks)
        self.linking = Linking(self.jobs)
        self._progress = JobProgress(policy, *tables, self.clocks, self.dispatcher, self.linking)
        self.control = JobControl(*tables, self.clocks, self.dispatcher, self._progress, self.linking, next_job)

    # Workers

    def restore_attempt(self, attempt: AttemptKey, worker: str, now: Monotonic) -> None:
        """Restore an attempt that a worker had when the foreman stopped. It has the grace period to come back."""
        job = self.jobs.get(attempt.job)
        owner = self.workers.find(worker)
        if owner is None:
            owner = self.workers.add(KnownWorker(WorkerInfo(worker, worker, 0), absent_since=now))
        self.owners.take(owner, attempt, Held(job.spec.slots, now))
        if job.tasks.state(attempt.task) is TaskState.RUNNING:
            owner.held.begun.add(attempt)
        self.workers.use(owner)

    def on_hello(
        self, info: WorkerInfo, held: Iterable[AttemptKey], now: Monotonic, former: Iterable[str] = ()
    ) -> list[Effect]:
        """A worker has connected, perhaps again, and says what it holds. It keeps what is still its own.

        What `former` workers held is its own, too: they died in its folder, and it reports their results.
        """
        worker = self.workers.find(info.id) or self.workers.add(KnownWorker(info))
        worker.introduce(info)
        worker.problem = ""  # it reports that again, if it still has one
        worker.connected = True
        worker.last_heard = now
        self.workers.forgive(worker)
        reported = set(held)
        forgotten = sorted(set(worker.held) - reported - worker.held.unsent)  # it never got these, or ended them
        effects = self._progress.give_back(worker, forgotten, now)
        for name in former:
            effects += self._take_over(name, worker, reported, now)
        outdated = sorted(attempt for attempt in reported if not self.owners.is_current(attempt, worker))
        for attempt in outdated:  # they hold slots until it reports their end
            worker.held.take(attempt, Held(1, now))
        if outdated:
            effects.append(KillAttempts(info.id, tuple(outdated)))
        if not info.reports_begun:
            effects += self.on_begun(info.id, reported, now)
        if worker.draining:  # the request may have been lost with a link
            effects.append(Dismiss(info.id, worker.dismissed))
        self.workers.settle(worker)
        self.dispatcher.request()
        return effects

    def _take_over(self, name: str, worker: KnownWorker, reported: set[AttemptKey], now: Monotonic) -> list[Effect]:
        """Move the attempts that a worker reports from a former one to it. What the former one held besides is lost."""
        former = self.workers.find(name)
        if former is None or former is worker:
            return []
        for attempt in sorted(reported):
            if self.owners.is_current(attempt, former):
                held, has_begun = former.held[attempt], attempt in former.held.begun
                former.held.release(attempt)
                self.owners.take(worker, attempt, held)
                if has_begun:
                    worker.held.begun.add(attempt)
        if former.connected:  # its link is dead, or a copy of its folder is in use elsewhere
            former.replaced_at = now if former.replaced_at == LONG_AGO else former.replaced_at
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
            self.dispatcher.request()

    def on_absent(self, worker: str, now: Monotonic) -> list[Effect]:
        """A worker's link is gone. It keeps its tasks for the grace period, unless a new one has its folder."""
        found = self.workers.find(worker)
        if found is None or not found.connected:
            return []
        found.connected = False
        found.absent_since = now
        self.workers.settle(found)
        is_over = found.dismissed or found.is_replaced or not found.held
        return self._forget_worker(found, now) if is_over else []

    def on_gone(self, worker: str, now: Monotonic) -> list[Effect]:
        """A worker is known to be dead, or has left for good: what it held is lost."""
        found = self.workers.find(worker)
        return [] if found is None else self._forget_worker(found, now)

    def _forget_worker(self, worker: KnownWorker, now: Monotonic) -> list[Effect]:
        self.workers.remove(worker)
        self.dispatcher.request()
        ending = Ending(cause=Cause.WORKER_LOST, note=f"worker {worker.info.name} was lost")
        if worker.dismissed:
            ending = Ending(cause=Cause.WORKER_STOPPED, note=f"worker {worker.info.name} was stopped")
        effects: list[Effect] = []
        suspects = worker.held.list_suspects()
        for attempt in worker.held:
            if self.owners.is_current(attempt, worker):
                effects.append(self._progress.end(attempt, ending, now, _blame(attempt, suspects)))
                effects += self._progress.settle(self.jobs.get(attempt.job), now)
        return effects

    def drain(self, worker: str, immediate: bool = False) -> list[Effect]:
        """Give a worker nothing new, and let it go when it has done what it holds, or now."""
        found = self.workers.find(worker)
        if found is None:
            return []
        found.draining = True
        found.dismissed = found.dismissed or immediate
        self.workers.settle(found)
        return [Dismiss(worker, immediate)]

    # Attempts

    def current_attempt(self, job: JobId, task: TaskNumber) -> AttemptKey:
        """The attempt that a worker has now, for peers that know no attempts; number 0 if none has."""
        found = self.jobs.find(job)
        last = found.last_attempt(task) if found is not None and task in found.tasks else None
        return AttemptKey(job, task, 0) if last is None or last not in self.owners else last

    def on_given(self, worker: str, attempts: Iterable[AttemptKey], now: Monotonic) -> list[AttemptKey]:
        """These are on record, and about to be sent to a worker. Returns those that are still its own."""
        found = self.workers.find(worker)
        if found is None:
            return []
        found.last_moved = now
        unsent = [attempt for attempt in attempts if attempt in found.held.unsent]
        current = [attempt for attempt in unsent if self.owners.is_current(attempt, found)]
        found.held.unsent.difference_update(current)
        if len(current) < len(unsent):  # cancelled meanwhile: no worker would report their end
            for attempt in set(unsent).difference(current):
                found.held.release(attempt)
            self.workers.settle(found)
        return current

    def on_begun(self, worker: str, attempts: Iterable[AttemptKey], now: Monotonic) -> list[Effect]:
        """A worker says that it runs these attempts. Those that it does not have, or ran before, are not recorded."""
        found = self.workers.find(worker)
        if found is None:
            return []
        held = found.held
        new = (set(attempts) & held.keys()) - held.unsent - held.begun
        held.begun.update(new)
        if not held.recalled.isdisjoint(new):  # it will not come back, so another one may be recalled instead
            held.recalled.difference_update(new)
            self.workers.settle(found)
        current = tuple(sorted(attempt for attempt in new if self.owners.is_current(attempt, found)))
        for attempt in current:
            job = self.jobs.get(attempt.job)
            job.tasks.move(attempt.task, TaskState.RUNNING)
            self.jobs.note_change(job)
        return [Began(worker, current, self.clocks.stamp(now))] if current else []

    def on_refused(self, worker: str, attempts: Iterable[AttemptKey], now: Monotonic) -> list[Effect]:
        """A worker has not started these attempts. It is asked again when a task ends there, or after a pause.

        A worker that refuses while it runs nothing may never send anything again, so the pause must end by itself.
        """
        found = self.workers.find(worker)
        if found is None:
            return []
        pause = FIRST_REFUSAL_PAUSE * 2 ** min(found.refusals, 20)
        self.workers.pause(found, now + min(LONGEST_REFUSAL_PAUSE, pause))
        self.dispatcher.request()
        return self._progress.give_back(found, attempts, now)

    def on_claims_lost(self, attempts: Iterable[AttemptKey]) -> None:
        """Another foreman got these first. They wait here, and are not tried again before something else happens."""
        for attempt in attempts:
            worker = self.owners.get(attempt)
            if worker is not None:
                self._progress.undo_claim(attempt, worker)
                self.dispatcher.has_more = True

    def on_results(
        self, worker: str, ended: Sequence[tuple[AttemptKey, Ending]], now: Monotonic, reporter: str = ""
    ) -> list[Effect]:
        """A worker reports that attempts ended. `reporter`: its id on the link of the report, if that differs."""
        receipt = Acknowledge(reporter or worker, tuple(attempt for attempt, _ in ended))
        owner = self.workers.find(worker)
        if owner is None:
            return [receipt]
        owner.last_moved = now
        self.workers.forgive(owner)
        effects: list[Effect] = []
        touched: dict[JobId, ActiveJob] = {}
        for attempt, ending in ended:
            if self.owners.is_current(attempt, owner):
                effects.append(self._progress.end(attempt, ending, now))
                touched[attempt.job] = self.jobs.get(attempt.job)
            if ending.cause is Cause.WORKER_STOPPED:
                owner.draining = True  # it is about to leave
            owner.held.release(attempt)
        self.workers.settle(owner)
        self.dispatcher.is_needed = True  # but no worker whose account has not changed can get more
        changes = [effect for job in touched.values() for effect in self._progress.settle(job, now)]
        return [*effects, *changes, receipt]

    # Time

    @property
    def ends(self) -> Ends:
        """How attempts have ended since the foreman started."""
        return self._progress.ends

    def next_deadline(self) -> Monotonic | None:
        """When `on_time` should be called next, if nothing else happens."""
        deadlines = [worker.absent_since + self.policy.grace for worker in self.workers if not worker.connected]
        deadlines += [worker.ask_again_at for worker in self.workers.refusing.values()]
        if not self.dispatcher.is_needed:  # else `dispatch` comes first, and the store may keep it waiting for long
            deadlines += self.dispatcher.list_dues()
        return min(deadlines, default=None)

    def next_moment(self) -> Monotonic:
        """When `on_time` should be called even if that is within milliseconds. `NEVER`: no such deadline.

        Tasks may wait on a worker while another is idle, or a worker that refused a task is to be asked again.
        """
        pauses = (worker.ask_again_at for worker in self.workers.refusing.values())
        return min(self.dispatcher.patient_until, min(pauses, default=NEVER))

    def on_clock(self, ahead: float | None) -> None:
        """How far the shared time is ahead of `now`; None if that is not known.

        `on_time` follows, which may start what has a time.
        """
        self.clocks.shared_ahead = ahead
        if ahead is not None:
            for job in self.jobs.timed.values():
                job.on_clock(ahead)

    def on_time(self, now: Monotonic) -> list[Effect]:
        """End pauses that are over, and forget workers that have been absent for too long."""
        effects: list[Effect] = []
        for worker in [w for w in self.workers if not w.connected and w.absent_since + self.policy.grace <= now]:
            effects += self._forget_worker(worker, now)
        for worker in [w for w in self.workers.refusing.values() if w.ask_again_at <= now]:
            self.workers.resume(worker)
            self.workers.settle(worker)
        self.dispatcher.request()
        return effects

    def dispatch(self, now: Monotonic) -> list[Effect]:
        """Give what is ready to the workers whose turn it is."""
        given = self.dispatcher.give(now)
        at = self.clocks.stamp(now)
        claims = [self._make_claim(each, at) for each in given]
        started = sorted({attempt.job for claim in claims for attempt in claim.attempts})
        changes = [effect for job in started for effect in self._progress.settle(self.jobs.get(job), now)]
        return [*claims, *changes, *given, *self.dispatcher.recall(now)]

    def _make_claim(self, give: Give, at: Wall) -> Claimed:
        worker = self.workers.find(give.worker)
        assert worker is not None, "it got them just now"
        state = TaskState.ASSIGNED if worker.info.reports_begun else TaskState.RUNNING
        return Claimed(give.worker, tuple(each.attempt for each in give.assignments), at, state)

    def check(self) -> None:
        """What must hold after every step; for tests."""
        self.jobs.check()
        self.linking.check()
        self.workers.check()
        self.dispatcher.check()
        given = 0
        for job in self.jobs:
            assert job.compute_state() not in FINAL_JOB_STATES, "a final job leaves the memory"
            given += job.tasks.given
        assert given == len(self.owners)
        for attempt, worker in self.owners.items():
            tasks, held = self.jobs.get(attempt.job).tasks, worker.held
            assert tasks.attempts(attempt.task) == attempt.attempt, "it is the last one"
            assert attempt in held
            assert (tasks.state(attempt.task) is TaskState.RUNNING) == (attempt in held.begun)


def _blame(attempt: AttemptKey, suspects: list[AttemptKey]) -> Blame:
    """For the end of a worker on which these attempts had begun."""
    if attempt not in suspects:
        return Blame.NONE
    return Blame.SHARED if len(suspects) > 1 else Blame.ALONE
