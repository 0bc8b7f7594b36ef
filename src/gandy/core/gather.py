"""Where free slots are gathered for a task that needs several: its worker gets nothing of lower rank meanwhile.

But for tasks that should be over before the last slot is free, or have slots that will not be needed: those fill what
would be idle. Which worker gathers for whom is found anew for each decision, from what the workers hold and how long
tasks of those jobs took lately.
"""

from collections.abc import Mapping
from math import inf
from typing import Final, NamedTuple

from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.policy import Policy
from gandy.core.queue import Need, Rank
from gandy.core.workers import Held, KnownWorker, WorkerTable
from gandy.ids import JobId

STAY: Final = 0.5  # a worker that gathered before is left only for one that is ready in half of the time


class Wish(NamedTuple):
    """Tasks of a job that want slots gathered: as many as the worker has, if it has fewer."""

    rank: Rank
    is_ordinary: bool  # suspects come before the other tasks of their job
    job: ActiveJob
    slots: int
    tasks: int


class Place(NamedTuple):
    """A worker that gathers."""

    rank: Rank
    is_ordinary: bool
    job: JobId
    until: float  # when the slots should be free
    surplus: int  # slots that should be free then, and are not needed

    def goes_before(self, job: ActiveJob) -> bool:
        return (self.rank, self.is_ordinary) < (job.rank, True)


class Gathering:
    """For one decision. Jobs `ask` in the order of their rank."""

    def __init__(
        self,
        policy: Policy,
        jobs: JobTable,
        workers: WorkerTable,
        now: float,
        before: Mapping[str, Place],
    ) -> None:
        """`before`: the places of the last decision, which are preferred."""
        self._policy = policy
        self._jobs = jobs
        self._workers = workers
        self._now = now
        self._before = before
        self._wishes: list[Wish] = []  # for which no place was found yet
        self._asked: set[tuple[JobId, bool]] = set()
        self._counts: dict[Need | None, int] = {}  # tasks for which places were wanted
        self.places: dict[str, Place] = {}  # by worker, as far as they had to be found

    def ask(self, job: ActiveJob, slots: int, count: int, *, is_ordinary: bool = True) -> bool:
        """Have slots gathered for so many tasks of a job. True if every worker gathers for jobs with this need."""
        if (job.id, is_ordinary) not in self._asked:
            self._asked.add((job.id, is_ordinary))
            self._wishes.append(Wish(job.rank, is_ordinary, job, slots, count))
            self._counts[job.need] = self._counts.get(job.need, 0) + count
        return self._counts[job.need] >= len(self._workers)

    def limit_room(self, worker: KnownWorker, job: ActiveJob, room: int, *, is_free: bool) -> int:
        """So many of these slots the job may have. `is_free`: they are free, and no places to wait."""
        place = self._find_place(worker, job)
        if place is None:
            return room
        if not is_free:
            return 0
        is_over_before = job.pace is not None and self._now + job.pace <= place.until
        return room if is_over_before else min(room, place.surplus)

    def on_taken(self, worker: KnownWorker, job: ActiveJob, slots: int) -> None:
        """The job has slots of this worker now."""
        place = self._find_place(worker, job)
        if place is not None:
            self.places[worker.info.id] = place._replace(surplus=max(0, place.surplus - slots))

    def _find_place(self, worker: KnownWorker, job: ActiveJob) -> Place | None:
        """The place at this worker, if it is for a job of higher rank."""
        if not self._asked:
            return None
        self._find_all_places()
        place = self.places.get(worker.info.id)
        return place if place is not None and place.goes_before(job) else None

    def _find_all_places(self) -> None:
        """Not before a job of lower rank comes: mostly there is none to be kept out."""
        for wish in self._wishes:
            self._find_places(wish)
        self._wishes.clear()

    def _find_places(self, wish: Wish) -> None:
        """The workers that should have the slots free first."""
        found = []
        for worker in self._workers:
            if worker.is_willing and worker.info.id not in self.places and wish.job.suits(worker):
                seconds, surplus = self._foresee(worker, min(wish.slots, worker.slots.shared))
                is_old = worker.info.id in self._before and self._before[worker.info.id].job == wish.job.id
                place = Place(wish.rank, wish.is_ordinary, wish.job.id, self._now + seconds, surplus)
                found.append((seconds * STAY if is_old else seconds, -worker.free, worker.turn, worker.info.id, place))
        for *_, worker_id, place in sorted(found)[: wish.tasks]:
            self.places[worker_id] = place

    def _foresee(self, worker: KnownWorker, slots: int) -> tuple[float, int]:
        """Seconds until so many slots are free if nothing more is given out, and how many more are free then."""
        free = worker.slots.free_for_tasks  # below 0 where tasks wait
        rests = sorted((self._guess_rest(attempt.job, held), held.slots) for attempt, held in worker.held.items())
        seconds = 0.0
        for rest, freed in rests:
            if free >= slots:
                break
            seconds, free = rest, free + freed
        return (seconds, free - slots) if free >= slots else (inf, 0)  # calls have the others

    def _guess_rest(self, job: JobId, held: Held) -> float:
        """Seconds that an attempt still takes. One that takes longer than others may take as much longer again."""
        found = self._jobs.find(job)
        pace = self._policy.first_pace if found is None or found.pace is None else found.pace
        return abs(pace - (self._now - held.since))
