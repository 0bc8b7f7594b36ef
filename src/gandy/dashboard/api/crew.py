"""Answers about the crew as a whole: the session, the picture, its workers and foremen."""

from http import HTTPStatus
from typing import Annotated, Any, Final

from msgspec import Meta, Struct, defstruct
from msgspec.structs import asdict, fields

from gandy import __version__
from gandy.core.requests import ForemanRow, ForemanStatus, WorkerRow
from gandy.core.roles import CrewRole
from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.endpoints import ApiCall
from gandy.dashboard.messages import TEXT, HttpResponse, Streaming
from gandy.dashboard.metrics import CONTENT_TYPE
from gandy.limits import MAX_TEXT


class SessionAnswer(Struct, frozen=True):
    """Who asks, and what it may do."""

    role: str  # owner, client or observer
    can_change: bool
    version: str
    foreman: str  # its address
    can_see_history: bool


class WorkersAnswer(Struct, frozen=True):
    workers: tuple[WorkerRow, ...]


class ForemenAnswer(Struct, frozen=True):
    foremen: tuple[ForemanRow, ...]


# As `gandy status --output json` shows it: without the tag that the wire needs.
StatusAnswer: Final = defstruct("StatusAnswer", [(each.name, each.type) for each in fields(ForemanStatus)])


class StopWorkerBody(Struct, frozen=True, forbid_unknown_fields=True):
    """It gets no more tasks, and stops when those that it has have ended; with `immediate`, they are killed."""

    immediate: bool = False


class WorkerStopped(Struct, frozen=True):
    worker: Annotated[str, Meta(max_length=MAX_TEXT)]
    immediate: bool


async def show_session(crew: ShownCrew, _call: ApiCall) -> SessionAnswer:
    role = CrewRole.CLIENT if crew.role is CrewRole.ANYBODY else crew.role
    return SessionAnswer(role.value, crew.can_change, __version__, str(crew.client.address), can_see_history=True)


async def show_crew(crew: ShownCrew, _call: ApiCall) -> HttpResponse:
    return HttpResponse(HTTPStatus.OK, crew.feed.read())


async def stream_crew(crew: ShownCrew, _call: ApiCall) -> Streaming:
    return Streaming(crew.feed.stream)


async def show_health(crew: ShownCrew, _call: ApiCall) -> HttpResponse:
    """It says no more than a number to those without a token."""
    count = crew.feed.count_trouble()
    if not count:
        return HttpResponse(HTTPStatus.OK, b"ok\n", TEXT)
    return HttpResponse(HTTPStatus.SERVICE_UNAVAILABLE, b"trouble: %d\n" % count, TEXT)


async def show_metrics(crew: ShownCrew, _call: ApiCall) -> HttpResponse:
    return HttpResponse(HTTPStatus.OK, crew.feed.format_metrics(crew.streams), CONTENT_TYPE)


async def list_workers(crew: ShownCrew, _call: ApiCall) -> WorkersAnswer:
    return WorkersAnswer(await crew.client.workers())


async def stop_worker(crew: ShownCrew, call: ApiCall) -> WorkerStopped:
    await crew.client.stop_worker(call.name, immediate=call.body.immediate)
    return WorkerStopped(call.name, call.body.immediate)


async def list_foremen(crew: ShownCrew, _call: ApiCall) -> ForemenAnswer:
    return ForemenAnswer(await crew.client.foremen())


async def show_status(crew: ShownCrew, _call: ApiCall) -> dict[str, Any]:
    return asdict(await crew.client.status())
