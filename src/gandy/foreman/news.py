"""Tells clients what they asked to be told: how jobs stand, and what became of their tasks. It decides nothing."""

import asyncio
from collections.abc import Coroutine, Iterable, Iterator, Sequence
from typing import Any, Final

from gandy.core import requests as ask
from gandy.core.foreman import Batch
from gandy.core.jobs import FINAL_JOB_STATES
from gandy.core.model import FINAL_STATES, Cause, Ending, TaskState
from gandy.core.records import (
    Claimed,
    Ended,
    JobAdded,
    JobClosed,
    JobForgotten,
    JobSet,
    Record,
    TasksAdded,
    TasksSet,
)
from gandy.core.rows import JobRow, TaskRow
from gandy.foreman.server import Server
from gandy.ids import JobId, TaskNumber

EVENT_PAUSE: Final = 0.1  # seconds between two events about how one job stands
PART_BYTES: Final = 4_000_000  # of results in one answer or event, unless a single one is larger
ROW_BYTES: Final = 100  # of a result beside what is in it

Token = tuple[str, int]  # a client's link, and the number of its request


class _Audience:
    """Who listens to which job."""

    def __init__(self) -> None:
        self._tokens: dict[JobId, set[Token]] = {}

    def __contains__(self, job: JobId | None) -> bool:
        return job in self._tokens

    def __bool__(self) -> bool:
        return bool(self._tokens)

    def __getitem__(self, job: JobId) -> tuple[Token, ...]:
        return tuple(self._tokens.get(job, ()))

    def add(self, job: JobId, token: Token) -> None:
        self._tokens.setdefault(job, set()).add(token)

    def discard(self, job: JobId, token: Token) -> None:
        self._tokens.get(job, set()).discard(token)

    def forget_job(self, job: JobId) -> None:
        self._tokens.pop(job, None)

    def forget_link(self, link: str) -> None:
        for tokens in self._tokens.values():
            tokens.difference_update([token for token in tokens if token[0] == link])
        self._tokens = {job: tokens for job, tokens in self._tokens.items() if tokens}


class News:
    """One for each foreman."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._watchers = _Audience()  # of how jobs stand
        self._listeners = _Audience()  # to results
        self._stale: set[JobId] = set()  # watched jobs about which there is news
        self._tasks: set[asyncio.Task[None]] = set()

    async def watch(self, job: JobId, token: Token) -> JobRow | None:
        """The job now; until it is final, its changes are told too."""
        # Before the look-up: what is committed while it goes on must not be missed.
        self._watchers.add(job, token)
        row = await self._server.overview.find_job(job)
        if row is None or row.state in FINAL_JOB_STATES:
            self._watchers.discard(job, token)
        return row

    async def listen(self, job: JobId, token: Token) -> JobRow | None:
        """The job now; until it is final, all its results from now on are told, and then that there are no more."""
        self._listeners.add(job, token)
        row = await self._server.overview.find_job(job)
        if row is None or row.state in FINAL_JOB_STATES:
            self._listeners.discard(job, token)
        return row

    def on_commit(self, batch: Batch) -> None:
        if self._listeners:
            self._tell_results(batch.records)
        if self._watchers:
            self._tell_changes(batch.records)

    def on_gone(self, link: str) -> None:
        self._watchers.forget_link(link)
        self._listeners.forget_link(link)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # How jobs stand

    def _tell_changes(self, records: Sequence[Record]) -> None:
        """At once of an end, and else not more often than people can look."""
        for record in records:
            for job in _jobs_of(record):
                if job not in self._watchers:
                    continue
                if isinstance(record, JobSet) and record.state in FINAL_JOB_STATES:
                    self._spawn(self._tell_watchers(job, 0.0))
                elif job not in self._stale:
                    self._stale.add(job)
                    self._spawn(self._tell_watchers(job, EVENT_PAUSE))

    async def _tell_watchers(self, job: JobId, pause: float) -> None:
        await asyncio.sleep(pause)
        self._stale.discard(job)
        row = await self._server.overview.find_job(job)
        if row is not None:
            for link, seq in self._watchers[job]:
                self._server.tell(link, seq, ask.JobFound(row))
        if row is None or row.state in FINAL_JOB_STATES:
            self._watchers.forget_job(job)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Results

    def _tell_results(self, records: Sequence[Record]) -> None:
        news: dict[JobId, list[ask.ResultRow]] = {}
        started: dict[JobId, list[TaskNumber]] = {}
        final: list[JobId] = []
        for record in records:
            if isinstance(record, Claimed):
                for job, task, _ in record.attempts:
                    if job in self._listeners:
                        started.setdefault(job, []).append(task)
            elif isinstance(record, Ended):
                if record.attempt.job in self._listeners and record.state in FINAL_STATES:
                    news.setdefault(record.attempt.job, []).append(_tell_end(record))
            elif isinstance(record, JobSet) and record.state in FINAL_JOB_STATES and record.job in self._listeners:
                final.append(record.job)
        for job, tasks in started.items():
            self._tell_listeners(job, ask.Results((), is_last=False, started=tuple(tasks)))
        for job, rows in news.items():
            for part in split_results(rows):
                self._tell_listeners(job, ask.Results(part, is_last=False))
        for job in final:
            self._tell_listeners(job, ask.Results((), is_last=True))
            self._listeners.forget_job(job)

    def _tell_listeners(self, job: JobId, results: ask.Results) -> None:
        for link, seq in self._listeners[job]:
            self._server.tell(link, seq, results)


def _tell_end(record: Ended) -> ask.ResultRow:
    return _make_row(record.attempt.task, record.state, record.attempt.attempt, record.ending)


def tell_row(row: TaskRow) -> ask.ResultRow:
    """A task that has ended for good, as it is told to a client that asks later."""
    ending = row.ending
    if ending is None:  # cancelled before it began
        return ask.ResultRow(row.task, row.state, row.attempt, Cause.CANCELLED)
    return _make_row(row.task, row.state, row.attempt, ending)


def _make_row(task: TaskNumber, state: TaskState, attempt: int, ending: Ending) -> ask.ResultRow:
    return ask.ResultRow(
        task, state, attempt, ending.cause, ending.note, ending.tail, ending.result, ending.result_bytes
    )


def split_results(rows: Sequence[ask.ResultRow]) -> Iterator[tuple[ask.ResultRow, ...]]:
    """In parts that fit a frame each."""
    begin = size = 0
    for place, row in enumerate(rows):
        weight = len(row.result) + len(row.tail) + len(row.note) + ROW_BYTES
        if size + weight > PART_BYTES and place > begin:
            yield tuple(rows[begin:place])
            begin, size = place, 0
        size += weight
    if rows:
        yield tuple(rows[begin:])


def _jobs_of(record: Record) -> Iterable[JobId]:
    match record:
        case Ended(attempt):
            return (attempt.job,)
        case Claimed(_, attempts):
            return {attempt.job for attempt in attempts}
        case JobAdded(job) | TasksAdded(job) | JobClosed(job) | JobSet(job) | TasksSet(job) | JobForgotten(job):
            return (job,)
        case _:
            return ()
