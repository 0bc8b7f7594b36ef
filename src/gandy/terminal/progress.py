"""Waits for jobs, with a bar on a terminal and occasional lines elsewhere, and chooses the exit code."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final

import click

from gandy.core.model import FINAL_JOB_STATES, JobState
from gandy.core.rows import JobRow
from gandy.progress import ProgressBar
from gandy.terminal.exits import ExitCode
from gandy.terminal.people import format_count
from gandy.terminal.rows import job_to_json
from gandy.terminal.say import print_json, say

if TYPE_CHECKING:
    from gandy.client import Job
    from gandy.terminal.options import Format

_EXITS: Final = {
    JobState.FINISHED: ExitCode.DONE,
    JobState.FAILED: ExitCode.FAILED,
    JobState.CANCELLED: ExitCode.CANCELLED,
}


def wait_for(jobs: Iterable["Job"], output: "Format") -> ExitCode:
    """Wait until these jobs have ended, show their progress on standard error, and print what went wrong."""
    rows = []
    for job in jobs:
        row = _follow(job, is_quiet=output == "quiet")
        if output == "json":
            print_json(job_to_json(row))
        print_failure(row)
        rows.append(row)
    return choose_exit_code(rows)


def _follow(job: "Job", is_quiet: bool) -> JobRow:
    try:
        return _choose_view(is_quiet)(job.watch())
    except KeyboardInterrupt:
        text = f"job {job.id} goes on; 'gandy job wait {job.id}' waits again, 'gandy job cancel {job.id}' ends it"
        say(f"\ngandy: {text}", err=True)
        raise click.exceptions.Exit(ExitCode.INTERRUPTED) from None


def choose_exit_code(rows: list[JobRow]) -> ExitCode:
    """Choose the exit code for jobs that have ended. A failure outweighs a cancellation."""
    exits = {_EXITS[row.state] for row in rows}
    return next((code for code in (ExitCode.FAILED, ExitCode.CANCELLED) if code in exits), ExitCode.DONE)


def print_failure(row: JobRow) -> None:
    """Print what went wrong, if something did."""
    counts, job = row.counts, row.job
    if row.state is JobState.FAILED:
        failed, tasks = format_count(counts.failed), format_count(row.spec.tasks)
        text = f"job {job}: {failed} of {tasks} tasks failed; 'gandy job explain {job}' says how"
        say(f"gandy: {text}", err=True)
    elif row.state is JobState.CANCELLED:
        say(f"gandy: job {job} was cancelled", err=True)


def _choose_view(is_quiet: bool) -> Callable[[Iterator[JobRow]], JobRow]:
    if is_quiet:
        return _get_last
    return draw_bar if sys.stderr.isatty() else print_lines


def _get_last(rows: Iterator[JobRow]) -> JobRow:
    *_, last = rows
    return last


def draw_bar(rows: Iterator[JobRow]) -> JobRow:
    """Draw a bar with the state of the job, how much is done, and how many tasks failed."""
    with ProgressBar() as bar:
        for row in rows:
            bar.show(_describe_state(row), count_done(row), row.spec.tasks, row.counts.failed)
    return row


def print_lines(rows: Iterator[JobRow]) -> JobRow:
    """Print a line for each tenth of the job, and when tasks begin to run: the log of a million tasks stays short."""
    last_tenth, has_run = -1, False
    for row in rows:
        tenth, runs = 10 * count_done(row) // row.spec.tasks, row.counts.running > 0
        if tenth > last_tenth or (runs and not has_run) or row.state in FINAL_JOB_STATES:
            last_tenth, has_run = tenth, has_run or runs
            say(_make_line(row), err=True)
    return row


def count_done(row: JobRow) -> int:
    return row.counts.finished + row.counts.failed + row.counts.cancelled


def _make_line(row: JobRow) -> str:
    done, tasks = format_count(count_done(row)), format_count(row.spec.tasks)
    others = (("running", row.counts.running), ("failed", row.counts.failed), ("cancelled", row.counts.cancelled))
    rest = "".join(f", {format_count(count)} {word}" for word, count in others if count)
    return f"{_describe_state(row)}: {done} of {tasks} tasks done{rest}"


def _describe_state(row: JobRow) -> str:
    return f"job {row.job} is {row.state.name.lower()}"
