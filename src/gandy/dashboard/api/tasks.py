"""Answers about the tasks of a job: rows, attempts, output and states."""

import asyncio
import gzip
import zlib
from codecs import getincrementaldecoder
from collections.abc import Sequence
from http import HTTPStatus
from typing import Annotated, Any, Final, Literal

from msgspec import Meta, Struct

from gandy.client.output import OUTPUT_PAUSES
from gandy.client.repeats import growing, return_pauses
from gandy.core.model import TaskState
from gandy.core.requests import ListAttempts, ListTasks, Output, ReadOutput, ReadStates, TaskList
from gandy.core.rows import TaskRow
from gandy.core.views import TaskUpdate
from gandy.dashboard.api.jobs import Limit
from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.endpoints import ApiCall
from gandy.dashboard.limits import MAX_ATTEMPTS, MAX_FOLLOWED_OUTPUTS
from gandy.dashboard.messages import TEXT, HttpRefusal, HttpResponse, Streaming
from gandy.dashboard.rows import TaskStateName
from gandy.dashboard.stream import Stream, make_event
from gandy.errors import GandyError, JobMoved, JobNotFound, LinkError
from gandy.ids import JobId, TaskNumber
from gandy.limits import LAST_INTEGER, MAX_ATTEMPT, MAX_OUTPUT_PIECE_BYTES, MAX_STATES, MAX_TASKS
from gandy.terminal.rows import task_to_json
from gandy.viewer.states import TaskStates
from gandy.viewer.watcher import find_tasks

BYTES: Final = "application/octet-stream"


class TasksQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which tasks: by number, those above `after`, in one of these states."""

    state: tuple[TaskStateName, ...] = ()
    limit: Limit = 100
    after: Annotated[int, Meta(ge=0, le=MAX_TASKS)] = 0


class OutputQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which part of a task's output, and of which attempt; 0: the last one."""

    stream: Literal["out", "err"] = "out"
    offset: Annotated[int, Meta(ge=0, le=LAST_INTEGER)] = 0
    limit: Annotated[int, Meta(ge=1, le=MAX_OUTPUT_PIECE_BYTES)] = 65_536
    attempt: Annotated[int, Meta(ge=0, le=MAX_ATTEMPT)] = 0


class StreamQuery(Struct, frozen=True, forbid_unknown_fields=True):
    """Which of the two outputs of a task."""

    stream: Literal["out", "err"] = "out"


class TaskAnswer(Struct, frozen=True):
    """A task with its last attempt, as `gandy job show --tasks --output json` shows it."""

    job: int
    task: int
    state: TaskStateName
    attempt: int
    worker: str
    claimed: float | None
    started: float | None
    ended: float | None
    cause: str | None
    exit_code: int | None
    signal: int | None
    peak_memory_bytes: int | None
    note: str | None
    tail: str | None
    out_bytes: int | None
    err_bytes: int | None


class OneTaskAnswer(TaskAnswer, frozen=True):
    """The same, and its attempts, the first one first; of very many, the last."""

    attempts: tuple[TaskAnswer, ...]


class TasksAnswer(Struct, frozen=True):
    """`next`: the value of `after` for the next page; null: there is none."""

    tasks: tuple[TaskAnswer, ...]
    next: int | None


async def list_tasks(crew: ShownCrew, call: ApiCall) -> dict[str, Any]:
    query: TasksQuery = call.query
    states = tuple(TaskState[name.upper()] for name in query.state) or None
    job = JobId(call.job)

    async def read(limit: int, after: int) -> Sequence[TaskRow]:
        return (await crew.client.connection.ask(ListTasks(job, states, limit, TaskNumber(after)), TaskList)).rows

    rows = await read(query.limit, query.after)
    has_more = bool(rows) and bool(await read(1, rows[-1].task))
    return {"tasks": [task_to_json(job, row) for row in rows], "next": rows[-1].task if has_more else None}


