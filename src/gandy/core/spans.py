"""Attempts as spans of time on a worker, for viewers: those that run, and those that have just ended."""

from collections.abc import Iterable, Sequence
from typing import Final, NamedTuple

from gandy.core.model import AttemptKey, Cause, TaskState
from gandy.core.records import Began, Claimed, Ended, Record
from gandy.core.views import Span, Totals
from gandy.core.workers import KnownWorker
from gandy.limits import MAX_PAGE, MAX_SPANS
from gandy.moments import Monotonic, Wall

ROOM: Final = 1_000  # attempts that are known beyond those that workers hold, before they are counted anew


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
        self._begun: dict[AttemptKey, None] = {}  # since the last `take`
        self._ended: list[Span] = []
        self._skipped = 0
        self._count_anew(wall_ahead)

    def _count_anew(self, wall_ahead: float) -> None:
        before, self._places = self._places, {}
        for worker in self._workers:
            for attempt, held in worker.held.items():
                known = before.get(attempt)
                began = _to_wall(held.since, wall_ahead) if attempt in worker.held.begun else None
                self._places[attempt] = known or _Place(worker.info.id, began)

    def on_records(self, records: Sequence[Record], totals: Totals) -> None:
        for record in records:
            match record:
                case Claimed(worker, attempts, at, TaskState.RUNNING) | Began(worker, attempts, at):
                    self._places.update(dict.fromkeys(attempts, _Place(worker, at)))
                    self._begun.update(dict.fromkeys(attempts))
                case Claimed(worker, attempts):
                    self._places.update(dict.fromkeys(attempts, _Place(worker, None)))
                case Ended():
                    self._on_end(record, totals)
                case _:
                    pass

    def _on_end(self, record: Ended, totals: Totals) -> None:
        place = self._places.pop(record.attempt, None)
        self._begun.pop(record.attempt, None)
        ending = record.ending
        if ending.cause is Cause.RETURNED:
            return
        count_end(totals, record)
        seconds = 0.0
        if ending.started is not None and ending.ended is not None:
            seconds = max(0.0, ending.ended - ending.started)
        elif place is None or place.began is None:
            return  # it never began
        if len(self._ended) >= MAX_SPANS:
            self._skipped += 1
            return
        began = place.began if place is not None and place.began is not None and not seconds else record.at - seconds
        worker = "" if place is None else place.worker
        memory = ending.peak_memory_bytes or 0
        self._ended.append(Span(worker, *record.attempt, record.state, began, record.at, memory))

    def list_running(self) -> tuple[Span, ...]:
        """The attempts that are known to run, as many as fit an update."""
        running = [(attempt, place) for attempt, place in self._places.items() if place.began is not None]
        return tuple(_make_running(attempt, place) for attempt, place in running[:MAX_PAGE])

    def take(self, wall_ahead: float) -> tuple[tuple[Span, ...], int]:
        """The attempts that began or ended, and how many more ended."""
        begun = [(attempt, self._places[attempt]) for attempt in self._begun]
        spans = (*self._ended, *(_make_running(attempt, place) for attempt, place in begun[:MAX_SPANS]))
        skipped, self._skipped, self._ended = self._skipped, 0, []
        self._begun.clear()
        if len(self._places) > sum(len(worker.held) for worker in self._workers) + ROOM:
            self._count_anew(wall_ahead)  # claims that were never sent have no end
        return spans, skipped


def count_end(totals: Totals, record: Ended) -> None:
    """Count an attempt that ended."""
    totals.lost += record.ending.cause is Cause.WORKER_LOST
    match record.state:
        case TaskState.FINISHED:
            totals.finished += 1
        case TaskState.FAILED:
            totals.failed += 1
        case TaskState.CANCELLED:
            totals.cancelled += 1
        case _:
            totals.repeated += 1


def _make_running(attempt: AttemptKey, place: _Place) -> Span:
    assert place.began is not None, "it runs"
    return Span(place.worker, *attempt, TaskState.RUNNING, place.began)


def _to_wall(moment: Monotonic, wall_ahead: float) -> Wall:
    return Wall(float(moment) + wall_ahead)
