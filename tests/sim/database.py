"""The database of a simulated crew: shards with their owners, and everything that foremen commit, fenced by epochs.

It is slow, restarts, fails over to a standby with another clock, and loses answers to what it has done: a transaction
happens at one moment, or not at all, whatever the foreman that asked for it hears. Statements that were sent over a
connection that broke may still arrive.
"""

from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import replace
from tests.sim.laws import Law, Laws, require
from tests.sim.network import Network
from tests.waiting import run_sync

from gandy.core.hosting import LEASE_SECONDS
from gandy.core.model import AttemptKey
from gandy.core.records import (
    Began,
    Claimed,
    Ended,
    JobAdded,
    JobForgotten,
    LinesAdded,
    LinesDropped,
    Record,
    ResultsDropped,
)
from gandy.core.rows import Recovered
from gandy.core.shards import NO_SHARD, CrewView, ForemanPlace, Lease
from gandy.errors import ShardLost, StoreError, SubmittedBefore
from gandy.ids import JobId
from gandy.store.memory import MemoryStore
from gandy.testing.simulation import Simulation

SITE: Final = "database"  # its name in the network
PATIENCE: Final = 3.0  # seconds after which a foreman gives up waiting for an answer
MAX_LATE: Final = 6.0  # seconds that a statement may wait somewhere before it arrives
CLOCK_STEP: Final = 0.5  # seconds by which the clock of a standby may differ

Transaction = Callable[[], Any]
OnDone = Callable[[Any, StoreError | None], None]


class DatabaseFaults(Struct, frozen=True):
    """Times are in seconds, the others are chances from 0 to 1."""

    max_delay: float = 0.005  # of each way
    max_commit: float = 0.005
    lose_question: float = 0.0
    lose_answer: float = 0.0
    late: float = 0.0  # of a lost question, that it arrives all the same, long after


class Disconnected(StoreError):
    """The connection broke while a statement was under way: whether it was done is not known."""

    def __init__(self) -> None:
        super().__init__("the connection to the database broke", retryable=True)


class _Question:
    """What a foreman asks, and gets one answer to."""

    __slots__ = ("_on_done",)

    def __init__(self, on_done: OnDone) -> None:
        self._on_done: OnDone | None = on_done

    def finish(self, value: Any, error: StoreError | None) -> None:
        on_done, self._on_done = self._on_done, None
        if on_done is not None:
            on_done(value, error)

    def give_up(self) -> None:
        if self._on_done is not None:
            self.finish(None, Disconnected())


class ShardRow(Struct):
    """A shard, as the database knows it."""

    owner: str
    epoch: int
    taken: float
    is_retired: bool = False


class ForemanRow(Struct):
    place: ForemanPlace
    seen: float


