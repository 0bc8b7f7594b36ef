"""A viewer that gets everything once and then only changes sees what a viewer sees that comes now.

Whatever people, workers and the disk do in any order, with limits so small that much is left for later updates.
"""

from collections.abc import Sequence
from copy import deepcopy
from unittest.mock import patch

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import precondition, rule
from tests.property.reactor_machine import choices
from tests.property.store_machine import StoreMachine
from tests.waiting import run_sync

from gandy.core import job_view, live_view, spans, task_view
from gandy.core.jobs import ActiveJob
from gandy.core.live_view import LiveView
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.records import JobForgotten, Record
from gandy.core.standing import Standing
from gandy.core.task_view import FIRST, TaskViews
from gandy.core.views import Span, find_bucket, find_lower_bound
from gandy.core.withdrawal import Withdrawal
from gandy.ids import JobId
from gandy.limits import LAST_INTEGER, MAX_BUCKETS
from gandy.viewer.picture import Picture
from gandy.viewer.states import TaskStates

EVERYTHING = 10_000  # tasks; more than any job has
FEW_JOBS = 2
FEW = (
    (spans, "MAX_SPANS", 2),
    (spans, "MAX_GLANCES", 1),
    (spans, "ROOM", 1),
    (job_view, "MAX_GLANCES", FEW_JOBS),
    (job_view, "MAX_PAGE", 1),
    (live_view, "MANY_WORKERS", 1),
    (task_view, "MAX_RUNS", 3),
)


class ViewMachine(StoreMachine):
    def __init__(self) -> None:
        super().__init__()
        self.patches = [patch.object(*each) for each in FEW]
        for each in self.patches:
            each.start()
        self.view = LiveView(self.foreman, Standing())
        self.jobs = TaskViews(self.reactor.jobs.find)
        self.seen_states: dict[JobId, TaskStates] = {}
        self.picture = Picture()
        self.picture.apply(self.view.make_whole(self.now, None), self.now)

    def list_final(self) -> list[ActiveJob]:
        """They come from the store: no object that was in memory comes back."""
        return [deepcopy(job) for job in super().list_final()]

    def on_records(self, records: Sequence[Record]) -> None:
        self.view.on_records(records)
        self.jobs.on_records(records)

    def on_withdrawal(self, new: Withdrawal) -> None:
        self.view.on_withdrawal(new)
        for job in self.jobs.on_withdrawal(new):
            self.jobs.close(job)
            del self.seen_states[job]

    @precondition(lambda self: bool(self.list_final()))
    @rule(choice=choices)
    def forget(self, choice: int) -> None:
        final = self.list_final()
        job = final[choice % len(final)].id
        del self.seen[job]
        self.take([JobForgotten(job)])

    @rule(choice=choices)
    def watch_tasks(self, choice: int) -> None:
        jobs = [job.id for job in self.reactor.jobs]
        job = jobs[choice % len(jobs)] if jobs else JobId(0)
        view = self.jobs.open(job)
        if view is not None and job not in self.seen_states:
            states = self.seen_states[job] = TaskStates()
            states.apply(view.make_whole())

    @rule()
    def look(self) -> None:
        """At all that there is for now."""
        self.now += 2 * live_view.LOOK_PERIOD
        while (update := self.view.take(self.now, None)) is not None:
            self.picture.apply(update, self.now)
        self.look_at_tasks()
        if not (self.under_way or self.foreman.batch.records):
            self.compare_pictures()

    def look_at_tasks(self) -> None:
        for job, states in list(self.seen_states.items()):
            view = self.jobs.find(job)
            assert view is not None
            update = view.take()
            if update is not None:
                states.apply(update)
            if states.is_final:
                self.jobs.close(job)
                del self.seen_states[job]

    def compare_pictures(self) -> None:
        whole = self.view.make_whole(self.now, None)
        now = Picture()
        now.apply(whole, self.now)
        assert len(now.jobs) == min(len(self.reactor.jobs), FEW_JOBS)
        assert {job: self.picture.jobs[job] for job in now.jobs} == now.jobs
        unfinished = {job for job, glance in self.picture.jobs.items() if glance.state not in FINAL_JOB_STATES}
        assert unfinished == {job.id for job in self.reactor.jobs}
        self.compare_with_store()
        assert list(self.picture.list_workers()) == list(now.list_workers())
        assert list_running(self.picture) == list_running(now)
        last = self.picture.shards[0]
        for what in ("waiting", "assigned", "running", "unfinished", "totals"):
            assert getattr(last, what) == getattr(whole, what), what
        counts = [job.tasks.counts for job in self.reactor.jobs]
        assert (last.waiting, last.running) == (sum(c.waiting for c in counts), sum(c.running for c in counts))
        for job, states in self.seen_states.items():
            assert bytes(states.packed) == self.reactor.jobs.get(job).tasks.copy_states(FIRST, EVERYTHING)

    def compare_with_store(self) -> None:
        for job, glance in self.picture.jobs.items():
            row = run_sync(self.store.find_job(job))
            assert row is not None, "what was forgotten or withdrawn is not shown"
            assert (glance.counts, glance.state, glance.held) == (row.counts, row.state, row.held)

    def teardown(self) -> None:
        super().teardown()
        self.look()
        assert not self.picture.count("running") + self.picture.count("unfinished")
        for each in self.patches:
            each.stop()


def list_running(picture: Picture) -> dict[tuple[int, int, int], Span]:
    running = (placed.span for placed in picture.lanes if placed.span.ended is None)
    return {(span.job, span.task, span.attempt): span for span in running}


TestViews = ViewMachine.TestCase
TestViews.settings = settings(max_examples=150, stateful_step_count=60)


@given(st.integers(0, LAST_INTEGER))
def test_a_number_lies_in_its_bucket_and_in_no_other(value: int) -> None:
    bucket = find_bucket(value)
    assert find_lower_bound(bucket) <= value < find_lower_bound(bucket + 1)
    assert bucket < MAX_BUCKETS


@given(st.integers(0, MAX_BUCKETS - 1))
def test_a_bucket_is_at_most_a_quarter_wider_than_its_lower_bound(bucket: int) -> None:
    lower, upper = find_lower_bound(bucket), find_lower_bound(bucket + 1)
    assert find_bucket(lower) == bucket
    assert 1 <= upper - lower <= max(1, lower / 4)
