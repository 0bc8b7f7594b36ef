"""Whatever happens, the history says of each moment what was true then, and its curves have all that was counted."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import invariant, rule
from tests.property.reactor_machine import ReactorMachine
from tests.samples import a_sample
from tests.waiting import run_sync

from gandy.core.foreman import Foreman
from gandy.core.model import Counts
from gandy.core.past_crew import CrewThen, merge_shards, rebuild
from gandy.core.past_points import Grid, make_points
from gandy.core.samples import Level
from gandy.core.sampling import Sampler
from gandy.ids import JobId
from gandy.store.history import NEAR
from gandy.store.memory_history import MemoryHistory


class HistoryMachine(ReactorMachine):
    """A crew of which samples are made, some of which are lost, by a clock that is stepped now and then."""

    def __init__(self) -> None:
        super().__init__()
        self.foreman = Foreman(self.reactor, self.now)
        self.sampler = Sampler(self.foreman, self.now)
        self.history = MemoryHistory()
        self.kept: list[tuple[float, dict[JobId, Counts], dict[str, tuple[int, int]]]] = []
        self.at = 0.0  # of the last sample
        self.has_overlaps = False
        self.is_losing = False  # the next sample cannot be written

    @invariant()
    def sample(self) -> None:
        """After each step, whatever the time."""
        self.now += 0.001
        sample = self.sampler.take(self.now)
        if self.is_losing:
            self.is_losing = False
            self.sampler.on_lost()
            return
        if sample is not None:
            run_sync(self.history.add_samples([sample]))
            self.at = float(sample.at)
        self.note()
        assert_same(self.look_back(self.at), *self.kept[-1][1:])

    @rule(seconds=st.sampled_from([300.0, 3_600.0]))
    def rest(self, seconds: float) -> None:
        self.wait(seconds)

    @rule()
    def lose_next(self) -> None:
        self.is_losing = True

    def note(self) -> None:
        """A sample was made, or nothing has changed since the last one."""
        jobs = {job.id: job.tasks.counts for job in self.reactor.jobs}
        workers = {worker.info.id: (worker.all_slots, worker.slots.busy) for worker in self.reactor.workers}
        self.kept.append((self.get_wall(), jobs, workers))

    def get_wall(self) -> float:
        return float(self.reactor.clocks.stamp(self.now))

    def look_back(self, at: float) -> CrewThen | None:
        shards = rebuild(run_sync(self.history.find_samples(at)))
        return merge_shards(shards, {}) if shards else None

    @rule(seconds=st.sampled_from([-50_000.0, -30.0, 0.5, 30.0, 50_000.0]))
    def step_clock(self, seconds: float) -> None:
        self.reactor.clocks.wall_ahead += seconds
        self.has_overlaps = self.has_overlaps or seconds < 0

    @rule(is_clean=st.booleans())
    def restart(self, is_clean: bool) -> None:
        """Another foreman goes on with the history; what has happened since the last sample is in its first one."""
        self.wait(2.0)
        last = self.sampler.take_last(self.now) if is_clean else None
        if last is not None:
            run_sync(self.history.add_samples([last]))
        self.sampler = Sampler(self.foreman, self.now)
        self.sampler.resume(run_sync(self.history.find_last(0)), self.now)

    @invariant()
    def past_stays_as_it_was(self) -> None:
        if self.has_overlaps or not self.kept:
            return
        for at, jobs, workers in (self.kept[0], self.kept[len(self.kept) // 2]):
            assert_same(self.look_back(at), jobs, workers)


def assert_same(then: CrewThen | None, jobs: dict[JobId, Counts], workers: dict[str, tuple[int, int]]) -> None:
    if then is None:
        assert (jobs, workers) == ({}, {})
        return
    assert {job.job: job.counts for job in then.jobs} == jobs
    assert {worker.id: (worker.slots, worker.used) for worker in then.workers} == workers
    total = Counts()
    for counts in jobs.values():
        total.add(counts)
    numbers = then.unfinished, then.waiting, then.assigned, then.running
    assert numbers == (len(jobs), total.waiting, total.assigned, total.running)


TestHistory = HistoryMachine.TestCase
TestHistory.settings = settings(max_examples=60, stateful_step_count=60)


gaps = st.one_of(st.just(10.0), st.floats(5.0, 15.0), st.floats(15.0, 5_000.0), st.floats(-500.0, 0.0))
spans = st.lists(st.tuples(gaps, st.integers(0, 1_000)), min_size=1, max_size=40)


@given(spans, st.floats(10.0, 2_000.0))
def test_a_curve_has_all_that_was_counted(spans: list[tuple[float, int]], step: float) -> None:
    at, total, samples = 0.0, 0, []
    for number, (gap, count) in enumerate(spans, 2):
        at, total = at + gap, total + count
        samples.append(a_sample(number, at, finished=total))
    times = [sample.at for sample in samples]
    points = make_points(Grid(Level.SAMPLE, min(times) - NEAR, max(times) + step, step), samples)
    counted = total - spans[0][1]  # the first one only says where to begin
    assert sum(point.finished * point.seconds for point in points) == pytest.approx(counted, rel=1e-4, abs=0.1)
    assert all(point.finished >= 0 for point in points)
    assert sorted(point.at for point in points) == [point.at for point in points]
