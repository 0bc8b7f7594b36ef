"""How the crew stood, out of a keyframe and what has changed since: exactly, or no more than is known."""

import pytest
from msgspec.structs import replace
from tests.sampled_crew import SampledCrew, unpack
from tests.samples import a_sample, damaged
from tests.waiting import run_sync

from gandy.core import requests as ask
from gandy.core import sampled
from gandy.core.model import Counts, JobSpec, JobState
from gandy.core.past_crew import CrewThen, merge_shards, rebuild
from gandy.core.refusal import Refusal
from gandy.core.rows import JobRow
from gandy.core.samples import (
    CONNECTED,
    DRAINING,
    HELD,
    LEFT,
    OPEN,
    SHORT,
    Level,
    SampledJob,
    SampledWorker,
    SampleHead,
    ShardSample,
    StoredSample,
    WorkerChange,
)
from gandy.ids import JobId

SAMPLE, KEYFRAME, HOURLY = Level
RUNNING = JobState.RUNNING


@pytest.fixture
def crew() -> SampledCrew:
    crew = SampledCrew()
    crew.worker("w", slots=9)
    return crew


def keyframe(
    *workers: SampledWorker, jobs: tuple[SampledJob, ...] = (), shard: int = 0, **numbers: int
) -> StoredSample:
    return a_sample(1, 10.0, KEYFRAME, shard, sample=ShardSample(SampleHead(**numbers), jobs, workers))


def then(*samples: StoredSample) -> CrewThen:
    return merge_shards(rebuild(samples), {})


# One shard


