"""Formats jobs, tasks, workers and keys for commands: as JSON that scripts may rely on, and as text for tables.

Keys of the JSON are never renamed or removed; times are seconds since 1970, sizes are bytes.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, TypeVar

from msgspec.structs import asdict

from gandy.client.foremen import shorten_id
from gandy.core.explain import describe_ending
from gandy.core.requests import ForemanRow, ForemanStatus, KeyRow, WorkerRow
from gandy.core.rows import JobRow, TaskRow
from gandy.moments import Wall
from gandy.terminal.people import (
    format_age,
    format_bytes,
    format_command,
    format_count,
    format_seconds,
)
from gandy.terminal.say import encode_json, say

if TYPE_CHECKING:
    from gandy.terminal.options import Format

PAGE_LINES: Final = 1_000  # printed together

T = TypeVar("T")

JOB_KEYS: Final = (
    "job name state command tasks waiting assigned running finished failed cancelled held submitted changed "
    "cwd env retries timeout priority slots tags limit after after_any after_each at problem"
)
_JOB_KEYS: Final = tuple(JOB_KEYS.split())
TASK_KEYS: Final = (
    "job task state attempt worker claimed started ended cause exit_code signal peak_memory_bytes note tail "
    "out_bytes err_bytes"
)

JOB_HEADERS: Final = (">job", "name", "state", ">tasks", ">finished", ">failed", ">running", "submitted", "command")
TASK_HEADERS: Final = (">task", ">attempt", "state", "worker", ">took", ">memory", "end")
WORKER_HEADERS: Final = (
    "name",
    "state",
    ">slots",
    ">used",
    ">tasks",
    ">calls",
    ">load",
    ">memory",
    ">last seen",
    "version",
    "tags",
    "commands",
    "id",
)


KEY_HEADERS: Final = ("id", "name", "role", "state", ">links", "made", "expires", "origin")


FOREMAN_HEADERS: Final = ("name", "id", "state", "shards", ">jobs", ">lease", ">last seen", "version", "address")


def key_to_cells(row: KeyRow, now: Wall) -> tuple[str, ...]:
    made = format_age(row.made, now) if row.made else ""
    expires = "" if row.expires is None else _format_expiry(row.expires, now)
    origin = f"{row.origin}, good for {row.uses} more" if row.uses else row.origin
    return row.id, row.name, row.role, row.state, format_count(row.links), made, expires, origin


def _format_expiry(expires: Wall, now: Wall) -> str:
    return f"in {format_seconds(expires - now)}" if expires > now else format_age(expires, now)


class RowView(NamedTuple, Generic[T]):
    """How rows of one kind are printed: in a table, as JSON, or by name or number only."""

    headers: Sequence[str]
    to_cells: Callable[[T], Sequence[str]]
    to_json: Callable[[T], object]
    to_name: Callable[[T], object]

    def print(self, output: "Format", rows: Iterable[T]) -> None:
        if output == "table":
            from gandy.terminal.table import draw_table

            draw_table(self.headers, map(self.to_cells, rows))
        elif output == "quiet":
            print_lines(str(self.to_name(row)) for row in rows)
        else:
            print_lines(encode_json(self.to_json(row)) for row in rows)


def view_jobs(now: Wall) -> RowView[JobRow]:
    return RowView(JOB_HEADERS, lambda row: job_to_cells(row, now), job_to_json, lambda row: row.job)


def view_tasks(job: int) -> RowView[TaskRow]:
    return RowView(TASK_HEADERS, task_to_cells, lambda row: task_to_json(job, row), lambda row: row.task)


def view_workers() -> RowView[WorkerRow]:
    return RowView(WORKER_HEADERS, worker_to_cells, asdict, lambda row: row.name)


def view_foremen() -> RowView[ForemanRow]:
    return RowView(FOREMAN_HEADERS, foreman_to_cells, asdict, lambda row: row.id)


def view_keys(now: Wall) -> RowView[KeyRow]:
    return RowView(KEY_HEADERS, lambda row: key_to_cells(row, now), asdict, lambda row: row.id)


def print_lines(lines: Iterable[str]) -> None:
    """Print lines, many at a time: there may be a million."""
    rest = iter(lines)
    while page := list(islice(rest, PAGE_LINES)):
        say("\n".join(page))


def job_to_json(row: JobRow) -> dict[str, Any]:
    values = asdict(row.spec) | asdict(row.counts)
    values |= {
        "job": row.job,
        "state": _name_state(row),
        "held": row.held,
        "submitted": row.submitted,
        "changed": row.changed,
        "problem": row.problem or None,
        "env": dict.fromkeys(row.spec.env),  # values are secrets, and the foreman does not send them
    }
    return {key: values[key] for key in _JOB_KEYS}


def task_to_json(job: int, row: TaskRow) -> dict[str, Any]:
    values: dict[str, Any] = dict.fromkeys(TASK_KEYS.split())
    if row.ending is not None:
        values |= asdict(row.ending)
        del values["result"], values["result_bytes"]  # pickled, and perhaps large
        values |= {
            "cause": row.ending.cause.name.lower(),
            "tail": row.ending.tail.decode(errors="replace"),
        }
    values |= {
        "job": job,
        "task": row.task,
        "state": row.state.name.lower(),
        "attempt": row.attempt,
        "worker": row.worker,
        "claimed": row.claimed,
        "ended": row.ended,
    }
    return values


def _name_state(row: JobRow) -> str:
    return "unreadable" if row.problem else row.state.name.lower()


def job_to_cells(row: JobRow, now: Wall) -> Sequence[str]:
    counts = (row.spec.tasks, row.counts.finished, row.counts.failed, row.counts.running)
    tasks, finished, failed, running = map(format_count, counts)
    age, command = format_age(row.submitted, now), format_command(row.spec.command)
    return str(row.job), row.spec.name, _name_state(row), tasks, finished, failed, running, age, command


def job_to_fields(row: JobRow, now: Wall) -> list[tuple[str, str]]:
    spec = row.spec
    counts = ", ".join(f"{format_count(count)} {state}" for state, count in row.counts.list_by_progress() if count)
    return [
        ("job", str(row.job)),
        ("name", spec.name),
        ("state", _name_state(row)),
        ("problem", f"it cannot be read, and is set aside: {row.problem}" if row.problem else ""),
        ("tasks", f"{format_count(spec.tasks)}: {counts}"),
        ("command", format_command(spec.command)),
        ("folder", spec.cwd),
        ("environment", " ".join(spec.env)),
        ("submitted", format_age(row.submitted, now)),
        ("changed", format_age(row.changed, now)),
        ("held", "yes" if row.held else ""),
        ("priority", str(spec.priority) if spec.priority else ""),
        ("retries", format_count(spec.retries) if spec.retries else ""),
        ("timeout", "" if spec.timeout is None else format_seconds(spec.timeout)),
        ("slots", f"{format_count(spec.slots)} for each task" if spec.slots > 1 else ""),
        ("limit", "" if spec.limit is None else f"{format_count(spec.limit)} tasks at the same time"),
        ("tags", ", ".join(spec.tags)),
        ("after", ", ".join(f"job {job}" for job in spec.after)),
        ("after any end of", ", ".join(f"job {job}" for job in spec.after_any)),
        ("task by task after", ", ".join(f"job {job}" for job in spec.after_each)),
    ]


def task_to_cells(row: TaskRow) -> Sequence[str]:
    took = memory = end = ""
    if row.ending is not None:
        end = describe_ending(row.ending)
        if row.ending.started is not None and row.ending.ended is not None:
            took = format_seconds(row.ending.ended - row.ending.started)
        if row.ending.peak_memory_bytes is not None:
            memory = format_bytes(row.ending.peak_memory_bytes)
    return str(row.task), str(row.attempt or ""), row.state.name.lower(), row.worker, took, memory, end


def worker_to_cells(row: WorkerRow) -> Sequence[str]:
    slots, used, running, calls = map(format_count, (row.slots, row.used, row.running, row.calls))
    load, memory = format_load(row.load, row.cores), format_memory(row.memory_bytes, row.memory_total_bytes)
    silence = f"{format_seconds(row.silent_seconds)} ago"
    tags, commands = ", ".join(row.tags), ", ".join(row.commands)
    numbers = (slots, used, running, calls, load, memory, silence)
    return row.name, _name_worker_state(row), *numbers, row.version, tags, commands, row.id


def _name_worker_state(row: WorkerRow) -> str:
    return "absent" if not row.connected else "draining" if row.draining else "short" if row.problem else "ready"


def format_load(load: float | None, cores: int | None) -> str:
    """The load of a machine, beside what it can do at once; empty if it is not known."""
    if load is None:
        return ""
    return f"{load:.1f} on {format_count(cores)} cores" if cores else f"{load:.1f}"


def format_memory(used: int | None, total: int | None) -> str:
    """The memory of a machine that is in use; empty if it is not known."""
    if not used:
        return ""
    return f"{format_bytes(used)} of {format_bytes(total)}" if total else format_bytes(used)


def worker_to_fields(row: WorkerRow) -> list[tuple[str, str]]:
    return [
        ("name", row.name),
        ("id", row.id),
        ("state", _name_worker_state(row)),
        ("short of", row.problem),
        ("slots", f"{format_count(row.used)} of {format_count(row.slots)} in use"),
        ("tasks", f"{format_count(row.running)} running"),
        ("calls", f"{format_count(row.calls)} in progress" if row.calls else ""),
        ("load", format_load(row.load, row.cores)),
        ("memory", format_memory(row.memory_bytes, row.memory_total_bytes)),
        ("last seen", f"{format_seconds(row.silent_seconds)} ago"),
        ("version", row.version),
        ("tags", ", ".join(row.tags)),
        ("commands", ", ".join(row.commands)),
        ("shared time", "known" if row.knows_time else ""),
    ]


def foreman_to_cells(row: ForemanRow) -> Sequence[str]:
    lease = ""
    if row.shards:
        lease = f"{format_seconds(row.lease_seconds)} left" if row.lease_seconds > 0 else "expired"
    state = "gone" if row.is_gone else "leaving" if row.is_leaving else "asked" if row.is_here else ""
    shards, jobs = ", ".join(map(str, row.shards)), format_count(row.jobs)
    silence = f"{format_seconds(row.silent_seconds)} ago"
    return row.name, shorten_id(row.id), state, shards, jobs, lease, silence, row.version, " or ".join(row.places)


def _format_tasks(status: ForemanStatus) -> str:
    assigned = f"{format_count(status.assigned)} assigned, " if status.assigned else ""
    return f"{format_count(status.running)} running, {assigned}{format_count(status.waiting)} waiting"


def _warn_of_versions(status: ForemanStatus) -> str:
    if len(status.versions) < 2:
        return ""
    return f"versions of gandy differ: {', '.join(status.versions)}; 'worker list' and 'foreman list' say whose"


def status_to_fields(status: ForemanStatus) -> list[tuple[str, str]]:
    return [
        ("foreman", f"version {status.version}, process {status.pid}"),
        ("up for", format_seconds(status.uptime_seconds)),
        ("listens at", " and ".join(status.listening)),
        ("security", f"INSECURE: without keys: {' and '.join(status.insecure_doors)}" if status.insecure else ""),
        ("foremen", f"{format_count(status.foremen)} in the crew" if status.foremen > 1 else ""),
        ("store", status.store),
        ("trouble", status.trouble),
        ("warning", _warn_of_versions(status)),
        ("workers", format_count(status.workers)),
        ("slots", f"{format_count(status.used)} of {format_count(status.slots)} in use"),
        ("jobs", f"{format_count(status.jobs)} not ended"),
        ("set aside", f"{format_count(status.unreadable)} that cannot be read" if status.unreadable else ""),
        ("tasks", _format_tasks(status)),
    ]
