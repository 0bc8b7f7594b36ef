"""Gathers free slots of a worker for a task that needs several: meanwhile the worker gets no task of lower rank.

Exceptions are tasks that should end before the last slot is free, or fit into slots that will not be needed: they use
slots that would be idle. A worker gets them only while it runs something that it held when the gathering began, so the
wait is bounded: until that has ended, and then for the longest of the tasks that used the slots meanwhile.
"""

from math import inf
from typing import Final, NamedTuple

from gandy.core.held import Held
from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.policy import Policy
from gandy.core.queue import Need, Rank
from gandy.core.workers import KnownWorker, WorkerTable
from gandy.ids import JobId
from gandy.moments import NEVER, Monotonic

STAY: Final = 0.5  # gathering moves only to a worker that is ready in half of the time
SOON: Final = 0.02  # seconds until the next look at slots that calls had only for a moment


class Wish(NamedTuple):
    """Tasks of a job that need slots gathered: so many, or all slots of a worker that has fewer."""

    rank: Rank
    is_ordinary: bool  # suspects come before the other tasks of their job
    job: ActiveJob
    slots: int
    tasks: int


class Place(NamedTuple):
    """What a worker gathers slots for."""

    rank: Rank
    is_ordinary: bool
    job: JobId
    until: Monotonic  # when the slots should be free, if nothing more is given out
    surplus: int  # slots that should be free then, and are not needed
    since: Monotonic  # when it began here; what was given out later, and is of lower rank, only fills slots
    asked: Monotonic  # when it began anywhere
    lent_since: Monotonic | None  # since when calls have had slots that are needed, at every decision

    def goes_before(self, job: ActiveJob) -> bool:
        return (self.rank, self.is_ordinary) < (job.rank, True)

    def may_move(self, now: Monotonic) -> bool:
        """True if another worker may gather instead.

        Each stay is at least as long as all stays before it together, so one of them lasts until the slots are free.
        """
        return now - self.since >= self.since - self.asked


