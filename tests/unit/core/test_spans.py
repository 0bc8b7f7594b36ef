"""Attempts as spans: where and when each ran, and which of many are shown."""

import pytest
from tests.unit.core.played import key

from gandy.core import spans as subject
from gandy.core.held import Held
from gandy.core.model import AttemptKey, Cause, Ending, TaskState
from gandy.core.records import Began, Claimed, Ended, Record
from gandy.core.spans import Spans
from gandy.core.views import Span, Totals
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.limits import MAX_GLANCES, MAX_SPANS

OK = Ending(cause=Cause.EXIT, exit_code=0)
RUNNING, FINISHED = TaskState.RUNNING, TaskState.FINISHED


class Watched:
    """Spans of one crew, and the workers that hold its attempts."""

    def __init__(self, *workers: KnownWorker) -> None:
        self.workers = list(workers)
        self.totals = Totals()
        self.spans = Spans(self.workers, 1_000.0)

    def note(self, *records: Record) -> None:
        self.spans.on_records(records, self.totals)

    def take(self) -> list[Span]:
        spans, skipped = self.spans.take(1_000.0)
        assert not skipped
        return list(spans)


def a_worker(name: str = "w", *held: AttemptKey) -> KnownWorker:
    worker = KnownWorker(WorkerInfo(name, name, 4), connected=True)
    for attempt in held:
        worker.held.take(attempt, Held(1, 5.0))
    return worker


def claimed(*tasks: int, worker: str = "w", state: TaskState = TaskState.ASSIGNED) -> Claimed:
    return Claimed(worker, tuple(map(key, tasks)), 10.0, state)


def began(*tasks: int, worker: str = "w", at: float = 11.0) -> Began:
    return Began(worker, tuple(map(key, tasks)), at)


def ended(task: int = 1, state: TaskState = FINISHED, at: float = 20.0, ending: Ending = OK) -> Ended:
    return Ended(key(task), ending, state, at)


def a_span(
    task: int, state: TaskState, begin: float, end: float | None = None, memory: int = 0, worker: str = "w"
) -> Span:
    return Span(worker, *key(task), state, begin, end, memory)


def timed(started: float, ended: float, memory: int | None = None) -> Ending:
    return Ending(cause=Cause.EXIT, exit_code=0, started=started, ended=ended, peak_memory_bytes=memory)


def test_an_attempt_is_shown_as_it_begins_and_as_it_ends() -> None:
    watched = Watched()
    watched.note(claimed(1))
    assert watched.take() == []
    watched.note(began(1))
    assert watched.take() == [a_span(1, RUNNING, 11.0)]
    watched.note(ended(1))
    assert watched.take() == [a_span(1, FINISHED, 11.0, 20.0)]
    assert watched.take() == []


def test_a_plain_worker_begins_what_it_is_given() -> None:
    watched = Watched()
    watched.note(claimed(1, state=RUNNING))
    assert watched.take() == [a_span(1, RUNNING, 10.0)]


def test_a_short_attempt_is_shown_once() -> None:
    watched = Watched()
    watched.note(claimed(1), began(1), ended(1, ending=timed(1.0, 4.0, memory=77)))
    assert watched.take() == [a_span(1, FINISHED, 17.0, 20.0, 77)]


def test_reports_in_one_batch_are_as_far_apart_as_the_attempts() -> None:
    watched = Watched()
    watched.note(claimed(1, 2))
    watched.note(ended(1, at=50.0, ending=timed(40.0, 41.0)), ended(2, at=50.0, ending=timed(41.0, 42.5)))
    assert [(span.began, span.ended) for span in watched.take()] == [(49.0, 50.0), (48.5, 50.0)]
    watched.note(claimed(3, 4))
    watched.note(ended(3, at=60.0, ending=timed(50.0, 51.0)), ended(4, at=60.0, ending=timed(51.0, 52.5)))
    assert [(span.began, span.ended) for span in watched.take()] == [(57.5, 58.5), (58.5, 60.0)]


def test_a_worker_whose_clock_is_set_is_believed_again() -> None:
    watched = Watched()
    for task, ending in ((1, timed(39.0, 40.0)), (2, timed(9_039.0, 9_040.0)), (3, timed(1.0, 2.0))):
        watched.note(claimed(task), ended(task, at=50.0, ending=ending))
        assert [(span.began, span.ended) for span in watched.take()] == [(49.0, 50.0)]


def test_a_clock_that_goes_back_while_a_task_runs_makes_no_span_that_ends_before_it_begins() -> None:
    watched = Watched()
    watched.note(claimed(1), ended(1, ending=timed(9.0, 4.0)))
    assert watched.take() == [a_span(1, FINISHED, 20.0, 20.0)]


