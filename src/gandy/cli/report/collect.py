"""Asks the foreman, the workers and the audit for all that a report has."""

import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Final

from gandy.cli.report.material import CrewReport, ReportedJob
from gandy.cli.report.sections import SHOWN_TAIL_BYTES, choose_tails
from gandy.client.aio import AsyncClient
from gandy.clocks import read_wall
from gandy.core.requests import Output, ReadOutput, ReadStates
from gandy.core.rows import TaskRow
from gandy.core.views import TaskUpdate
from gandy.errors import GandyError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAGE, MAX_STATES
from gandy.viewer.states import TaskStates
from gandy.viewer.summary import JobSample, make_summary, read_sample

REPEATED_TASKS: Final = 10  # whose attempts are listed


async def collect_report(client: AsyncClient, jobs: Iterable[int]) -> CrewReport:
    """Raises: JobNotFound, LinkError."""
    found = [await _collect_job(client, JobId(job)) for job in dict.fromkeys(jobs)]
    status, workers = await client.status(), await client.workers()
    return CrewReport(float(read_wall()), str(client.address), status, workers, tuple(found))


async def _collect_job(client: AsyncClient, job: JobId) -> ReportedJob:
    sample = await read_sample(client, job)
    known = ReportedJob(sample, make_summary(sample), await read_states(client, job))
    return ReportedJob(
        known.sample,
        known.summary,
        known.states,
        tuple([await client.job(job).attempts(row.task) for row in _choose_repeated(sample)]),
        {row.task: data for row in choose_tails(known) if (data := await _read_end(client, job, row))},
        await _find_submitter(client, job),
    )


async def read_states(client: AsyncClient, job: JobId) -> bytes:
    """The states of all tasks of a job, a byte each."""
    states = TaskStates()
    first = 1
    while True:
        states.apply(await client.connection.ask(ReadStates(job, TaskNumber(first)), TaskUpdate))
        first += MAX_STATES
        if first > len(states):
            return bytes(states.packed)


def _choose_repeated(sample: JobSample) -> list[TaskRow]:
    """The tasks that failed or were lost most often, and were tried again."""
    rows = [row for row in sample.list_all() if row.attempt > 1 and row.failures + row.crashes]
    return sorted(rows, key=lambda row: (-row.failures - row.crashes, row.task))[:REPEATED_TASKS]


async def _read_end(client: AsyncClient, job: JobId, row: TaskRow) -> bytes:
    """The end of what a task wrote to standard output, if its worker has it."""
    size = 0 if row.ending is None else row.ending.out_bytes
    if size <= 0:
        return b""
    offset = max(0, size - SHOWN_TAIL_BYTES)
    request = ReadOutput(job, row.task, "out", row.attempt, offset, SHOWN_TAIL_BYTES)
    try:
        return (await client.connection.ask(request, Output)).data
    except GandyError:
        return b""  # the worker is away, or has removed it


# Who submitted it


async def _find_submitter(client: AsyncClient, job: JobId) -> str:
    """Who submitted a job, and from where; empty if that cannot be found out here."""
    try:
        lines = await client.audit(MAX_PAGE)
    except GandyError:
        return ""  # our key may not read the audit
    if lines is not None:
        return find_submitter((line.encode() for line in lines), job)
    return find_submitter(_read_audit(client.address.host), job) if client.address.scheme == "unix" else ""


def _read_audit(socket: str) -> Iterator[bytes]:
    """The lines of the audit that a foreman on this machine writes beside its socket."""
    for name in ("audit.jsonl.1", "audit.jsonl"):
        try:
            with (Path(socket).parent / name).open("rb") as file:
                yield from file
        except OSError:
            continue


def find_submitter(lines: Iterable[bytes], job: JobId) -> str:
    """Find who submitted a job last: a number may be given twice, after a backup was restored."""
    found = ""
    for line in lines:
        if b'"submitted"' in line:
            entry = _parse_entry(line)
            if entry.get("what") == "submitted" and entry.get("job") == job:
                found = f"{entry.get('who', '')}, from {entry.get('from', '')}"
    return found


def _parse_entry(line: bytes) -> dict[str, Any]:
    try:
        entry = json.loads(line)
    except ValueError:
        return {}  # it is being written
    return entry if isinstance(entry, dict) else {}
