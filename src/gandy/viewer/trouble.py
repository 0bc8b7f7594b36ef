"""What needs a person's attention, worst first, in sentences. Pure."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from enum import StrEnum
from itertools import islice
from typing import Final

from msgspec import Struct

from gandy.core.model import JobState
from gandy.core.views import WorkerGlance
from gandy.viewer.picture import Picture

FEW: Final = 3  # of those with one version of gandy, that are named
MANY: Final = 50  # workers, and jobs, that are named: a longer list helps no person


class Severity(StrEnum):
    BAD = "bad"  # work is lost, fails, or stands still
    WARNING = "warning"


class Trouble(Struct, frozen=True):
    """One thing that is wrong. `kind` is for programs: store, foreman, worker, job, clock."""

    kind: str
    severity: Severity
    text: str
    about: str = ""  # the number of the job, the id of the worker, or the number of the shard


def list_trouble(picture: Picture) -> list[Trouble]:
    found = [
        *_about_stores(picture),
        *_about_workers(picture),
        *_about_versions(picture),
        *islice(_about_jobs(picture), MANY),
    ]
    return sorted(found, key=lambda trouble: trouble.severity is not Severity.BAD)


def _about_stores(picture: Picture) -> Iterator[Trouble]:
    for shard, text in picture.troubles.items():
        yield Trouble("store", Severity.BAD, f"The store has a problem, and takes no new work: {text}", str(shard))


def _about_workers(picture: Picture) -> Iterator[Trouble]:
    workers = list(picture.list_workers())
    yield from islice((trouble for worker in workers for trouble in _about_worker(worker)), MANY)
    if picture.shards and picture.count("waiting") and not any(worker.connected for worker in workers):
        text = "Tasks wait, and no worker is connected: start one with 'gandy worker run'."
        yield Trouble("worker", Severity.BAD, text)


def _about_worker(worker: WorkerGlance) -> Iterator[Trouble]:
    if not worker.connected:
        yield Trouble("worker", Severity.BAD, f"Worker {worker.name} is away.", worker.id)
    elif worker.silent_seconds:
        text = f"Worker {worker.name} has been silent for {worker.silent_seconds:.0f} s."
        yield Trouble("worker", Severity.WARNING, text, worker.id)
    if worker.problem:
        yield Trouble("worker", Severity.WARNING, f"Worker {worker.name}: {worker.problem}", worker.id)


def _about_versions(picture: Picture) -> Iterator[Trouble]:
    users: defaultdict[str, list[str]] = defaultdict(list)  # of each version
    for version in {update.version for update in picture.shards.values()}:
        users[version].append("a foreman" if len(picture.shards) > 1 else "the foreman")
    for worker in picture.list_workers():
        users[worker.version].append(worker.name)
    users.pop("", None)  # who does not say
    if len(users) > 1:
        parts = [f"{version} ({_name_some(users[version])})" for version in sorted(users)]
        yield Trouble("worker", Severity.WARNING, f"The crew has different versions of gandy: {', '.join(parts)}.")


def _name_some(names: Sequence[str]) -> str:
    shown = ", ".join(names[:FEW])
    return f"{shown} and {len(names) - FEW} more" if len(names) > FEW else shown


def _about_jobs(picture: Picture) -> Iterator[Trouble]:
    for glance in reversed(picture.jobs.values()):
        failed, tasks = glance.counts.failed, glance.counts.total
        if failed and glance.state is not JobState.CANCELLED:
            severity = Severity.BAD if glance.state is JobState.FAILED else Severity.WARNING
            yield Trouble("job", severity, f"Job {glance.job}: {failed:,} of {tasks:,} tasks failed.", str(glance.job))
