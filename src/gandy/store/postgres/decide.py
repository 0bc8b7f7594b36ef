"""Decides which records apply, and collects the rows to append. A commit that fails is taken back.

It owns the jobs of a shard that are not final. It knows neither SQL nor connections.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec
from msgspec.structs import replace

from gandy.core.model import AttemptKey
from gandy.core.records import (
    Began,
    Claimed,
    Ended,
    JobAdded,
    JobForgotten,
    JobSet,
    LinesAdded,
    LinesDropped,
    OpenJobClosed,
    Record,
    ResultsDropped,
    TasksAdded,
    TasksSet,
)
from gandy.errors import StoreError
from gandy.ids import JobId, TaskNumber
from gandy.moments import Wall
from gandy.store.law import first_state
from gandy.store.postgres.shard_job import JobStanding, ShardJob, find_ranges
from gandy.store.postgres.undo import Undo
from gandy.store.sqlite_lines import pack_lines

LONGEST_RUN: Final = 1_000  # tasks of a claim in one row: a search for a task looks no further back than this

_encode_ending = msgspec.msgpack.Encoder().encode
_HELD, _OPEN = 1, 2  # bits of a change

Rows = dict[str, list[tuple[Any, ...]]]


class Decided(NamedTuple):
    """What a commit appends, by the name of its part of the statement, and which claims are lost."""

    rows: Rows
    lost: frozenset[AttemptKey]
    last_job: int  # the highest number of a new job; 0 if there is none
    has_forgotten_first: bool  # the number of a forgotten job is given again


class Shard:
    """The jobs of our shard. After each `decide`, the caller says whether the database took it."""

    def __init__(self) -> None:
        self.jobs: dict[JobId, ShardJob] = {}
        self._uploads: dict[int, int] = {}  # keys under which lines come before their job, by upload
        self._undo = Undo()
        self._touched: list[JobId] = []

    def decide(self, records: Sequence[Record], make_key: Callable[[], int]) -> Decided:
        """The jobs that the records mean are loaded, unless there is none of that number. Raises: StoreError."""
        batch = _Decider(self.jobs, self._uploads, make_key, self._undo)
        try:
            for record in records:
                batch.apply(record)
            self._touched = batch.list_touched()
            return batch.finish()
        except BaseException:
            self.roll_back()
            raise

    def accept(self) -> None:
        """The database has it."""
        self._undo = Undo()
        for number in self._touched:
            if self.jobs[number].standing.is_done:
                del self.jobs[number]  # it is loaded again if need be

    def roll_back(self) -> None:
        """The database does not have it."""
        self._undo.roll_back()


def list_meant(records: Sequence[Record]) -> set[JobId]:
    """The jobs that must be known to apply these records: not those that come with them."""
    meant: set[JobId] = set()
    new: set[JobId] = set()
    for record in records:
        if isinstance(record, Ended):
            found = {record.attempt.job}
        elif isinstance(record, Claimed | Began):
            found = {attempt.job for attempt in record.attempts}
        elif isinstance(record, TasksAdded | OpenJobClosed | TasksSet | JobSet):
            found = {record.job}
        else:
            if isinstance(record, JobAdded):
                new.add(record.job)
            continue
        meant |= found - new
    return meant


class _Decider:
    """The records of one commit."""

    def __init__(
        self, jobs: dict[JobId, ShardJob], uploads: dict[int, int], make_key: Callable[[], int], undo: Undo
    ) -> None:
        self._jobs = jobs
        self._uploads = uploads
        self._make_key = make_key
        self._undo = undo
        self._rows: defaultdict[str, list[tuple[Any, ...]]] = defaultdict(list)
        self._touched: dict[JobId, ShardJob] = {}
        self._lost: set[AttemptKey] = set()
        self._last_job = 0

    def finish(self) -> Decided:
        for job in self._touched.values():
            self._append_change(job)
        added, gone = ({row[0] for row in self._rows[name]} for name in ("jobs", "forgotten"))
        rows = {name: rows for name, rows in self._rows.items() if rows}
        return Decided(rows, frozenset(self._lost), self._last_job, not added.isdisjoint(gone))

    def list_touched(self) -> list[JobId]:
        return list(self._touched)

    def apply(self, record: Record) -> None:
        match record:
            case Ended():
                self._end(record)
            case Claimed():
                self._claim(record)
            case Began():
                self._begin(record)
            case JobAdded():
                self._add(record)
            case TasksAdded():
                self._add_tasks(record)
            case LinesAdded():
                self._add_lines(record)
            case LinesDropped():
                self._drop_lines(record)
            case TasksSet():
                self._set_tasks(record)
            case OpenJobClosed() | JobSet():
                self._set_job(record)
            case ResultsDropped(before):
                self._rows["drops"].append((before,))
            case JobForgotten():
                self._forget(record.job)

    def _find(self, number: JobId) -> ShardJob | None:
        """The job, whose standing is saved before its first change."""
        job = self._touched.get(number)
        if job is None and (job := self._jobs.get(number)) is not None:
            self._touched[number] = job
            self._undo.note((_set_standing, job, job.standing))
            job.standing = job.standing.copy()
            job.standing.number += 1
        return job

    def _end(self, record: Ended) -> None:
        number, task, attempt = record.attempt
        job = self._touched.get(number) or self._find(number)
        if job is None or not job.end(task, attempt, record.before, record.state, self._undo):
            return
        job.standing.changed = at = record.at
        ending = record.ending
        if ending.result:
            drops = len(self._rows["drops"])  # in this commit, before this result
            self._rows["results"].append((job.key, task, attempt, at, ending.result, drops))
            ending = replace(ending, result=b"")
        packed = _encode_ending(ending)
        if record.failures or record.crashes or record.due:
            account = record.due, record.failures, record.crashes
            self._rows["steps"].append((job.key, task, attempt, 0, record.state, at, *account, packed))
        else:
            self._rows["ends"].append((job.key, task, attempt, record.state, at, packed))

    def _claim(self, record: Claimed) -> None:
        worker = record.worker.encode(errors="surrogatepass")
        for (number, first, attempt), last in find_ranges(record.attempts, LONGEST_RUN):
            job = self._find(number)
            if job is not None and attempt == 1 and job.claim_run(first, last, record.state, self._undo):
                self._append_claim(job, first, last, attempt, record, worker)
            else:
                for task in range(first, last + 1):
                    if job is not None and job.claim(task, attempt, record.state, self._undo):
                        self._append_claim(job, task, task, attempt, record, worker)
                    else:
                        self._lost.add(AttemptKey(number, TaskNumber(task), attempt))

    def _append_claim(self, job: ShardJob, first: int, last: int, attempt: int, record: Claimed, worker: bytes) -> None:
        self._rows["claims"].append((job.key, first, last, attempt, record.state, record.at, worker))
        job.standing.changed = record.at

    def _begin(self, record: Began) -> None:
        begun = [key for key in record.attempts if self._begin_one(key, record.at)]
        for (number, first, attempt), last in find_ranges(begun, LONGEST_RUN):
            self._rows["begins"].append((self._jobs[number].key, first, last, attempt))

    def _begin_one(self, key: AttemptKey, at: Wall) -> bool:
        job = self._find(key.job)
        if job is None or not job.begin(key.task, key.attempt, self._undo):
            return False
        job.standing.changed = at
        return True

    def _add(self, record: JobAdded) -> None:
        number, spec = record.job, record.spec
        if number in self._jobs:
            raise StoreError(f"there is a job {number} already")
        key = self._undo.pop(self._uploads, record.upload) if record.upload else None
        if key is None:
            key = self._make_key()
        else:
            self._rows["uploaded"].append((key,))
        self._append_lines(key, record.lines)
        job = ShardJob(key, JobStanding(spec.tasks, spec.is_open, first_state(spec), spec.held, record.at))
        self._undo.put(self._jobs, number, job)
        self._touched[number] = job
        self._rows["jobs"].append((number, key, record.key, record.at, msgspec.json.encode(spec)))
        self._last_job = max(self._last_job, number)

    def _add_lines(self, record: LinesAdded) -> None:
        key = self._uploads.get(record.upload)
        if key is None:
            key = self._make_key()
            self._undo.put(self._uploads, record.upload, key)
            self._rows["uploads"].append((key,))
        self._append_lines(key, record.lines, record.first)

    def _append_lines(self, key: int, lines: Sequence[str | bytes], first: int = 1) -> None:
        self._rows["lines"].extend((key, *chunk) for chunk in pack_lines(lines, first))

    def _drop_lines(self, record: LinesDropped) -> None:
        key = self._undo.pop(self._uploads, record.upload)
        if key is not None:
            self._rows["uploaded"].append((key,))
            self._rows["unlined"].append((key,))
            self._rows["lines"] = [row for row in self._rows["lines"] if row[0] != key]
            self._rows["uploads"] = [row for row in self._rows["uploads"] if row[0] != key]

    def _add_tasks(self, record: TasksAdded) -> None:
        job = self._find(record.job)
        if job is not None and job.add_tasks(record.first, len(record.inputs)):
            job.standing.changed = record.at
            self._append_lines(job.key, record.inputs, record.first)

    def _forget(self, number: JobId) -> None:
        self._touched.pop(number, None)
        job = self._undo.pop(self._jobs, number)
        if any(row[0] == number for row in self._rows["jobs"]):  # it came in this commit: nothing of it is written
            assert job is not None
            self._rows["jobs"] = [row for row in self._rows["jobs"] if row[0] != number]
            for name in ("claims", "begins", "ends", "steps", "results", "lines"):
                self._rows[name] = [row for row in self._rows[name] if row[0] != job.key]
        else:
            self._rows["forgotten"].append((number,))

    def _set_job(self, record: OpenJobClosed | JobSet) -> None:
        job = self._find(record.job)
        if job is None:
            return
        standing = job.standing
        standing.changed = record.at
        if isinstance(record, JobSet):
            standing.state, standing.held = record.state, record.held
        else:
            standing.is_open = False

    def _set_tasks(self, record: TasksSet) -> None:
        job = self._find(record.job)
        if job is None:
            return
        job.standing.changed = record.at
        if record.tasks is None:
            for task, attempt, step in job.set_all(record.state, self._undo):
                self._append_step(job, task, attempt, step, record)
            return
        for task in record.tasks:
            found = job.set_task(task, record.state, self._undo)
            if found is not None:
                self._append_step(job, task, *found, record)

    def _append_step(self, job: ShardJob, task: int, attempt: int, step: int, record: TasksSet) -> None:
        self._rows["steps"].append((job.key, task, attempt, step, record.state, record.at, 0.0, 0, 0, None))

    def _append_change(self, job: ShardJob) -> None:
        standing, key = job.standing, job.key
        flags = _HELD * standing.held + _OPEN * standing.is_open
        numbers = standing.number, standing.state, flags, standing.tasks, standing.fresh
        self._rows["changes"].append((key, *numbers, standing.changed, *standing.counts))
        if standing.is_final and not standing.is_done:
            self._rows["done_again" if standing.was_done else "done"].append((key,))
            standing.is_done = standing.was_done = True
        elif standing.is_done and not standing.is_final:
            self._rows["reopened"].append((key,))
            standing.is_done = False


def _set_standing(job: ShardJob, standing: JobStanding) -> None:
    job.standing = standing