def test_what_never_began_is_counted_and_not_shown() -> None:
    watched = Watched()
    watched.note(claimed(1, 2), ended(1, TaskState.CANCELLED, ending=Ending(cause=Cause.CANCELLED)))
    watched.note(ended(2, TaskState.WAITING, ending=Ending(cause=Cause.WORKER_LOST)))
    watched.note(ended(9, ending=timed(1.0, 2.0)))  # given out before we looked, and its worker is gone
    assert watched.take() == []
    assert watched.totals == Totals(finished=1, cancelled=1, repeated=1, lost=1)


def test_each_end_is_counted_by_what_it_led_to() -> None:
    watched, lost = Watched(), Ending(cause=Cause.WORKER_LOST)
    watched.note(ended(1), ended(2), ended(3, TaskState.FAILED), ended(4, TaskState.FAILED, ending=lost))
    watched.note(ended(5, TaskState.WAITING), ended(6, TaskState.WAITING, ending=Ending(cause=Cause.RETURNED)))
    watched.note(ended(7, TaskState.CANCELLED))
    assert watched.totals == Totals(finished=2, failed=2, cancelled=1, repeated=1, lost=1)


def test_what_a_plain_worker_gives_back_does_not_run_any_more() -> None:
    watched, returned = Watched(), ended(1, TaskState.WAITING, ending=Ending(cause=Cause.RETURNED))
    watched.note(claimed(1, state=RUNNING))
    watched.take()
    watched.note(returned)
    assert [span.state for span in watched.take()] == [TaskState.WAITING]
    watched.note(claimed(1, state=RUNNING), returned)
    assert watched.take() == []
    assert watched.totals == Totals()


def test_attempts_from_before_are_known() -> None:
    worker = a_worker("w", key(1), key(2))
    worker.held.begun.add(key(1))
    watched = Watched(worker)
    assert watched.spans.list_running() == (a_span(1, RUNNING, 1_005.0),)
    watched.note(ended(2, ending=timed(1.0, 3.0)))
    assert watched.take() == [a_span(2, FINISHED, 18.0, 20.0)]


def test_an_attempt_moves_to_the_worker_that_reports_it_for_a_former_one() -> None:
    watched = Watched()
    watched.note(claimed(1, 2, 3), began(1, 2))
    watched.take()
    watched.spans.on_worker(a_worker("heir", key(1), key(3), key(9)))
    assert watched.take() == [a_span(1, RUNNING, 11.0, worker="heir")]
    watched.note(ended(3, ending=timed(1.0, 2.0)))
    assert [span.worker for span in watched.take()] == ["heir"]
    watched.spans.on_worker(a_worker("heir", key(1)))
    assert watched.take() == []


def test_a_worker_that_left_has_no_clock() -> None:
    watched = Watched()
    watched.note(claimed(1), ended(1, ending=timed(1.0, 2.0)))
    watched.spans.on_left("w")
    watched.spans.on_left("w")
    watched.note(claimed(2), ended(2, at=21.0, ending=timed(1.0, 2.0)))
    assert [span.ended for span in watched.take()] == [20.0, 21.0]


# Many


def test_of_many_short_attempts_some_are_shown_and_the_others_counted() -> None:
    watched, many = Watched(), range(1, MAX_SPANS + 8)
    watched.note(claimed(*many), *(ended(task, ending=timed(1.0, 2.0)) for task in many))
    spans, skipped = watched.spans.take(0.0)
    assert (len(spans), skipped, watched.totals.finished) == (MAX_SPANS, 7, len(many))
    assert watched.take() == []


def test_those_that_begin_are_all_shown_one_update_after_the_other() -> None:
    watched, many = Watched(), range(1, MAX_SPANS + 8)
    watched.note(claimed(*many), began(*many))
    assert [len(watched.take()) for _ in range(3)] == [MAX_SPANS, 7, 0]


def test_an_attempt_that_was_shown_running_is_shown_when_it_ends_however_many_do() -> None:
    watched, many = Watched(), range(1, MAX_GLANCES + 8)
    watched.note(claimed(*many), began(*many))
    assert len(watched.spans.list_running()) == len(many)
    watched.note(*(ended(task) for task in many))
    assert [len(watched.take()) for _ in range(3)] == [MAX_GLANCES, 7, 0]


def test_a_viewer_that_comes_sees_as_many_as_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_PAGE", 3)
    watched = Watched()
    watched.note(claimed(*range(1, 6)), began(*range(1, 5)))
    assert len(watched.spans.list_running()) == 3
    long = "w" * 250
    monkeypatch.setattr(subject, "SPAN_BYTES", 4_000_000)
    watched.note(claimed(7, worker=long))
    assert len(watched.spans.list_running()) == 1


def test_claims_that_have_no_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "ROOM", 2)
    watched = Watched(a_worker("w", key(1)))
    watched.note(claimed(1, 2, 3, 4, 5), began(4))
    watched.take()
    assert watched.spans._places.keys() == {key(1), key(4)}  # the end of the fourth may be near
    watched.note(ended(4))
    assert [span.state for span in watched.take()] == [FINISHED]