async def show_task(crew: ShownCrew, call: ApiCall) -> dict[str, Any]:
    job, task = JobId(call.job), TaskNumber(call.task)
    rows = await find_tasks(crew.client, job, (task,))
    if not rows:
        raise JobNotFound(f"job {job} has no task {task}")
    after = max(0, rows[0].attempt - MAX_ATTEMPTS)
    attempts = await crew.client.connection.ask(ListAttempts(job, task, after), TaskList)
    return {**task_to_json(job, rows[0]), "attempts": [task_to_json(job, row) for row in attempts.rows[-MAX_ATTEMPTS:]]}


# Output


async def read_output(crew: ShownCrew, call: ApiCall) -> HttpResponse:
    query: OutputQuery = call.query
    piece = await _read_piece(crew, call, query.stream, query.attempt, query.offset, query.limit)
    headers = {"X-Gandy-Attempt": str(piece.attempt), "X-Gandy-Last": "true" if piece.is_last else "false"}
    return HttpResponse(HTTPStatus.OK, piece.data, TEXT, headers)


async def _read_piece(crew: ShownCrew, call: ApiCall, stream: str, attempt: int, offset: int, limit: int) -> Output:
    request = ReadOutput(JobId(call.job), TaskNumber(call.task), stream, attempt, offset, limit)
    return await crew.client.connection.ask(request, Output)


async def follow_output(crew: ShownCrew, call: ApiCall) -> Streaming:
    await _read_piece(crew, call, call.query.stream, 0, 0, 0)  # refuses what does not exist
    if crew.followed_outputs >= MAX_FOLLOWED_OUTPUTS:
        raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, "too_many", "the output of too many tasks is followed now")

    async def run(stream: Stream) -> None:
        crew.followed_outputs += 1
        try:
            problem = await _follow(crew, call, stream)
        finally:
            crew.followed_outputs -= 1
        stream.write(make_event("end", {"problem": problem}))

    return Streaming(run)


async def _follow(crew: ShownCrew, call: ApiCall, stream: Stream) -> str:
    """Send what a task writes, as it is written. Returns why that ended early; empty, if it did not."""
    attempt = offset = 0
    pauses, link_pauses = growing(*OUTPUT_PAUSES), return_pauses()
    decode = getincrementaldecoder("utf-8")("replace").decode  # a letter may begin in one piece and end in the next
    while True:
        await stream.wait_for_room()
        try:
            piece = await _read_piece(crew, call, call.query.stream, attempt, offset, 65_536)
        except (LinkError, JobMoved):
            await asyncio.sleep(next(link_pauses))
            continue
        except GandyError as error:
            return str(error)
        attempt, offset = piece.attempt, offset + len(piece.data)
        if piece.data:
            pauses, link_pauses = growing(*OUTPUT_PAUSES), return_pauses()
            stream.write(make_event("output", decode(piece.data)))
        if piece.is_last:
            return ""
        if not piece.data:
            await asyncio.sleep(next(pauses))


# States


async def read_states(crew: ShownCrew, call: ApiCall) -> HttpResponse:
    """One byte for each task, compressed as the browser accepts it."""
    states = TaskStates()
    ask, job, first = crew.client.connection.ask, JobId(call.job), 1
    update = await ask(ReadStates(job), TaskUpdate)
    headers = {"X-Gandy-Tasks": str(update.tasks), "Vary": "Accept-Encoding"}
    if update.tasks <= MAX_STATES and call.request.accepts_encoding("deflate"):
        return HttpResponse(HTTPStatus.OK, update.states, BYTES, {**headers, "Content-Encoding": "deflate"})
    states.apply(update)
    while (first := first + MAX_STATES) <= update.tasks:
        states.apply(await ask(ReadStates(job, TaskNumber(first)), TaskUpdate))
    for name, pack in (("deflate", zlib.compress), ("gzip", gzip.compress)):
        if call.request.accepts_encoding(name):
            body = await asyncio.to_thread(pack, bytes(states.packed), 1)
            return HttpResponse(HTTPStatus.OK, body, BYTES, {**headers, "Content-Encoding": name})
    return HttpResponse(HTTPStatus.OK, bytes(states.packed), BYTES, headers)


async def stream_states(crew: ShownCrew, call: ApiCall) -> Streaming:
    job = JobId(call.job)
    crew.states.check_room(job)
    await crew.client.job(job).status()  # refuses a job that does not exist
    return Streaming(lambda stream: crew.states.stream(job, stream))
