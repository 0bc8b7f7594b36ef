"""When a sample is made, at which level, and what it says."""

import pytest
from tests.sampled_crew import SampledCrew, unpack
from tests.served import BAD

from gandy.core import requests as ask
from gandy.core import sampled
from gandy.core.foreman import Batch
from gandy.core.model import AttemptKey, Counts, JobSpec, JobState
from gandy.core.samples import (
    CONNECTED,
    DRAINING,
    GONE,
    HELD,
    LEFT,
    OPEN,
    SHORT,
    LastSample,
    Level,
    SampledJob,
    SampledWorker,
    StoredSample,
    WorkerChange,
)
from gandy.core.workers import WorkerInfo
from gandy.ids import TaskNumber

SAMPLE, KEYFRAME, HOURLY = Level


@pytest.fixture
def crew() -> SampledCrew:
    return SampledCrew()


def levels(crew: SampledCrew) -> list[Level]:
    return [sample.level for sample in crew.samples]


# When


def test_a_crew_at_rest_makes_no_sample(crew: SampledCrew) -> None:
    assert crew.tick() is None
    crew.submit()
    assert crew.tick() is not None
    assert [crew.tick(), crew.tick(300.0), crew.tick(4_000.0)] == [None] * 3


def test_a_task_that_runs_and_nothing_else_makes_no_sample(crew: SampledCrew) -> None:
    crew.worker()
    crew.submit()
    crew.tick()
    assert [crew.tick() for _ in range(100)] == [None] * 100