class Gathering:
    """Jobs `ask` in the order of their rank, again for each decision. Places stay until their tasks have begun."""

    def __init__(self, policy: Policy, jobs: JobTable, workers: WorkerTable) -> None:
        self._policy = policy
        self._jobs = jobs
        self._workers = workers
        self._now = Monotonic(0.0)
        self._wishes: list[Wish] = []  # for which no place was found yet
        self._asked: set[tuple[JobId, bool]] = set()
        self._counts: dict[Need | None, int] = {}  # tasks for which places were wanted
        self._before: dict[str, Place] = {}  # of earlier decisions, unless this one has looked for them
        self.places: dict[str, Place] = {}  # by worker; looked for only when a job of lower rank wants slots

    def begin(self, now: Monotonic) -> None:
        """Begin a decision."""
        self._now = now
        if self._before or self.places:
            places = self._before | self.places
            self._before = {worker: place for worker, place in places.items() if self._is_wanted(place)}
            self.places = {}
        self._wishes.clear()
        self._asked.clear()
        self._counts.clear()

    def _is_wanted(self, place: Place) -> bool:
        job = self._jobs.find(place.job)
        return job is not None and job.may_start and job.tasks.startable > 0

    @property
    def next_look(self) -> Monotonic:
        """When to decide again about slots that are kept free, even if nothing has ended."""
        return self._now + self._policy.look_ahead if self.places else NEVER

    @property
    def patient_until(self) -> Monotonic:
        """When to look whether calls have returned slots: they come and go, and no event says so."""
        lent = [place.lent_since for place in self.places.values() if place.lent_since is not None]
        pauses = (max(SOON, (self._now - since) / 4) for since in lent)
        return self._now + min(pauses, default=inf)

    def ask(self, job: ActiveJob, slots: int, count: int, *, is_ordinary: bool = True) -> bool:
        """Have slots gathered for so many tasks of a job. True if every worker gathers for jobs with this need."""
        if (job.id, is_ordinary) not in self._asked:
            self._asked.add((job.id, is_ordinary))
            self._wishes.append(Wish(job.rank, is_ordinary, job, slots, count))
            self._counts[job.need] = self._counts.get(job.need, 0) + count
        return self._counts[job.need] >= len(self._workers)

    def limit_room(self, worker: KnownWorker, job: ActiveJob, room: int, *, is_free: bool) -> int:
        """How many of these slots the job may have. `is_free`: they are free slots, not places to wait."""
        place = self._find_place(worker, job)
        if place is None:
            return room
        if not is_free:
            return 0
        is_over_before = job.pace is not None and self._now + job.pace <= place.until
        return room if is_over_before else min(room, place.surplus)

    def on_taken(self, worker: KnownWorker, job: ActiveJob, slots: int) -> None:
        """The job has taken slots of this worker."""
        if not (self._asked or self._before):  # hot: mostly nothing is gathered
            return
        name = worker.info.id
        place = self._find_place(worker, job)
        if place is not None:
            self.places[name] = place._replace(surplus=max(0, place.surplus - slots))
        for places in (self._before, self.places):
            if name in places and places[name].job == job.id:  # what it gathers from now on is for the next task
                places[name] = places[name]._replace(since=self._now, asked=self._now)

    def _find_place(self, worker: KnownWorker, job: ActiveJob) -> Place | None:
        """The place at this worker, if it is for a job of higher rank."""
        if not self._asked:
            return None
        self._find_all_places()
        place = self.places.get(worker.info.id)
        return place if place is not None and place.goes_before(job) else None

    def _find_all_places(self) -> None:
        """Find places for all wishes. Called only if a job of lower rank wants slots: mostly none does."""
        for wish in self._wishes:
            self._find_places(wish)
        self._wishes.clear()

    def _find_places(self, wish: Wish) -> None:
        """Choose the workers that should have the slots free first."""
        before = self._take_before(wish)
        found = []
        for worker in self._workers:
            name = worker.info.id
            if worker.is_willing and name not in self.places and wish.job.suits(worker):
                place = self._foresee(worker, wish, before.get(name))
                seconds = place.until - self._now if place.lent_since is None else inf
                if name in before:
                    seconds = seconds * STAY if place.may_move(self._now) else -1.0
                found.append((seconds, -worker.free, worker.turn, name, place))
        chosen = {name: place for *_, name, place in sorted(found)[: wish.tasks]}
        left = sorted(place.asked for name, place in before.items() if name not in chosen)
        for name, place in chosen.items():
            is_moved = name not in before and left
            self.places[name] = place._replace(asked=left.pop(0)) if is_moved else place

    def _take_before(self, wish: Wish) -> dict[str, Place]:
        """Take out the places where slots were gathered for this wish."""
        key = (wish.job.id, wish.is_ordinary)
        taken = {name: place for name, place in self._before.items() if (place.job, place.is_ordinary) == key}
        for name in taken:
            del self._before[name]
        return taken

    def _foresee(self, worker: KnownWorker, wish: Wish, before: Place | None) -> Place:
        """Estimate when the slots are free if nothing more is given out, and tasks that use idle slots end in time.

        Tasks of lower rank that were given out since the gathering began count as ended: otherwise more tasks could be
        given out beside them, and so on for ever.
        """
        since, asked = (self._now, self._now) if before is None else (before.since, before.asked)
        place = Place(wish.rank, wish.is_ordinary, wish.job.id, self._now, 0, since, asked, None)
        slots = min(wish.slots, worker.slots.shared)
        rests, filling = [], 0
        for attempt, held in worker.held.items():
            job = self._jobs.find(attempt.job)
            if held.since >= since and (job is None or place.goes_before(job)):
                filling += held.slots
            else:
                rests.append((self._guess_rest(job, held), held.slots))
        free = worker.slots.free_for_tasks + filling  # below 0 if tasks wait
        for rest, freed in sorted(rests):
            if free >= slots:
                break
            place, free = place._replace(until=self._now + rest), free + freed
        if free >= slots:
            return place._replace(surplus=max(0, free - filling - slots))
        return self._await_calls(place, before)

    def _await_calls(self, place: Place, before: Place | None) -> Place:
        """Calls have the slots that are needed, perhaps for as long again as they have had them."""
        lent_since = self._now if before is None or before.lent_since is None else before.lent_since
        until = max(place.until, self._now + (self._now - lent_since))
        return place._replace(until=until, lent_since=lent_since)

    def _guess_rest(self, job: ActiveJob | None, held: Held) -> float:
        """Seconds that an attempt still takes. One that is overdue may take as long again as it is overdue."""
        pace = self._policy.first_pace if job is None or job.pace is None else job.pace
        return abs(pace - (self._now - held.since))
