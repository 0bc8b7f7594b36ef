"""A served foreman of which samples are made, as often as a test lets time pass, and kept in its store."""

from collections import deque
from collections.abc import Sequence

from tests.served import OK, ServedForeman
from tests.waiting import run_sync

from gandy.core import requests as ask
from gandy.core.effects import Reply
from gandy.core.model import AttemptKey, Counts, JobSpec
from gandy.core.past_crew import CrewThen, merge_shards, rebuild
from gandy.core.records import Claimed, Record
from gandy.core.samples import ShardSample, StoredSample, decode_sample
from gandy.core.sampling import Sampler
from gandy.ids import JobId


class SampledCrew(ServedForeman):
    """`samples` has all that were made; those that are `lost` are not kept."""

    def __init__(self) -> None:
        super().__init__()
        self.sampler = Sampler(self.foreman, self.now)
        self.samples: list[StoredSample] = []

    def restart(self) -> None:
        """Another foreman goes on with the history."""
        self.sampler = Sampler(self.foreman, self.now)
        self.sampler.resume(run_sync(self.store.history.find_last(self.foreman.shard)), self.now)

    def submit(self, tasks: int = 1, **changes: object) -> JobId:
        spec = JobSpec(command="true", tasks=tasks, **changes)  # type: ignore[arg-type]
        job: JobId = self.ask(ask.Submit(spec)).job
        return job

    def tick(self, seconds: float = 10.0) -> StoredSample | None:
        """Time passes, and the next sample is made and kept."""
        self.now += seconds
        self.standing.now = self.now
        return self.keep(self.sampler.take(self.now))

    def keep(self, sample: StoredSample | None) -> StoredSample | None:
        if sample is not None:
            self.samples.append(sample)
            run_sync(self.store.history.add_samples([sample]))
        return sample

    def get_tick(self, seconds: float = 10.0) -> tuple[StoredSample, ShardSample]:
        """The same, where there must be a sample; and what it says."""
        stored = self.tick(seconds)
        assert stored is not None
        return stored, unpack(stored)

    def look_back(self, at: float | None = None) -> CrewThen:
        """How the crew stood, out of what is kept."""
        found = run_sync(self.store.history.find_samples(self.now if at is None else at))
        return merge_shards(rebuild(found), {})

    def count_jobs(self) -> dict[int, Counts]:
        return {job.id: job.tasks.counts for job in self.foreman.reactor.jobs}


class BusyCrew(SampledCrew):
    """A crew whose workers end as many tasks as a test says, in the order in which they got them. Nothing is sent."""

    def __init__(self, workers: int, slots: int) -> None:
        super().__init__()
        self.on_commit = self._note_claims
        self._given: deque[tuple[str, AttemptKey]] = deque()
        for place in range(workers):
            self.worker(f"w{place}", slots)

    def _note_claims(self, records: Sequence[Record]) -> None:
        for record in records:
            if isinstance(record, Claimed):
                self._given.extend((record.worker, attempt) for attempt in record.attempts)

    def pump(self) -> None:
        """Commit the decisions, and answer requests."""
        while self.foreman.has_work:
            batch = self.foreman.take_batch(self.now)
            run_sync(self.store.commit(batch.records))
            self.on_commit(batch.records)
            self.replies |= {send.token: send.value for send in batch.sends if isinstance(send, Reply)}

    def finish(self, count: int) -> None:
        """So many tasks end, and the workers get others."""
        while count:
            part = [self._given.popleft() for _ in range(min(count, len(self._given)))]
            assert part, "no worker has a task"
            for worker in dict.fromkeys(worker for worker, _ in part):
                ended = [(attempt, OK) for name, attempt in part if name == worker]
                self.foreman.batch.add(self.foreman.reactor.on_results(worker, ended, self.now))
            self.pump()
            count -= len(part)


def unpack(stored: StoredSample) -> ShardSample:
    sample = decode_sample(stored.packed)
    assert sample is not None
    return sample