def test_each_moment_is_as_it_was(crew: SampledCrew) -> None:
    jobs = [crew.submit(tasks=4) for _ in range(3)]
    expected = {}
    for step in range(40):
        if step < 12:
            crew.end(jobs[step % 3], 1 + step // 3)
        elif step % 5 == 0:
            crew.submit(held=True)
        crew.tick()
        expected[crew.now] = crew.count_jobs()
    for at, counts in expected.items():
        for later in (0.0, 5.0):
            found = crew.look_back(at + later)
            assert {job.job: job.counts for job in found.jobs} == counts
            assert found.unfinished == len(counts)
            assert [(worker.id, worker.slots) for worker in found.workers] == [("w-1", 9)]
            assert found.used == found.workers[0].used == sum(each.assigned for each in counts.values())


def test_what_is_known_of_a_job_is_listed_the_newest_first(crew: SampledCrew) -> None:
    crew.submit(held=True, priority=7)
    crew.submit(tasks=0, is_open=True, has_lines=True)
    crew.submit()
    crew.tick()
    row = JobRow(JobId(1), JobSpec(command="true", name="first", priority=7), RUNNING, False, 4.0, 5.0, Counts())
    samples = run_sync(crew.store.history.find_samples(crew.now))
    third, second, first = merge_shards(rebuild(samples), {JobId(1): row}).jobs
    assert (first.title, first.priority, first.submitted, first.held) == ("first", 7, 4.0, True)
    assert (first.state, first.counts) == (JobState.PAUSED, Counts(waiting=1))
    assert (second.title, second.is_open, second.submitted) == ("", True, 0.0)  # forgotten since
    assert (third.state, third.counts, third.held) == (RUNNING, Counts(assigned=1), False)


def test_workers_are_as_they_were() -> None:
    before, gone = SampledWorker("b-1", 2, 1, CONNECTED), SampledWorker("a/7", 4, 4, CONNECTED | DRAINING, "old box")
    new = SampledWorker("c-1", 8, 0, 0)
    changes = (WorkerChange(0, 3, 2, SHORT), WorkerChange(1, 0, 0, LEFT), WorkerChange(7, 1, 1, CONNECTED))
    change = a_sample(2, 20.0, sample=ShardSample(SampleHead(), (), (new,), changes))
    again = a_sample(3, 30.0, sample=ShardSample(SampleHead(), (), (), (WorkerChange(1, 9, 9, CONNECTED),)))
    first = then(keyframe(before, gone))
    assert [(worker.id, worker.name, worker.draining) for worker in first.workers] == [
        ("b-1", "b", False),
        ("a/7", "old box", True),
    ]
    for found in (then(keyframe(before, gone), change), then(keyframe(before, gone), change, again)):
        assert [(worker.id, worker.slots, worker.used, worker.connected) for worker in found.workers] == [
            ("b-1", 3, 2, False),
            ("c-1", 8, 0, False),
        ]
        assert [bool(worker.problem) for worker in found.workers] == [True, False]


def test_what_is_not_named_is_in_the_numbers(crew: SampledCrew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "MAX_SAMPLED", 2)
    for _ in range(4):
        crew.submit(tasks=2, held=True)
    crew.tick()
    found = crew.look_back()
    assert (len(found.jobs), found.unfinished, found.waiting) == (2, 4, 8)


def test_a_crew_that_was_stopped_is_so(crew: SampledCrew) -> None:
    crew.submit(tasks=2)
    crew.tick()
    crew.keep(crew.sampler.take_last(crew.now + 3))
    found = crew.look_back(crew.now + 5)
    assert (found.is_stopped, found.slots, found.used, found.workers, found.assigned) == (True, 0, 0, (), 2)
    assert not crew.look_back(crew.now).is_stopped


# Damage


def test_behind_a_damaged_sample_only_the_numbers_are_known(crew: SampledCrew) -> None:
    for _ in range(4):
        crew.submit()
        crew.tick()
    samples = list(crew.samples)
    for broken in (
        [samples[0], damaged(samples[1]), samples[2]],
        [samples[0], samples[2]],
        [damaged(samples[0]), samples[1], samples[2]],
        [samples[1], samples[2]],
    ):
        found = then(*broken)
        assert (found.at, found.unfinished, found.jobs, found.workers) == (samples[2].at, 3, (), ())
    assert rebuild([samples[0], damaged(samples[1])]) == []
    assert rebuild([]) == []


# The crew


def test_shards_are_added_up() -> None:
    job = SampledJob(JobId(3), RUNNING, HELD | OPEN, 1, 2, 3, 4, 5, 6)
    numbers = {"unfinished": 1, "waiting": 1, "assigned": 6, "running": 2, "calls_waiting": 1, "workers": 2, "slots": 9}
    worker, other = SampledWorker("w-1", 4, 1, CONNECTED), SampledWorker("v-1", 5, 0, CONNECTED)
    one = keyframe(worker, other, jobs=(job,), shard=1, used=1, **numbers)
    changed = replace(job, job=JobId(5))
    two = replace(keyframe(replace(worker, used=2), jobs=(changed,), shard=2, used=2, **numbers), at=99.0)
    found = then(one, two)
    assert (found.at, found.unfinished, found.waiting, found.assigned, found.running) == (99.0, 2, 2, 12, 4)
    assert (found.calls_waiting, found.connected, found.slots, found.used) == (2, 2, 9, 3)
    assert [job.job for job in found.jobs] == [5, 3]
    assert [(worker.id, worker.slots, worker.used) for worker in found.workers] == [("v-1", 5, 0), ("w-1", 4, 3)]


# Requests


def test_a_client_reads_how_the_crew_stood(crew: SampledCrew) -> None:
    job = crew.submit(tasks=2, name="old")
    crew.tick()
    before = crew.now
    crew.end(job, 1)
    crew.tick()
    found = crew.ask(ask.ReadSample(before + 1.0))
    assert (found.at, found.jobs[0].title, found.jobs[0].counts) == (before, "old", Counts(assigned=2))
    assert crew.ask(ask.ReadSample(crew.now)).jobs[0].counts == Counts(assigned=1, finished=1)
    assert ask.decode_answer(ask.encode(found)) == found


def test_a_job_that_was_forgotten_has_no_name(crew: SampledCrew) -> None:
    job = crew.submit()
    crew.tick()
    before = crew.now
    crew.end(job)
    crew.tick()
    crew.ask(ask.ForgetJobs((job,)))
    assert [(job.job, job.title) for job in crew.ask(ask.ReadSample(before)).jobs] == [(job, "")]


def test_a_moment_before_all_history_is_unknown(crew: SampledCrew) -> None:
    crew.submit()
    crew.tick()
    with pytest.raises(Refusal) as caught:
        crew.ask(ask.ReadSample(50.0))
    assert caught.value.kind == "not_found"


def test_a_client_reads_what_the_crew_did_until_now(crew: SampledCrew) -> None:
    job = crew.submit(tasks=5)
    for task in range(1, 6):
        crew.end(job, task)
        crew.tick()
    found = crew.ask(ask.ListSamples(0.0, 1e6, 1_000))
    assert [point.at for point in found.points] == [110.0, 120.0, 130.0, 140.0, 150.0]
    found = crew.ask(ask.ListSamples(100.0, 150.0, 5))
    assert [point.finished for point in found.points] == pytest.approx([0.1] * 5)
    assert unpack(crew.samples[-1]).head.finished == 5
    assert ask.decode_answer(ask.encode(found)) == found
    for begin, end in ((150.0, 100.0), (200.0, 300.0)):
        assert crew.ask(ask.ListSamples(begin, end)) == ask.Points(())
