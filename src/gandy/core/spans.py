"""Attempts as spans of time on a worker, for viewers: those that run, and those that have just ended.

Of many short attempts only some become spans; the others are counted. An attempt that viewers were told to run is among
the spans when it ends, however many there are.
"""

from collections.abc import Iterable, Sequence
from itertools import chain, islice
from typing import Final, NamedTuple

from gandy.core.model import AttemptKey, Cause, TaskState
from gandy.core.records import Began, Claimed, Ended, Record
from gandy.core.rows import CHARACTER_BYTES, take_page
from gandy.core.views import Span, Totals
from gandy.core.workers import KnownWorker
from gandy.limits import MAX_GLANCES, MAX_PAGE, MAX_SPANS
from gandy.moments import Monotonic, Wall

ROOM: Final = 1_000  # attempts that are known beyond those that workers hold, before they are counted anew
SPAN_BYTES: Final = 100  # of a span in an update, besides the id of its worker
CLOCK_STEP: Final = 10.0  # seconds; a worker's clock that differs by more from what it was has been set


class _Place(NamedTuple):
    """Where an attempt is, and since when it runs, if that is known."""

    worker: str
    began: Wall | None


class Spans:
    """Follows attempts from worker to worker. `take` gives what has happened since the last `take`."""

    def __init__(self, workers: Iterable[KnownWorker], wall_ahead: float) -> None:
        """`wall_ahead`: how far the wall clock is ahead of the monotonic one."""
        self._workers = workers
        self._places: dict[AttemptKey, _Place] = {}
        self._begun: dict[AttemptKey, None] = {}  # viewers have not been told that these run
        self._told: set[AttemptKey] = set()  # viewers have been told that these run
        self._ended: list[Span] = []  # of those
        self._short: list[Span] = []  # that ended too, as many as fit an update
        self._skipped = 0
        self._clocks: dict[str, float] = {}  # by worker: how far our wall clock is ahead of its own
        self._count_anew(wall_ahead)

    # What happens

    def on_records(self, records: Sequence[Record], totals: Totals) -> None:
        """These have been committed. Counts what ended."""
        for record in records:
            match record:
                case Ended():
                    self._on_end(record, totals)
                case Claimed(worker, attempts, at, TaskState.RUNNING) | Began(worker, attempts, at):
                    self._places.update(dict.fromkeys(attempts, _Place(worker, at)))
                    self._begun.update(dict.fromkeys(attempts))
                case Claimed(worker, attempts):
                    self._places.update(dict.fromkeys(attempts, _Place(worker, None)))
                case _:
                    pass

    def _on_end(self, record: Ended, totals: Totals) -> None:  # hot: several thousand a second
        attempt, ending = record.attempt, record.ending
        place = self._places.pop(attempt, None)
        if self._begun:
            self._begun.pop(attempt, None)
        is_returned = ending.cause is Cause.RETURNED
        if not is_returned:
            count_end(totals, record)
        if place is None or (place.began is None and ending.started is None):
            return  # it never began, or is not known here
        if attempt in self._told:
            self._told.remove(attempt)
            self._ended.append(self._make_ended(record, place))
        elif is_returned:  # a plain worker, which is thought to begin all that it is given, did not
            return
        elif len(self._short) < MAX_SPANS:
            self._short.append(self._make_ended(record, place))
        else:
            self._skipped += 1

    def _make_ended(self, record: Ended, place: _Place) -> Span:
        """By the worker's clock, if it said when the attempt ran: its reports come in batches, and later."""
        ending, began, ended = record.ending, place.began or record.at, record.at
        if ending.started is not None and ending.ended is not None:
            ahead = self._find_ahead(place.worker, float(record.at) - float(ending.ended))
            began, ended = Wall(float(ending.started) + ahead), Wall(float(ending.ended) + ahead)
        memory = ending.peak_memory_bytes or 0
        return Span(place.worker, *record.attempt, record.state, min(began, ended), ended, memory)

    def _find_ahead(self, worker: str, seen: float) -> float:
        """How far our clock is ahead of a worker's: the least of what was seen, for reports take a while."""
        known = self._clocks.get(worker, seen)
        ahead = min(known, seen) if abs(known - seen) < CLOCK_STEP else seen
        self._clocks[worker] = ahead
        return ahead

    def on_worker(self, worker: KnownWorker) -> None:
        """A worker is new. It may have attempts of a former one."""
        for attempt in worker.held:
            place = self._places.get(attempt)
            if place is not None and place.worker != worker.info.id:
                self._places[attempt] = _Place(worker.info.id, place.began)
                if place.began is not None:
                    self._begun[attempt] = None

    def on_left(self, worker: str) -> None:
        self._clocks.pop(worker, None)

    def _count_anew(self, wall_ahead: float) -> None:
        """Claims that were withdrawn have no end. Forget those, and find the attempts from before we looked."""
        before = self._places
        self._places = {attempt: before[attempt] for attempt in (*self._told, *self._begun)}  # their ends may be near
        for worker in self._workers:
            for attempt, held in worker.held.items():
                began = _to_wall(held.since, wall_ahead) if attempt in worker.held.begun else None
                self._places[attempt] = before.get(attempt) or _Place(worker.info.id, began)

    # What viewers get

    def list_running(self) -> tuple[Span, ...]:
        """The attempts that are known to run, as many as fit an update."""
        known = (_make_running(*item) for item in self._places.items() if item[1].began is not None)
        running = tuple(take_page(known, MAX_PAGE, _weigh_span))
        self._told.update(AttemptKey(span.job, span.task, span.attempt) for span in running)
        return running

    def take(self, wall_ahead: float) -> tuple[tuple[Span, ...], int]:
        """The attempts that began or ended, as many as fit an update, and how many more ended."""
        begun = list(islice(self._begun, MAX_SPANS))
        told = (_make_running(attempt, self._places[attempt]) for attempt in begun)
        spans = tuple(chain(self._ended[:MAX_GLANCES], self._short, told))
        self._begun = dict.fromkeys(islice(self._begun, MAX_SPANS, None))
        self._told.update(begun)
        skipped, self._skipped = self._skipped, 0
        self._ended, self._short = self._ended[MAX_GLANCES:], []
        if len(self._places) > sum(len(worker.held) for worker in self._workers) + ROOM:
            self._count_anew(wall_ahead)
        return spans, skipped


def count_end(totals: Totals, record: Ended) -> None:
    """Count an attempt that ended."""
    state = record.state
    if state is TaskState.FINISHED:
        totals.finished += 1
        return
    totals.lost += record.ending.cause is Cause.WORKER_LOST
    if state is TaskState.FAILED:
        totals.failed += 1
    elif state is TaskState.CANCELLED:
        totals.cancelled += 1
    else:
        totals.repeated += 1


def _make_running(attempt: AttemptKey, place: _Place) -> Span:
    assert place.began is not None, "it runs"
    return Span(place.worker, *attempt, TaskState.RUNNING, place.began)


def _weigh_span(span: Span) -> int:
    return SPAN_BYTES + CHARACTER_BYTES * len(span.worker)


def _to_wall(moment: Monotonic, wall_ahead: float) -> Wall:
    return Wall(float(moment) + wall_ahead)
