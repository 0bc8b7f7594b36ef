"""`gandy job`: shows jobs, waits for them, and changes them."""

import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Final

import click

from gandy.client import Job
from gandy.clocks import read_wall
from gandy.core.model import FINAL_JOB_STATES, JobState
from gandy.core.requests import TaskOutput
from gandy.core.rows import JobRow
from gandy.errors import GandyError, LinkError
from gandy.ids import JobId, TaskNumber
from gandy.terminal.exits import WAIT_EXIT_HELP, ExitCode, make_epilog
from gandy.terminal.options import (
    Format,
    foreman_option,
    job_argument,
    jobs_argument,
    open_client,
    output_option,
    task_option,
)
from gandy.terminal.people import make_printable
from gandy.terminal.progress import wait_for
from gandy.terminal.rows import (
    JOB_KEYS,
    TASK_KEYS,
    job_to_fields,
    job_to_json,
    view_jobs,
    view_tasks,
)
from gandy.terminal.say import print_json, print_result, say

JOB_JSON: Final = f"With --output json, a job has the keys {JOB_KEYS.replace(' ', ', ')}."
TASK_JSON: Final = f"A task has the keys {TASK_KEYS.replace(' ', ', ')}."


@click.group(epilog=make_epilog("gandy job list", "gandy job show 7", "gandy job output 7 -f", "gandy job cancel 7"))
def job() -> None:
    """Show jobs, wait for them, and change them."""


@job.command(
    "list",
    epilog=make_epilog("gandy job list", "gandy job list --all", "gandy job list --state failed --output json"),
    help=f"List jobs, the newest first: those that have not ended, or those in some states.\n\n{JOB_JSON}",
)
@click.option("--all", "show_all", is_flag=True, help="Include jobs that have ended.")
@click.option(
    "--state",
    "states",
    type=click.Choice([state.name.lower() for state in JobState]),
    multiple=True,
    help="Only jobs in this state; may be given several times.",
)
@foreman_option
@output_option
def list_jobs(show_all: bool, states: tuple[str, ...], foreman: tuple[str, ...], output: Format) -> None:
    with open_client(foreman) as client:
        rows: Iterable[JobRow] = client.jobs(_choose_states(show_all, states))
        if output == "table" and not (rows := list(rows)):
            hint = "" if show_all or states else " are waiting or running; --all shows those that have ended"
            say(f"no jobs{hint}", err=True)
            return
        view_jobs(read_wall()).print(output, rows)


def _choose_states(show_all: bool, names: tuple[str, ...]) -> Iterable[JobState] | None:
    if names:
        return [JobState[name.upper()] for name in names]
    return None if show_all else sorted(set(JobState) - FINAL_JOB_STATES)


@job.command(
    epilog=make_epilog("gandy job show 7", "gandy job show 7 --tasks", "gandy job show 7 --task 3 --output json"),
    help=f"Show one job; or its tasks, one on each line; or every attempt at one task.\n\n{JOB_JSON} {TASK_JSON}",
)
@click.option("--tasks", "show_tasks", is_flag=True, help="List its tasks, each with its last attempt.")
@task_option("List all attempts at this task.")
@job_argument
@foreman_option
@output_option
def show(number: int, show_tasks: bool, task: int | None, foreman: tuple[str, ...], output: Format) -> None:
    with open_client(foreman) as client:
        found = client.job(number)
        if task is not None:
            view_tasks(number).print(output, found.attempts(task))
        elif show_tasks:
            view_tasks(number).print(output, found.tasks())
        else:
            _show_job(found.status(), output)


def _show_job(row: JobRow, output: Format) -> None:
    if output == "table":
        from gandy.terminal.table import draw_fields

        draw_fields(job_to_fields(row, read_wall()))
    else:
        view_jobs(read_wall()).print(output, [row])


@job.command(
    epilog=make_epilog("gandy job wait 7", "gandy job wait 7 8 9 --output quiet", exits=WAIT_EXIT_HELP),
    help=f"Wait until all these jobs have ended, and exit with their result.\n\n{JOB_JSON}",
)
@jobs_argument
@foreman_option
@output_option
def wait(numbers: tuple[int, ...], foreman: tuple[str, ...], output: Format) -> None:
    with open_client(foreman) as client:
        raise click.exceptions.Exit(wait_for(map(client.job, numbers), output))


@job.command(
    epilog=make_epilog("gandy job output 7", "gandy job output 7 --task 3 --stderr", "gandy job output 7 --task 3 -f")
)
@task_option("Only the output of this task. Default: all tasks, in order.")
@click.option("--stderr", "is_error", is_flag=True, help="Print standard error instead of standard output.")
@click.option(
    "-f",
    "--follow",
    is_flag=True,
    help="Print more as it is written, until the attempt has ended.",
)
@job_argument
@foreman_option
def output(number: int, task: int | None, is_error: bool, follow: bool, foreman: tuple[str, ...]) -> None:
    """Print what tasks wrote, byte for byte, from their last attempts.

    On a terminal, if there are several tasks, a line with the number precedes the output of each.

    If some output cannot be read, standard error says so; the rest is printed, and the exit code is 1.
    """
    stream = "err" if is_error else "out"
    with open_client(foreman) as client:
        found = client.job(number)
        if task is not None:
            _print_output(found.output(task, stream, follow))
            return
        tasks = found.status().spec.tasks
        pieces = _follow_all(found, tasks, stream) if follow else found.outputs(stream)
        is_whole = _print_outputs(pieces, with_headers=tasks > 1 and sys.stdout.isatty(), flush=follow)
    if not is_whole:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _follow_all(found: Job, tasks: int, stream: str) -> Iterator[TaskOutput]:
    """Follow the output of one task after the other, each until it ends, also of those that have not begun."""
    for task in range(1, tasks + 1):
        number = TaskNumber(task)
        try:
            for data in found.output(task, stream, follow=True):
                yield TaskOutput(number, 0, data)
        except LinkError:
            raise
        except GandyError as error:
            yield TaskOutput(number, 0, problem=str(error))


