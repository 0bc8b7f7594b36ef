"""What a foreman takes back if its store cannot keep it: new work, as if no client had asked for it, and claims.

No peer knows of any of it. Results, and what users decided about older jobs, stay: they are committed later. Jobs that
were submitted before, at another foreman, are taken back alone, and their clients are answered with the earlier ones.
"""

from collections.abc import Iterable, Mapping

from msgspec import Struct, field
from msgspec.structs import replace

from gandy.core.effects import Give, Reply, Send
from gandy.core.model import AttemptKey
from gandy.core.owners import Owners
from gandy.core.records import (
    Claimed,
    Ended,
    JobAdded,
    JobForgotten,
    JobSet,
    LinesAdded,
    LinesDropped,
    OpenJobClosed,
    Record,
    TasksAdded,
    TasksSet,
)
from gandy.core.requests import Submitted
from gandy.ids import JobId, TaskNumber


class Withdrawal(Struct):
    """New work among some records, and the replies that would confirm it."""

    jobs: set[JobId] = field(default_factory=set)  # that were submitted
    grown: dict[JobId, TaskNumber] = field(default_factory=dict)  # older jobs, and the first task that was added
    uploads: dict[int, TaskNumber] = field(default_factory=dict)  # of lines, and the first line that is taken back
    claims: dict[AttemptKey, str] = field(default_factory=dict)  # with their workers
    replies: list[Reply] = field(default_factory=list)
    earlier: dict[JobId, JobId] = field(default_factory=dict)  # of jobs that were submitted before: their first number

    def __bool__(self) -> bool:
        return bool(self.jobs or self.grown or self.uploads or self.claims or self.replies)

    def covers(self, job: JobId, task: TaskNumber) -> bool:
        """True if the task itself is taken back."""
        return job in self.jobs or task >= self.grown.get(job, task + 1)


def find_new_work(records: Iterable[Record], owners: Owners) -> Withdrawal:
    """The new work in these records. A claim that has ended meanwhile stays: the record of its end needs it."""
    found = Withdrawal()
    for record in records:
        match record:
            case JobAdded(job):
                found.jobs.add(job)
            case TasksAdded(job, first) if job not in found.jobs:
                found.grown.setdefault(job, first)
            case LinesAdded(upload, first):
                found.uploads.setdefault(upload, first)
            case Claimed(worker, attempts):
                for attempt in attempts:
                    if found.covers(attempt.job, attempt.task) or attempt in owners:
                        found.claims[attempt] = worker
            case _:
                pass
    return found


def find_repeated(records: Iterable[Record], earlier: Mapping[JobId, JobId]) -> Withdrawal | None:
    """New jobs that were submitted before, with the number that each has. None: other new work in here needs them,
    which only a client that guesses numbers can have asked for."""
    found = Withdrawal(jobs=set(earlier), earlier=dict(earlier))
    for record in records:
        match record:
            case TasksAdded(job) if job in earlier:
                return None
            case JobAdded(spec=spec) if not earlier.keys().isdisjoint(spec.sources):
                return None
            case Claimed(worker, attempts):
                found.claims |= {attempt: worker for attempt in attempts if attempt.job in earlier}
            case _:
                pass
    return found


def keep_records(records: Iterable[Record], new: Withdrawal) -> list[Record]:
    """What is left of the records without the new work, in their order."""
    return [kept for record in records if (kept := _keep_record(record, new)) is not None]


def _keep_record(record: Record, new: Withdrawal) -> Record | None:
    match record:
        case JobAdded(job, upload=upload) if job in new.jobs:
            return LinesDropped(upload) if upload else None
        case LinesAdded(upload, first):
            return None if first >= new.uploads.get(upload, first + 1) else record
        case TasksAdded(job, first):
            return None if new.covers(job, first) else record
        case Claimed(_, attempts):
            kept = tuple(attempt for attempt in attempts if attempt not in new.claims)
            return replace(record, attempts=kept) if kept else None
        case Ended(attempt):
            return None if new.covers(attempt.job, attempt.task) else record
        case TasksSet(job, _, tasks) if tasks is not None:
            left = tuple(task for task in tasks if not new.covers(job, task))
            return replace(record, tasks=left) if left else None
        case TasksSet(job) | JobSet(job) | OpenJobClosed(job) | JobForgotten(job):
            return None if job in new.jobs else record
        case _:
            return record


def keep_sends(sends: Iterable[Send], new: Withdrawal) -> list[Send]:
    """What is left of the sends. The replies that confirm new work move to the withdrawal; those that confirm a job
    that was submitted before confirm the earlier one."""
    kept: list[Send] = []
    for send in sends:
        match send:
            case Reply(value=Submitted(job)) if job in new.earlier:
                kept.append(replace(send, value=Submitted(new.earlier[job])))
            case Reply(takes_work=True) if not new.earlier:
                new.replies.append(send)
            case Give(worker, assignments):
                left = tuple(each for each in assignments if each.attempt not in new.claims)
                if left:
                    kept.append(Give(worker, left))
            case _:
                kept.append(send)
    return kept