def test_a_keyframe_is_made_every_five_minutes_and_an_hourly_one_every_hour(crew: SampledCrew) -> None:
    job = crew.submit()
    for place in range(721):
        crew.ask(ask.ReleaseJob(job) if place % 2 else ask.HoldJob(job))
        crew.tick()
    assert levels(crew) == [
        HOURLY if not place % 360 else KEYFRAME if not place % 30 else SAMPLE for place in range(721)
    ]
    assert [sample.number for sample in crew.samples] == list(range(1, 722))
    assert {sample.run for sample in crew.samples} == {1}
    assert [sample.base for sample in crew.samples] == [1 + place // 30 * 30 for place in range(721)]


def test_the_last_changes_before_a_rest_come_into_a_keyframe_and_into_an_hourly_sample(crew: SampledCrew) -> None:
    """Samples between keyframes are dropped first."""
    for _ in range(5):
        crew.submit()
        crew.tick()
    for _ in range(360 * 3):
        crew.tick()
    assert levels(crew) == [HOURLY, *[SAMPLE] * 4, KEYFRAME, HOURLY]
    assert [sample.at - crew.samples[0].at for sample in crew.samples[-2:]] == [300.0, 3_600.0]
    assert [len(unpack(sample).jobs) for sample in crew.samples[-2:]] == [5, 5]


def test_a_sample_that_was_lost_is_followed_by_a_keyframe(crew: SampledCrew) -> None:
    crew.submit()
    crew.tick()
    crew.submit()
    crew.sampler.take(crew.now + 5)
    crew.sampler.on_lost()
    stored, sample = crew.get_tick()
    assert (stored.level, stored.number, stored.run, stored.base) == (KEYFRAME, 3, 3, 3)
    assert [job.job for job in sample.jobs] == [1, 2]


def test_an_hourly_sample_that_was_lost_is_made_again(crew: SampledCrew) -> None:
    """Each shard has one: by these, shards are found."""
    crew.submit()
    assert crew.sampler.take(crew.now) is not None
    crew.sampler.on_lost()
    crew.tick()
    crew.submit()
    crew.tick()
    assert levels(crew) == [HOURLY, SAMPLE]


@pytest.mark.parametrize("step", [-3_600.0, 3_600.0])
def test_a_step_of_the_wall_clock_begins_a_run(crew: SampledCrew, step: float) -> None:
    clocks = crew.foreman.reactor.clocks
    for ahead in (1_000.0, 1_000.5, 1_001.0 + step):
        clocks.wall_ahead = ahead
        crew.submit()
        crew.tick()
    first, second, third = crew.samples
    assert (second.run, second.base, second.at - first.at) == (1, 1, 10.5)
    assert (third.run, third.base, third.level, third.at - second.at) == (3, 3, KEYFRAME, 10.5 + step)
    clocks.wall_ahead = 0.0
    assert crew.tick() is None  # a step alone changes nothing


# Going on


def test_the_history_goes_on_after_a_restart(crew: SampledCrew) -> None:
    crew.worker()
    job = crew.submit()
    crew.end(job)
    crew.tick()
    crew.restart()
    stored, sample = crew.get_tick()
    assert (stored.number, stored.run, stored.level) == (2, 2, KEYFRAME)
    assert sample.head.finished == 2  # in the test, the reactor still counts the first
    assert crew.tick() is None


def test_an_hourly_sample_is_made_when_the_last_one_is_an_hour_old_whatever_starts_meanwhile(crew: SampledCrew) -> None:
    crew.submit()
    crew.tick()
    for _ in range(12):
        crew.restart()
        crew.submit()
        crew.tick(350.0)
    assert levels(crew) == [HOURLY, *[KEYFRAME] * 10, HOURLY, KEYFRAME]


def test_a_shard_without_history_begins_one(crew: SampledCrew) -> None:
    crew.restart()
    crew.submit()
    stored, _ = crew.get_tick()
    assert (stored.number, stored.run, stored.level) == (1, 1, HOURLY)


@pytest.mark.parametrize("hourly", [None, 5_000.0, -5_000.0])
def test_without_an_hourly_sample_of_the_last_hour_the_first_is_one(crew: SampledCrew, hourly: float | None) -> None:
    """One of the future may be that of a clock that was wrong."""
    crew.submit()
    last = StoredSample(0, 7, 7, 7, KEYFRAME, 0.0, b"damaged")
    crew.sampler.resume(LastSample(last, hourly), crew.now)
    stored, sample = crew.get_tick()
    assert (stored.number, stored.level, sample.head.finished) == (8, HOURLY, 0)


def test_a_history_that_is_resumed_at_rest_says_once_how_it_stands(crew: SampledCrew) -> None:
    crew.worker()
    crew.tick()
    crew.restart()
    assert crew.tick() is not None
    assert crew.tick() is None


def test_the_last_sample_names_no_worker(crew: SampledCrew) -> None:
    crew.worker()
    crew.submit(tasks=3)
    crew.tick()
    stored = crew.keep(crew.sampler.take_last(crew.now + 1))
    assert stored is not None
    sample = unpack(stored)
    assert (stored.level, sample.is_last, sample.new) == (KEYFRAME, True, ())
    assert (sample.head.workers, sample.head.slots, sample.head.used, sample.head.assigned) == (0, 0, 0, 2)
    assert [job.job for job in sample.jobs] == [1]
    assert crew.sampler.take_last(crew.now + 2) is None
    assert crew.tick(1.0) is None
    crew.submit()
    stored, sample = crew.get_tick()  # it went on all the same
    assert (stored.level, sample.is_last, [worker.id for worker in sample.new]) == (KEYFRAME, False, ["w-1"])


def test_a_last_sample_may_be_an_hourly_one(crew: SampledCrew) -> None:
    assert crew.sampler.take_last(crew.now) is None
    crew.submit()
    stored = crew.sampler.take_last(crew.now)
    assert stored is not None
    assert stored.level is HOURLY


# Numbers


def test_what_has_happened_is_counted_since_the_history_began(crew: SampledCrew) -> None:
    crew.worker(slots=9)
    job = crew.submit(tasks=6, retries=1, retry_pause=1e3)
    crew.end(job, 1)
    crew.end(job, 2)
    crew.end(job, 3, BAD)
    crew.ask(ask.CancelJob(job, (TaskNumber(4), TaskNumber(5))))
    crew.foreman.batch.add(crew.foreman.reactor.on_refused("w-1", [AttemptKey(job, TaskNumber(6), 1)], crew.now))
    crew.pump()
    head = crew.get_tick()[1].head
    assert (head.finished, head.failed, head.cancelled, head.repeated, head.lost) == (2, 0, 2, 1, 0)
    crew.foreman.on_time(crew.now)
    crew.end(crew.submit(), 1, BAD)
    head = crew.get_tick()[1].head
    assert (head.finished, head.failed, head.cancelled, head.repeated, head.lost) == (2, 1, 2, 1, 0)


def test_attempts_that_were_lost_with_their_worker_are_counted(crew: SampledCrew) -> None:
    crew.worker()
    job = crew.submit()
    crew.foreman.batch.add(crew.foreman.reactor.on_begun("w-1", [AttemptKey(job, TaskNumber(1), 1)], crew.now))
    crew.foreman.batch.add(crew.foreman.reactor.on_gone("w-1", crew.now))
    crew.pump()
    head = crew.get_tick()[1].head
    assert (head.repeated, head.lost) == (1, 1)


def test_calls_that_ended_are_counted_however_they_ended(crew: SampledCrew) -> None:
    crew.submit()
    crew.foreman.switchboard.output.ended += 3
    assert crew.get_tick()[1].head.calls == 3


def test_slots_in_use_are_added_up_over_time(crew: SampledCrew) -> None:
    crew.worker(slots=4)
    job = crew.submit(tasks=3)
    crew.tick()
    for _ in range(4):
        crew.tick()
    crew.end(job, 1)
    assert crew.get_tick()[1].head.used_seconds == 5 * 30 + 20
    crew.now -= 60.0  # of a clock that cannot do so
    crew.submit(held=True)
    assert crew.get_tick()[1].head.used_seconds == 170


def test_sums_are_of_all_jobs_and_workers(crew: SampledCrew, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampled, "MAX_SAMPLED", 2)
    for name in ("a", "b", "c"):
        crew.worker(name)
    for tasks in (1, 2, 3, 4):
        crew.submit(tasks)
    _, sample = crew.get_tick()
    assert (len(sample.jobs), len(sample.new)) == (2, 2)
    head = sample.head
    assert (head.unfinished, head.waiting, head.assigned, head.running) == (4, 4, 6, 0)
    assert (head.workers, head.slots, head.used) == (3, 6, 6)
    crew.foreman.reactor.on_absent("c-1", crew.now)
    head = crew.get_tick()[1].head
    assert (head.workers, head.slots, head.used) == (2, 4, 4)


# Names


def test_a_job_is_named_again_when_it_has_changed(crew: SampledCrew) -> None:
    crew.worker(slots=9)
    first, second = crew.submit(tasks=3, limit=2), crew.submit(held=True)
    running, paused = JobState.RUNNING, JobState.PAUSED
    assert crew.get_tick()[1].jobs == (
        SampledJob(first, running, 0, 1, 0, 0, 0, 0, 2),
        SampledJob(second, paused, HELD, 1, 0, 0, 0, 0, 0),
    )
    crew.foreman.batch.add(crew.foreman.reactor.on_begun("w-1", [AttemptKey(first, TaskNumber(1), 1)], crew.now))
    crew.pump()
    assert crew.get_tick()[1].jobs == (SampledJob(first, running, 0, 1, 1, 0, 0, 0, 1),)
    crew.ask(ask.ReleaseJob(second))
    crew.ask(ask.HoldJob(first))
    crew.ask(ask.ReleaseJob(first))  # which is as before then
    assert crew.get_tick()[1].jobs == (SampledJob(second, running, 0, 0, 0, 0, 0, 0, 1),)
    for task in (1, 2, 3):
        crew.end(first, task)
    _, sample = crew.get_tick()
    assert sample.jobs[0] == SampledJob(first, JobState.FINISHED, GONE, 0, 0, 3, 0, 0, 0)


def test_an_open_job_is_one(crew: SampledCrew) -> None:
    crew.submit(tasks=0, is_open=True, has_lines=True)
    (job,) = crew.get_tick()[1].jobs
    assert job.flags == OPEN


def test_a_job_that_is_back_is_named_again(crew: SampledCrew) -> None:
    crew.worker()
    job = crew.submit(tasks=2)
    crew.tick()
    crew.ask(ask.CancelJob(job))
    crew.ask(ask.RetryJob(job, (TaskNumber(1),)))
    (named,) = crew.get_tick()[1].jobs
    assert (named.flags, named.counts) == (0, Counts(waiting=1, cancelled=1))
    crew.ask(ask.CancelJob(job))
    assert crew.get_tick()[1].jobs[0].flags == GONE
    crew.ask(ask.RetryJob(job))
    (named,) = crew.get_tick()[1].jobs
    assert (named.flags, named.counts) == (0, Counts(waiting=2))


def test_a_job_that_the_store_could_not_keep_is_gone(crew: SampledCrew) -> None:
    _, effects = crew.foreman.reactor.control.submit(JobSpec(command="true", tasks=4), crew.now)
    batch = Batch()
    batch.add(effects)
    assert crew.get_tick()[1].head.waiting == 4
    crew.foreman.on_commit_failed(batch, crew.now)
    _, sample = crew.get_tick()
    assert (sample.head.unfinished, sample.head.waiting, sample.jobs[0].flags) == (0, 0, GONE)


def test_jobs_that_came_and_went_between_two_samples_are_in_the_numbers_only(crew: SampledCrew) -> None:
    crew.worker(slots=9)
    crew.submit(held=True)
    crew.tick()
    for _ in range(5):
        crew.end(crew.submit())
    _, sample = crew.get_tick()
    assert (sample.jobs, sample.head.finished, sample.head.unfinished) == ((), 5, 1)


def test_the_jobs_that_keep_most_workers_busy_are_named_first(
    crew: SampledCrew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampled, "MAX_SAMPLED", 3)
    jobs = [crew.submit(tasks) for tasks in (1, 1, 1, 1, 5, 3)]
    assert [job.job for job in crew.get_tick()[1].jobs] == jobs[:3]
    crew.worker(slots=12)
    crew.submit(held=True)
    stored, sample = crew.get_tick()
    assert [job.job for job in sample.jobs] == jobs[:3]  # there is no room for more until the next keyframe
    crew.now += 300.0
    stored, sample = crew.get_tick()
    assert (stored.level, [job.job for job in sample.jobs][:2]) == (KEYFRAME, [jobs[4], jobs[5]])


def test_a_place_that_is_free_goes_to_the_busiest_of_the_others(
    crew: SampledCrew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sampled, "MAX_SAMPLED", 1)
    crew.worker(slots=4)
    first = crew.submit()
    crew.tick()
    crew.submit(tasks=1)
    third = crew.submit(tasks=2)
    crew.end(first)
    _, sample = crew.get_tick()
    assert [(job.job, job.flags) for job in sample.jobs] == [(first, GONE), (third, 0)]


def test_a_worker_is_named_once_and_then_its_changes(crew: SampledCrew) -> None:
    crew.worker("w", slots=2)
    assert crew.get_tick()[1].new == (SampledWorker("w-1", 2, 0, CONNECTED),)
    crew.worker("v", slots=4)
    job = crew.submit(tasks=9)
    _, sample = crew.get_tick()
    assert (sample.new, sample.changed) == (
        (SampledWorker("v-1", 4, 4, CONNECTED),),
        (WorkerChange(0, 2, 2, CONNECTED),),
    )
    crew.foreman.reactor.on_capacity("w-1", 1, 0, "memory")
    crew.foreman.reactor.drain("v-1")
    crew.foreman.reactor.on_absent("w-1", crew.now)
    _, sample = crew.get_tick()
    assert sample.changed == (WorkerChange(0, 1, 1, SHORT), WorkerChange(1, 4, 4, CONNECTED | DRAINING))
    crew.foreman.batch.add(crew.foreman.reactor.on_gone("w-1", crew.now))
    crew.pump()
    crew.worker("w", slots=3)
    _, sample = crew.get_tick()
    assert sample.changed == (WorkerChange(0, 3, 3, CONNECTED),)  # back before it was missed
    crew.foreman.batch.add(crew.foreman.reactor.on_gone("w-1", crew.now))
    _, sample = crew.get_tick()
    assert sample.changed == (WorkerChange(0, 0, 0, LEFT),)
    assert job in crew.count_jobs()


def test_a_name_that_is_not_in_the_id_is_kept(crew: SampledCrew) -> None:
    crew.foreman.reactor.on_hello(WorkerInfo("roundrobin/7", "old box", 1), (), crew.now)
    (worker,) = crew.get_tick()[1].new
    assert (worker.id, worker.name) == ("roundrobin/7", "old box")


def test_no_history_costs_no_memory() -> None:
    """Jobs that have changed are noted only if samples are made."""
    crew = SampledCrew()
    crew.foreman.reactor.jobs.changed = None
    crew.submit()
    assert crew.foreman.reactor.jobs.changed is None