def _print_outputs(pieces: Iterable[TaskOutput], with_headers: bool, flush: bool) -> bool:
    """Print output. False: some could not be read; the rest is printed all the same."""
    stdout, last, is_whole = sys.stdout.buffer, 0, True
    for piece in pieces:
        if with_headers and piece.task != last:
            stdout.write(b"==> task %d <==\n" % piece.task)
        last = piece.task
        stdout.write(piece.data)
        if flush or piece.problem:
            stdout.flush()
        if piece.problem:
            is_whole = False
            say(f"gandy: {make_printable(piece.problem)}", err=True)
    stdout.flush()
    return is_whole


def _print_output(pieces: Iterable[bytes]) -> None:
    stdout = sys.stdout.buffer
    for piece in pieces:
        stdout.write(piece)
        stdout.flush()  # with --follow the user waits for it


@job.command(epilog=make_epilog("gandy job cancel 7", "gandy job cancel 7 8", "gandy job cancel 7 --task 3"))
@task_option("Only this task.")
@jobs_argument
@foreman_option
@output_option
def cancel(numbers: tuple[int, ...], task: int | None, foreman: tuple[str, ...], output: Format) -> None:
    """Cancel jobs, or one task: what waits never starts, what runs is killed."""
    tasks = None if task is None else [task]
    _change(numbers, foreman, output, lambda found: found.cancel(tasks))


@job.command(epilog=make_epilog("gandy job hold 7"))
@jobs_argument
@foreman_option
@output_option
def hold(numbers: tuple[int, ...], foreman: tuple[str, ...], output: Format) -> None:
    """Start no more tasks of these jobs; what runs goes on."""
    _change(numbers, foreman, output, lambda found: found.hold())


@job.command(epilog=make_epilog("gandy job release 7"))
@jobs_argument
@foreman_option
@output_option
def release(numbers: tuple[int, ...], foreman: tuple[str, ...], output: Format) -> None:
    """Start tasks again of jobs that were held."""
    _change(numbers, foreman, output, lambda found: found.release())


@job.command(epilog=make_epilog("gandy job retry 7", "gandy job retry 7 --task 3"))
@task_option("Only this task.")
@jobs_argument
@foreman_option
@output_option
def retry(numbers: tuple[int, ...], task: int | None, foreman: tuple[str, ...], output: Format) -> None:
    """Run tasks again that failed or were cancelled."""
    tasks = None if task is None else [task]
    _change(numbers, foreman, output, lambda found: found.retry(tasks))


def _change(numbers: Iterable[int], foreman: tuple[str, ...], output: Format, change: Callable[[Job], JobRow]) -> None:
    def change_one(found: Job) -> None:
        row = change(found)
        held = " and held" if row.held and row.state is JobState.RUNNING else ""  # the last tasks still run
        print_result(output, f"job {row.job} is {row.state.name.lower()}{held}", job_to_json(row), row.job)

    _for_each(numbers, foreman, change_one)


@job.command(epilog=make_epilog("gandy job forget 7 8"))
@jobs_argument
@foreman_option
@output_option
def forget(numbers: tuple[int, ...], foreman: tuple[str, ...], output: Format) -> None:
    """Delete everything that the foreman keeps about jobs that have ended.

    The output of their tasks stays on the workers until it takes too much room: see 'gandy worker run --keep-output'.

    With --output json, an object {"job": NUMBER, "forgotten": true} is printed for each.
    """
    with open_client(foreman) as client:
        kept = {each.job: each.problem for each in client.forget(numbers)}
    gone = [number for number in dict.fromkeys(numbers) if JobId(number) not in kept]
    for number in gone:
        print_result(output, f"job {number} is forgotten", {"job": number, "forgotten": True}, number)
    for problem in kept.values():
        say(f"gandy: {problem}", err=True)
    if kept:
        raise click.exceptions.Exit(ExitCode.FAILED)


def _for_each(numbers: Iterable[int], foreman: tuple[str, ...], act: Callable[[Job], None]) -> None:
    """Call `act` for each job, even if it fails for some."""
    has_failed = False
    with open_client(foreman) as client:
        for number in numbers:
            try:
                act(client.job(number))
            except LinkError:
                raise
            except GandyError as error:
                has_failed = True
                say(f"gandy: {error}", err=True)
    if has_failed:
        raise click.exceptions.Exit(ExitCode.FAILED)


@job.command(epilog=make_epilog("gandy job explain 7", "gandy job explain 7 --task 3"))
@task_option("Only about this task, with all its attempts.")
@job_argument
@foreman_option
@output_option
def explain(number: int, task: int | None, foreman: tuple[str, ...], output: Format) -> None:
    """Explain why tasks wait, or how they failed.

    With --output json, one object with the keys job, task and lines is printed.
    """
    with open_client(foreman) as client:
        lines = client.job(number).explain(task)
    if output == "json":
        print_json({"job": number, "task": task, "lines": lines})
        return
    for line in "\n".join(lines).splitlines():
        say(make_printable(line))
