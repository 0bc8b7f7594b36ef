"""Turns the results of function tasks into return values and exceptions."""

from collections.abc import Iterator
from concurrent.futures import CancelledError
from typing import Any, Final

from gandy.core.model import Cause, TaskState
from gandy.core.requests import ResultRow
from gandy.errors import TaskFailed
from gandy.functions import open_error, open_result
from gandy.functions.tasks import ADVICE

DIED: Final = {
    Cause.EXIT: "its process ended before the function returned",
    Cause.SIGNAL: "its process died",
    Cause.RAISED: "it raised an exception, which is no longer kept",
    Cause.NOT_RETRIED: "it raised an exception, which is no longer kept",
    Cause.MEMORY: "it used too much memory and was killed",
    Cause.TIMEOUT: "it took too long and was killed",
    Cause.NOT_STARTED: "it could not start",
    Cause.WORKER_LOST: "it was lost with its worker, again and again",
}


def open_value(result: bytes) -> tuple[Any, BaseException | None]:
    """Open a return value. Returns the value and None, or None and what opening its pickle raised."""
    try:
        return open_result(result), None
    except BaseException as error:  # noqa: BLE001 - opening a pickle runs code of the value, in our thread
        return None, error


def open_row(row: ResultRow, is_chunk: bool) -> Iterator[Any]:
    """Iterate over the value of a task, or the values of a chunk.

    Raises: what the function raised, TaskFailed, CancelledError.
    """
    if row.state is TaskState.CANCELLED:
        raise CancelledError(f"task {row.task} was cancelled")
    if row.state is not TaskState.FINISHED:
        raise make_error(row)
    if not row.result:  # a large one would have been fetched by now
        raise TaskFailed(f"task {row.task}: its value is no longer kept")
    value = open_result(row.result)
    yield from value if is_chunk else (value,)


def make_error(row: ResultRow) -> BaseException:
    """Make the exception for a task that has no return value."""
    if row.cause in (Cause.RAISED, Cause.NOT_RETRIED) and row.result:
        error = open_error(row.result)
        if ADVICE in getattr(error, "__notes__", ()):
            from gandy.functions.versions import format_versions  # it costs time, and is seldom needed

            error.add_note(f"Here there is {format_versions(error)}.")
        return error
    how = DIED.get(row.cause, row.cause.name.lower())
    error = TaskFailed(f"task {row.task}: {how}" + (f" ({row.note})" if row.note else ""))
    if row.tail:
        error.add_note(row.tail.decode(errors="replace").rstrip())
    return error
