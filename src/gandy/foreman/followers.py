"""Sends clients the events that they asked for: changes of jobs, and results of their tasks. It decides nothing."""

import asyncio
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, Final

from gandy.core import requests as ask
from gandy.core.foreman import Batch
from gandy.core.links import Link
from gandy.core.looking import describe_cancelled, describe_end
from gandy.core.model import FINAL_JOB_STATES, FINAL_STATES, TaskState
from gandy.core.records import Began, Claimed, Ended, JobSet, Record, TasksSet, list_jobs
from gandy.core.rows import CHARACTER_BYTES, ROW_BYTES, JobRow
from gandy.errors import StoreError
from gandy.foreman.committer import Committer
from gandy.foreman.messenger import Messenger
from gandy.foreman.subscriptions import Subscriptions, Token
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_NAMED_TASKS, MAX_PAGE, MAX_PAGE_BYTES

EVENT_PAUSE: Final = 0.1  # seconds between two events about how one job stands


class Followers:
    """Watchers get changes of a job, listeners the results of its tasks."""

    def __init__(self, committer: Committer, messenger: Messenger) -> None:
        self._committer = committer
        self._messenger = messenger
        self._watchers = Subscriptions()  # of changes
        self._listeners = Subscriptions()  # to results
        self._stale: set[JobId] = set()  # watched jobs that have changed since their last event
        self._tasks: set[asyncio.Task[None]] = set()

    async def watch(self, job: JobId, token: Token) -> JobRow | None:
        """The job now; until it is final, its changes follow as events."""
        # Before the look-up: what is committed while it goes on must not be missed.
        self._watchers.add(job, token)
        row = await self._committer.store.find_job(job)
        if _has_no_events(row):
            self._watchers.discard(job, token)
        return row

    async def listen(self, job: JobId, token: Token) -> JobRow | None:
        """The job now; until it is final, its results follow as events, and then one that says there are no more."""
        self._listeners.add(job, token)
        row = await self._committer.store.find_job(job)
        if _has_no_events(row):
            self._listeners.discard(job, token)
        else:
            await self._send_running(job, token)
        return row

    async def _send_running(self, job: JobId, token: Token) -> None:
        """Send which tasks have begun already."""
        after, running = TaskNumber(0), frozenset({TaskState.RUNNING})
        while rows := await self._committer.store.list_tasks(job, running, MAX_PAGE, after):
            after = rows[-1].task
            self._messenger.send_event(*token, ask.Results((), is_last=False, started=tuple(row.task for row in rows)))

    def on_commit(self, batch: Batch) -> None:
        if self._listeners:
            self._send_started(batch.records)
            self._send_results(batch.records)
        if self._watchers:
            self._send_changes(batch.records)

    def unfollow(self, token: Token) -> None:
        """The client wants no more events."""
        self._watchers.forget_token(token)
        self._listeners.forget_token(token)

    def on_gone(self, link: Link) -> None:
        self._watchers.forget_link(link)
        self._listeners.forget_link(link)

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    # Changes

    def _send_changes(self, records: Sequence[Record]) -> None:
        """Send the end of a job at once, and other changes no more often than people can look."""
        for record in records:
            for job in list_jobs(record):
                if job not in self._watchers:
                    continue
                if isinstance(record, JobSet) and record.state in FINAL_JOB_STATES:
                    self._spawn(self._send_to_watchers(job, 0.0))
                elif job not in self._stale:
                    self._stale.add(job)
                    self._spawn(self._send_to_watchers(job, EVENT_PAUSE))

    async def _send_to_watchers(self, job: JobId, pause: float) -> None:
        await asyncio.sleep(pause)
        self._stale.discard(job)
        try:
            row = await self._committer.store.find_job(job)
        except StoreError as error:
            self._send(job, ask.RequestFailure("store", str(error), error.retryable))
            self._watchers.forget_job(job)
            return
        if row is not None:
            self._send(job, ask.JobFound(row))
        if row is None or row.state in FINAL_JOB_STATES:
            self._watchers.forget_job(job)

    def _send(self, job: JobId, event: ask.Answer) -> None:
        for link, seq in self._watchers[job]:
            self._messenger.send_event(link, seq, event)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    # Results

    def _send_results(self, records: Sequence[Record]) -> None:
        results: dict[JobId, list[ask.ResultRow]] = {}
        final: list[JobId] = []
        for record in records:
            match record:
                case Ended(attempt, ending, state) if attempt.job in self._listeners and state in FINAL_STATES:
                    row = describe_end(attempt.task, state, attempt.attempt, ending)
                    results.setdefault(attempt.job, []).append(row)
                case TasksSet(job, TaskState.CANCELLED, tasks) if job in self._listeners:  # if all are, the job ends
                    results.setdefault(job, []).extend(map(describe_cancelled, tasks or ()))
                case JobSet(job, state) if state in FINAL_JOB_STATES and job in self._listeners:
                    final.append(job)
                case _:
                    pass
        for job, rows in results.items():
            for part in split_results(rows):
                self._send_to_listeners(job, ask.Results(part, is_last=False))
        for job in final:
            self._send_to_listeners(job, ask.Results((), is_last=True))
            self._listeners.forget_job(job)

    def _send_started(self, records: Sequence[Record]) -> None:
        started: dict[JobId, list[TaskNumber]] = {}
        for record in records:
            if isinstance(record, Began) or (isinstance(record, Claimed) and record.state is TaskState.RUNNING):
                for attempt in record.attempts:
                    if attempt.job in self._listeners:
                        started.setdefault(attempt.job, []).append(attempt.task)
        for job, tasks in started.items():
            for begin in range(0, len(tasks), MAX_NAMED_TASKS):
                part = tuple(tasks[begin : begin + MAX_NAMED_TASKS])
                self._send_to_listeners(job, ask.Results((), is_last=False, started=part))

    def _send_to_listeners(self, job: JobId, results: ask.Results) -> None:
        for link, seq in self._listeners[job]:
            self._messenger.send_event(link, seq, results)


def _has_no_events(row: JobRow | None) -> bool:
    """True if nothing more will happen to a job."""
    return row is None or row.state in FINAL_JOB_STATES or bool(row.problem)


def split_results(rows: Sequence[ask.ResultRow]) -> Iterator[tuple[ask.ResultRow, ...]]:
    """Split results into parts that fit an event each."""
    begin = size = 0
    for place, row in enumerate(rows):
        weight = len(row.result) + len(row.tail) + CHARACTER_BYTES * len(row.note) + ROW_BYTES
        if place > begin and (size + weight > MAX_PAGE_BYTES or place - begin == MAX_PAGE):
            yield tuple(rows[begin:place])
            begin, size = place, 0
        size += weight
    if rows:
        yield tuple(rows[begin:])
