"""What the tasks of a shard that wait would take of each worker, in a crew with many foremen.

A worker shares its slots among all shards, by rank. A shard that may use all slots of a worker wants nothing of it.
"""

from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.shards import Want
from gandy.core.workers import KnownWorker, WorkerTable
from gandy.moments import Monotonic

NOTHING = Want()


class Wants:
    """Knows what each worker was sent last."""

    def __init__(self, jobs: JobTable, workers: WorkerTable) -> None:
        self._jobs = jobs
        self._workers = workers
        self._sent: dict[str, Want] = {}  # by worker; none: nothing is wanted of it

    def on_hello(self, worker: str) -> None:
        """A worker has forgotten what was wanted of it."""
        self._sent.pop(worker, None)

    def decide(self, now: Monotonic) -> list[tuple[str, Want]]:
        """What to send to which worker, after tasks were given to all workers with free slots."""
        changed: list[tuple[str, Want]] = []
        self._sent = {name: want for name, want in self._sent.items() if self._is_here(name)}
        waiting = [job for job in self._jobs.in_order() if job.may_start and job.tasks.find_ready(now) is not None]
        for worker in self._workers:
            if worker.connected and (waiting or worker.info.id in self._sent):
                self._look_at(worker, waiting, changed)
        return changed

    def _is_here(self, worker: str) -> bool:
        found = self._workers.find(worker)
        return found is not None and found.connected

    def _look_at(self, worker: KnownWorker, waiting: list[ActiveJob], changed: list[tuple[str, Want]]) -> None:
        name = worker.info.id
        want = _find_want(worker, waiting) if worker.is_willing and worker.info.shares_slots else NOTHING
        if want != self._sent.get(name, NOTHING):
            changed.append((name, want))
            self._sent[name] = want
        if want is NOTHING:
            self._sent.pop(name, None)


def _find_want(worker: KnownWorker, waiting: list[ActiveJob]) -> Want:
    most = worker.slots.most
    if worker.slots.shared >= most:
        return NOTHING
    best: ActiveJob | None = None
    slots = 0
    for job in waiting:
        if job.spec.slots <= most and worker.info.tags.issuperset(job.spec.tags) and job.suits_time(worker):
            best = best or job
            slots += job.count_startable() * job.spec.slots
            if slots >= most:
                break
    return NOTHING if best is None else Want(min(slots, most), best.spec.priority, best.id)
