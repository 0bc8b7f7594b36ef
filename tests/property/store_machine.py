"""A foreman whose disk fills and empties at any time: after each commit, the store and its memory tell the same.

While the disk is full, a batch fails once, and what is left of it without new work is committed, as a store with a
reserve does it. No number of a job comes twice, and no attempt is made that the store does not know.
"""

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st
from hypothesis.stateful import rule
from tests.property.reactor_machine import ReactorMachine
from tests.waiting import run_sync

from gandy.core.effects import Effect, Give, KillAttempts, Recall
from gandy.core.foreman import Batch, Foreman
from gandy.core.jobs import ActiveJob
from gandy.core.records import Claimed, JobAdded, LinesAdded, Record, TasksAdded
from gandy.core.withdrawal import Withdrawal
from gandy.ids import JobId
from gandy.store.memory import MemoryStore


class StoreMachine(ReactorMachine):
    def __init__(self) -> None:
        super().__init__()
        self.foreman = Foreman(self.reactor, 0.0)
        self.store = MemoryStore()
        self.is_full = False
        self.is_slow = False
        self.under_way: Batch | None = None  # a commit that takes a while
        self.numbers: set[JobId] = set()

    def take(self, effects: Iterable[Effect]) -> None:
        self.foreman.batch.add(self.number(effect) for effect in effects)

    def number(self, effect: Effect) -> Effect:
        if isinstance(effect, JobAdded):
            assert effect.job not in self.numbers, "no number is given twice"
            self.numbers.add(effect.job)
        return effect

    def list_final(self) -> list[ActiveJob]:
        """No client has heard of the others."""
        return [job for job in super().list_final() if run_sync(self.store.find_job(job.id)) is not None]

    @rule(is_full=st.booleans(), is_slow=st.booleans())
    def change_disk(self, is_full: bool, is_slow: bool) -> None:
        self.is_slow = is_slow
        if self.is_full and not is_full:
            self.foreman.on_store_ready(self.now)
        self.is_full = is_full

    def commit(self) -> None:
        if self.under_way is None:
            self.under_way = self.foreman.take_batch(self.now)
            if self.is_slow:
                return
        batch, self.under_way = self.under_way, None
        if self.is_full and batch.records:
            self.fail(batch)
        super().take(batch.records)
        assert not run_sync(self.store.commit(batch.records)), "every claim is good"
        self.compare()
        for send in batch.sends:
            if isinstance(send, Give | KillAttempts | Recall):
                self.perform(send)
        self.on_records(batch.records)

    def on_records(self, records: Sequence[Record]) -> None:
        """The store has these."""

    def on_withdrawal(self, new: Withdrawal) -> None:
        """The store could not keep this."""

    def fail(self, batch: Batch) -> None:
        self.on_withdrawal(self.foreman.on_commit_failed(batch, self.now))
        self.reactor.check()
        assert not any(isinstance(record, JobAdded | TasksAdded | LinesAdded) for record in batch.records)
        assert not any(map(self.holds_current, batch.records))
        assert not self.foreman.batch
        again = self.foreman.on_commit_failed(batch, self.now)
        assert not again, "all new work is withdrawn at once"

    def holds_current(self, record: object) -> bool:
        return isinstance(record, Claimed) and any(attempt in self.reactor.owners for attempt in record.attempts)

    def compare(self) -> None:
        if self.foreman.batch.records:
            return
        for job in self.reactor.jobs:
            row = run_sync(self.store.find_job(job.id))
            assert row is not None, f"the store does not know job {job.id}"
            assert (row.counts, row.state, row.held) == (job.tasks.counts, job.state, job.held)
            assert (row.spec.tasks, row.spec.is_open) == (job.tasks.count, job.is_open)
        kept = run_sync(self.store.open()).jobs
        assert {found.row.job for found in kept} == {job.id for job in self.reactor.jobs}

    def teardown(self) -> None:
        self.change_disk(is_full=False, is_slow=False)
        super().teardown()
