"""`gandy status --at`: how the crew stood at a moment of the past, from its history."""

import asyncio
from datetime import datetime
from typing import TYPE_CHECKING

import click

from gandy.client.aio import AsyncClient
from gandy.core.past_crew import CrewThen
from gandy.moments import Wall
from gandy.terminal.exits import ExitCode
from gandy.terminal.past_rows import (
    JOB_HEADERS,
    WORKER_HEADERS,
    format_moment,
    past_job_to_cells,
    past_to_fields,
    past_to_json,
    past_worker_to_cells,
)
from gandy.terminal.people import format_count
from gandy.terminal.say import print_json, say
from gandy.terminal.table import draw_fields, draw_table
from gandy.terminal.times import PastMoment
from gandy.viewer.history import find_beginning, read_at

if TYPE_CHECKING:
    from gandy.terminal.options import Format


def show_past(written: PastMoment, foreman: tuple[str, ...], output: "Format") -> ExitCode:
    """Raises: BadParameter: the moment is to come. LinkError: no foreman can be reached."""
    local = datetime.now()  # without a zone: one with its current offset would miss a change to or from summer time
    now, at = Wall(local.timestamp()), written.to_wall_time(local)
    assert at is not None, "the option has refused it"
    if at > now:
        moments = f"{format_moment(at)} is in the future: it is {format_moment(now)} now"
        raise click.BadParameter(f"{moments}, and the history shows only what was", param_hint="'--at'")
    then, begin = asyncio.run(_look(foreman, at, now))
    if then is None:
        known = "no sample is kept yet" if begin is None else f"it begins at about {format_moment(begin)}"
        say(f"gandy: there is no history of {format_moment(at)}: {known}", err=True)
        return ExitCode.FAILED
    _print(then, at, output)
    return ExitCode.DONE


async def _look(foreman: tuple[str, ...], at: Wall, now: Wall) -> tuple[CrewThen | None, Wall | None]:
    """The crew then or, if that is not known, about when its history begins."""
    async with AsyncClient(foreman) as client:
        then = await read_at(client, float(at))
        return then, await find_beginning(client, now) if then is None else None


def _print(then: CrewThen, at: Wall, output: "Format") -> None:
    if output == "json":
        print_json(past_to_json(then, at))
    elif output == "quiet":
        say(f"{float(then.at):.3f}")
    else:
        draw_fields(past_to_fields(then, at))
        if then.jobs:
            say("")
            draw_table(JOB_HEADERS, (past_job_to_cells(job, then) for job in then.jobs))
            if then.unfinished > len(then.jobs):
                say(f"and {format_count(then.unfinished - len(then.jobs))} more jobs, which were not recorded by name")
        if then.workers:
            say("")
            draw_table(WORKER_HEADERS, map(past_worker_to_cells, then.workers))
            if then.connected > len(then.workers):
                say(f"and {format_count(then.connected - len(then.workers))} more workers")