class SharedStore(MemoryStore):
    """All jobs of the crew, and which shard each belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self.shards: dict[JobId, int] = {}
        self.keys: dict[int, JobId] = {}

    def recover(self, shard: int) -> Recovered:
        found = [job.recover() for number, job in sorted(self._jobs.items()) if self.shards[number] == shard]
        return Recovered(tuple(job for job in found if self.is_unfinished(job.row.job)), JobId(self._last_job + 1))

    def is_unfinished(self, job: JobId) -> bool:
        return self._jobs[job].is_unfinished

    def drop_uploads(self, shard: int) -> None:
        self._uploads = {upload: lines for upload, lines in self._uploads.items() if upload // UPLOADS != shard}


UPLOADS: Final = 1_000_000  # numbers of uploads that each shard has


class Database:
    """`ask` it for a transaction. Methods that begin with `do_` are the bodies of transactions."""

    has_fence = True  # tests of the laws have worse ones
    knows_commits = True

    def __init__(self, simulation: Simulation, network: Network, laws: Laws, faults: DatabaseFaults) -> None:
        self._simulation = simulation
        self._network = network
        self._laws = laws
        self.faults = faults
        self._random = Random(f"{simulation.seed} database")
        self._chances: dict[str, Random] = {}  # for each foreman: what happens to one depends on no other
        self._ahead = self._random.uniform(0.0, 1e6)  # of its clock
        self._life = 0
        self.is_up = True
        self.store = SharedStore()
        self.foremen: dict[str, ForemanRow] = {}
        self.shards: dict[int, ShardRow] = {}
        self._last_job = 0
        self._commits: dict[tuple[int, int, int], frozenset[AttemptKey] | None] = {}  # None: ruled out
        self._authors: dict[tuple[int, int], str] = {}  # processes that have committed, by shard and epoch

    # Being reached

    def ask(self, site: str, transaction: Transaction, on_done: OnDone) -> None:
        """`on_done` is called once: with the result, or with an error, also if the transaction happens."""
        question = _Question(on_done)
        finish, give_up = question.finish, question.give_up
        faults, chance = self.faults, self._get_chance(site)
        self._simulation.call_later(PATIENCE, give_up)
        delay = faults.max_delay * chance.random()
        if chance.random() < faults.lose_question or (site, SITE) in self._network.cuts:
            if chance.random() >= faults.late:
                self._simulation.call_later(delay, give_up)  # the connection broke
                return
            self._laws.seen["late statement"] += 1
            self._simulation.call_later(delay, give_up)
            delay = MAX_LATE * chance.random()
        self._simulation.call_later(delay, partial(self._arrive, site, transaction, finish))

    def _arrive(self, site: str, transaction: Transaction, finish: OnDone) -> None:
        if not self.is_up:
            finish(None, Disconnected())
            return
        life = self._life
        delay = self.faults.max_commit * self._get_chance(site).random()
        self._simulation.call_later(delay, partial(self._do, life, site, transaction, finish))

    def _do(self, life: int, site: str, transaction: Transaction, finish: OnDone) -> None:
        if life != self._life:
            finish(None, Disconnected())
            return
        value, error = None, None
        try:
            value = transaction()
        except StoreError as refused:
            error = refused
        chance = self._get_chance(site)
        if chance.random() < self.faults.lose_answer:
            self._laws.seen["answer lost"] += 1
            value, error = None, Disconnected()
        delay = self.faults.max_delay * chance.random()
        self._simulation.call_later(delay, partial(self._answer, life, site, value, error, finish))

    def _answer(self, life: int, site: str, value: Any, error: StoreError | None, finish: OnDone) -> None:
        if life != self._life:
            value, error = None, Disconnected()
        if (SITE, site) not in self._network.cuts:  # else the foreman loses patience
            finish(value, error)

    def _get_chance(self, site: str) -> Random:
        if site not in self._chances:
            self._chances[site] = Random(f"{self._simulation.seed} database {site}")
        return self._chances[site]

    # What goes wrong

    def crash(self, seconds: float) -> None:
        """What was under way is not done, or its answer is lost. Perhaps a standby takes its place."""
        self._life += 1
        self.is_up = False
        self._ahead += self._random.choice([0.0, self._random.uniform(-CLOCK_STEP, CLOCK_STEP)])
        self._laws.seen["database crash"] += 1
        life = self._life
        self._simulation.call_later(seconds, lambda: self._start(life))

    def _start(self, life: int) -> None:
        if life == self._life:
            self.is_up = True

    # Foremen and shards

    @property
    def now(self) -> float:
        return self._simulation.now + self._ahead

    def do_beat(self, me: ForemanPlace) -> CrewView:
        self.foremen[me.id] = ForemanRow(me, self.now)
        places = tuple(
            replace(row.place, silent_seconds=max(0.0, self.now - row.seen)) for row in self.foremen.values()
        )
        leases = [self._read_lease(shard, row) for shard, row in self.shards.items() if not row.is_retired]
        return CrewView(places, tuple(leases))

    def _read_lease(self, shard: int, row: ShardRow) -> Lease:
        owner = self.foremen.get(row.owner)
        since = row.taken if owner is None else max(row.taken, owner.seen)
        return Lease(shard, row.epoch, row.owner, since + LEASE_SECONDS - self.now)

    def do_leave(self, me: str) -> None:
        self.foremen.pop(me, None)
        for shard, row in self.shards.items():
            if row.owner == me:
                self._set_owner(shard, "")

    def do_take_new(self, me: str) -> Lease:
        empty = [
            (row.is_retired, shard)
            for shard, row in self.shards.items()
            if row.is_retired or (not row.owner and not self.has_work(shard))
        ]
        shard = min(empty)[1] if empty else len(self.shards) + 1
        if not empty:
            self.shards[shard] = ShardRow("", 0, self.now)
        self.shards[shard].is_retired = False
        return self._set_owner(shard, me)

    def has_work(self, shard: int) -> bool:
        return bool(self.store.recover(shard).jobs)

    def _set_owner(self, shard: int, owner: str) -> Lease:
        row = self.shards[shard]
        row.owner, row.epoch, row.taken = owner, row.epoch + 1, self.now
        return self._read_lease(shard, row)

    def do_seize(self, seen: Lease, me: str) -> Lease | None:
        """A lease that had expired may have been renewed since."""
        row = self.shards.get(seen.shard)
        if (
            seen.owner
            and seen.seconds_left <= 0
            and row is not None
            and self._read_lease(seen.shard, row).seconds_left > 0
        ):
            self._laws.seen["lease renewed in time"] += 1
            return None
        return self.do_change_owner(seen, me)

    def do_change_owner(self, seen: Lease, heir: str) -> Lease | None:
        if not self.owns(seen):
            return None
        self._laws.seen["taken over"] += self.has_work(seen.shard)
        return self._set_owner(seen.shard, heir)

    def owns(self, lease: Lease) -> bool:
        row = self.shards.get(lease.shard)
        return row is not None and not row.is_retired and (row.owner, row.epoch) == (lease.owner, lease.epoch)

    def do_retire(self, mine: Lease) -> bool:
        if not self.owns(mine) or self.has_work(mine.shard):
            return False
        self._set_owner(mine.shard, "")
        self.shards[mine.shard].is_retired = True
        self._laws.seen["shard retired"] += 1
        return True

    # Jobs

    def do_open(self, mine: Lease) -> Recovered:
        if not self.owns(mine):
            raise ShardLost("another foreman owns this shard")
        self.store.drop_uploads(mine.shard)
        return self.store.recover(mine.shard)

    def do_draw_number(self) -> JobId:
        self._last_job += 1
        return JobId(self._last_job)

    def do_find_shard(self, job: JobId) -> int | None:
        shard = self.store.shards.get(job)
        return shard if shard is None or not self.shards[shard].is_retired else NO_SHARD

    def do_commit(self, mine: Lease, process: str, number: int, records: Sequence[Record]) -> frozenset[AttemptKey]:
        """Raises: ShardLost, StoreError."""
        if self.has_fence and not self.owns(mine):
            raise ShardLost("another foreman owns this shard")
        key = (mine.shard, mine.epoch, number)
        if self.knows_commits and key in self._commits:
            raise StoreError("this commit was ruled out")
        self._check_keys(records)
        self._check_fence(mine, process, records)
        lost = run_sync(self.store.commit([_scope(record, mine.shard) for record in records]))
        self._commits[key] = lost
        self._note(mine.shard, records)
        self._laws.on_commit(records, lost)
        return lost

    def _check_keys(self, records: Sequence[Record]) -> None:
        """Raises: SubmittedBefore."""
        keys = {record.job: record.key for record in records if isinstance(record, JobAdded)}
        earlier: dict[int, int] = {job: self.store.keys[key] for job, key in keys.items() if key in self.store.keys}
        if earlier:
            self._laws.seen["submitted at two foremen"] += 1
            raise SubmittedBefore(earlier)

    def _check_fence(self, mine: Lease, process: str, records: Sequence[Record]) -> None:
        author = self._authors.setdefault((mine.shard, mine.epoch), process)
        text = f"{process} commits for shard {mine.shard} in epoch {mine.epoch}"
        require(self.owns(mine), Law.FENCE, f"{text}, which is over")
        require(author == process, Law.FENCE, f"{text}, which is that of {author}")
        for job in (job for record in records for job in _list_jobs(record)):
            shard = self.do_find_shard(job)
            require(shard in (None, NO_SHARD, mine.shard), Law.FENCE, f"{text}, job {job} of shard {shard}")

    def _note(self, shard: int, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, JobAdded):
                self.store.shards[record.job] = shard
                if record.key:
                    self.store.keys[record.key] = record.job
            for job in _list_jobs(record):
                if self.do_find_shard(job) == NO_SHARD:  # adopted: its own shard is retired
                    self.store.shards[job] = shard

    def do_find_out(self, mine: Lease, number: int) -> frozenset[AttemptKey] | None:
        """What a commit returned. None: it was not done, and from now on it cannot be. Raises: ShardLost."""
        if not self.owns(mine):
            raise ShardLost("another foreman owns this shard")
        return self._commits.setdefault((mine.shard, mine.epoch, number), None)


def _scope(record: Record, shard: int) -> Record:
    """Numbers of uploads are those of a shard."""
    if isinstance(record, LinesAdded | LinesDropped | JobAdded) and record.upload:
        return replace(record, upload=shard * UPLOADS + record.upload)
    return record


def _list_jobs(record: Record) -> Sequence[JobId]:
    match record:
        case Claimed(_, attempts) | Began(_, attempts):
            return [attempt.job for attempt in attempts]
        case Ended(attempt):
            return [attempt.job]
        case LinesAdded() | LinesDropped() | ResultsDropped() | JobAdded() | JobForgotten():
            return []
        case _:
            return [record.job]
