"""`gandy store`: copies one store to another."""

import asyncio
import sys

import click

from gandy.progress import ProgressBar
from gandy.store import describe_store, make_lone_store
from gandy.store.copying import Progress, copy_store
from gandy.terminal.exits import make_epilog
from gandy.terminal.options import Format, output_option
from gandy.terminal.people import format_count
from gandy.terminal.say import print_result, say

EXAMPLES = (
    "gandy store copy sqlite:jobs.db postgresql://gandy@db/crew",
    "gandy store copy postgresql://gandy@db/crew?schema=night sqlite:night.db",
)


@click.group(epilog=make_epilog(*EXAMPLES))
def store() -> None:
    """Copy the jobs and the history of one store to another."""


@store.command(epilog=make_epilog(*EXAMPLES))
@click.argument("source", metavar="FROM")
@click.argument("target", metavar="TO")
@output_option
def copy(source: str, target: str, output: Format) -> None:
    """Copy all jobs, with their tasks, attempts, lines and results, and the history from one store to another.

    FROM and TO are as --store of 'gandy foreman run': sqlite:PATH or postgresql://… with an optional schema=NAME. Stop
    all foremen of both first. The target must have no jobs. Numbers of jobs stay the same, and running tasks go on when
    a foreman starts with the target; start none with the source any more. A client that sends a submission again then
    finds its job. Progress is shown on standard error.

    The history goes with them: 'gandy status --at' and the dashboard show the time before the move, too. It is left out
    if the target has a history of its own, and cut to the newest 32 MB of each kind of sample.

    With --output json, one object is printed, with the keys from, to, jobs, tasks, unreadable (numbers of jobs that
    cannot be read, and were not copied), samples (of the history) and history_problem (why not all of it was copied, or
    ""). With --output quiet, only the number of jobs is printed.
    """
    done = _copy(source, target, is_shown=sys.stderr.isatty() and output != "quiet")
    if done.unreadable:
        numbers = ", ".join(map(str, done.unreadable))
        say(f"gandy: these jobs cannot be read, and were not copied: {numbers}", err=True)
    if done.history_problem:
        say(f"gandy: the history was not copied: {done.history_problem}", err=True)
    places = describe_store(source), describe_store(target)
    print_result(
        output,
        f"copied {format_count(done.jobs)} jobs with {format_count(done.tasks)} tasks, and "
        f"{format_count(done.samples)} samples of the history, from {places[0]} to {places[1]}",
        {
            "from": places[0],
            "to": places[1],
            "jobs": done.jobs,
            "tasks": done.tasks,
            "unreadable": list(done.unreadable),
            "samples": done.samples,
            "history_problem": done.history_problem,
        },
        done.jobs,
    )


def _copy(source: str, target: str, is_shown: bool) -> Progress:
    stores = make_lone_store(source), make_lone_store(target)
    if not is_shown:
        return asyncio.run(copy_store(*stores, lambda _progress: None))
    with ProgressBar() as bar:
        return asyncio.run(copy_store(*stores, lambda now: bar.show("copied", now.tasks, now.all_tasks)))
