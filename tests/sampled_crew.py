"""A served foreman of which samples are made, as often as a test lets time pass, and kept in its store."""

from tests.served import ServedForeman
from tests.waiting import run_sync

from gandy.core import requests as ask
from gandy.core.model import Counts, JobSpec
from gandy.core.past_crew import CrewThen, merge_shards, rebuild
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


def unpack(stored: StoredSample) -> ShardSample:
    sample = decode_sample(stored.packed)
    assert sample is not None
    return sample
