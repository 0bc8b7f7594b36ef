"""What the tasks of a shard that wait would take of each worker, in a crew with many foremen.

A worker shares its slots among all shards, by rank. So a shard also says what it wants of a worker whose slots it has
all: of those that become free, none may go to a shard of lower rank.
"""

from collections.abc import Iterator
from typing import Final

from gandy.core.jobs import ActiveJob, JobTable
from gandy.core.queue import Need
from gandy.core.shards import Want
from gandy.core.workers import KnownWorker, WorkerTable
from gandy.moments import LONG_AGO, Monotonic

NOTHING: Final = Want()
PERIOD: Final = 0.2  # seconds for which the rank of an older job of the same priority stands for that of its successor

Kind = tuple[int, frozenset[str], bool]  # of a worker: its slots and tags, and whether it knows the shared time


class Wants:
    """Knows what each worker was sent last."""

    def __init__(self, jobs: JobTable, workers: WorkerTable) -> None:
        self._jobs = jobs
        self._workers = workers
        self.has_others = False  # the crew has other shards, with which workers share their slots
        self._sent: dict[str, tuple[Want, Monotonic]] = {}  # by worker, and when; none: nothing is wanted of it
        self._found: dict[Kind, Want] = {}  # by this decision: most workers are of a few kinds

    def on_hello(self, worker: str) -> None:
        """A worker has forgotten what was wanted of it."""
        self._sent.pop(worker, None)

    def decide(self, now: Monotonic) -> list[tuple[str, Want]]:
        """What to send to which worker, after tasks were given to all workers with free slots."""
        self._found.clear()
        self._sent = {name: sent for name, sent in self._sent.items() if self._is_here(name)}
        changed: list[tuple[str, Want]] = []
        for worker in self._workers:
            name = worker.info.id
            before, since = self._sent.get(name, (NOTHING, LONG_AGO))
            want = self._find_want(worker, now) if worker.connected else NOTHING
            if want == before or (now - since < PERIOD and _is_close(want, before)):
                continue
            changed.append((name, want))
            self._sent[name] = want, now
            if want == NOTHING:
                del self._sent[name]
        return changed

    def _is_here(self, worker: str) -> bool:
        found = self._workers.find(worker)
        return found is not None and found.connected

    def _find_want(self, worker: KnownWorker, now: Monotonic) -> Want:
        if not self.has_others or not worker.is_willing or not worker.info.shares_slots:
            return NOTHING
        kind = worker.slots.most, worker.info.tags, worker.knows_time
        found = self._found.get(kind)
        if found is None:
            found = self._found[kind] = self._add_up(kind, now)
        return found

    def _add_up(self, kind: Kind, now: Monotonic) -> Want:
        """The slots that waiting tasks could use of a worker of this kind, and the rank of the first of them."""
        most = kind[0]
        best: ActiveJob | None = None
        slots = 0
        for job in self._list_suiting(kind):
            if job.may_start and job.tasks.find_ready(now) is not None:
                best = best or job
                slots += job.count_startable() * job.spec.slots
                if slots >= most:
                    break
        return NOTHING if best is None else Want(min(slots, most), best.spec.priority, best.id)

    def _list_suiting(self, kind: Kind) -> Iterator[ActiveJob]:
        """Jobs by rank whose tasks such a worker could run, if it did nothing else."""
        most, tags, knows_time = kind
        given_up: set[Need | None] = set()
        for job in self._jobs.in_order(given_up):
            need = job.need
            assert need is not None, "it might start a task"
            if need.slots <= most and tags.issuperset(need.tags) and (knows_time or not need.is_timed):
                yield job
            else:
                given_up.add(need)


def _is_close(want: Want, before: Want) -> bool:
    """True if only the older of two jobs is over. With many small jobs, each would cost a message to each worker."""
    return want == Want(before.slots, before.priority, want.job) and want.slots > 0 and want.job > before.job
