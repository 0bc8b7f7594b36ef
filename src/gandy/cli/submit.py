"""`gandy submit`: submits a job from the command line, from a file, or from both."""

from typing import Any, Final

import click

from gandy.terminal.exits import WAIT_EXIT_HELP, make_epilog
from gandy.terminal.options import (
    JOB,
    Format,
    drop_missing,
    find_shared_time,
    foreman_option,
    open_client,
    output_option,
    task_options,
)
from gandy.terminal.say import print_result
from gandy.terminal.times import AT_HELP, WrittenTime, WrittenTimeType

EPILOG: Final = make_epilog(
    "gandy submit 'sleep 5; echo done'",
    "gandy submit --tasks 100 --wait -- sh -c 'echo $GANDY_TASK'",
    "gandy submit --each-line urls.txt --limit 4 --retries 3 -- 'curl -fsSO {line}'",
    "find . -name '*.png' | gandy submit --each-line - -- optipng '{line}'",
    "gandy submit --file job.toml --priority 5",
    "gandy submit --after 7 --output quiet ./report.sh",
    "gandy submit --after-each 7 --tasks 100 'sort part.{task} > sorted.{task}'",
    "gandy submit --tasks 3 --at +1 -- ./play.sh",
    exits=WAIT_EXIT_HELP,
)


def _parse_env(_context: click.Context, _option: click.Parameter, pairs: tuple[str, ...]) -> dict[str, str] | None:
    for pair in pairs:
        if "=" not in pair or pair.startswith("="):
            raise click.BadParameter(f"{pair!r} is not of the form NAME=VALUE")
    return dict(pair.split("=", 1) for pair in pairs) or None


@click.command(context_settings={"allow_interspersed_args": False}, epilog=EPILOG)
@click.option("--name", metavar="TEXT", help="A name to find the job by.")
@click.option("--tasks", type=click.IntRange(min=1), metavar="N", help="How many times the command is run. Default: 1.")
@click.option("--each-line", metavar="FILE|-", help="Run the command once for each line of a file or standard input.")
@click.option("--file", "file", metavar="JOB.toml", help="Read the job from a file; options on the command line win.")
@click.option("--cwd", metavar="FOLDER", help="Where the tasks run. Default: the current folder.")
@click.option("--env", multiple=True, metavar="NAME=VALUE", callback=_parse_env, help="A variable for the tasks.")
@task_options
@click.option("--hold", "held", is_flag=True, default=None, help="Start nothing until 'gandy job release'.")
@click.option(
    "--after", type=JOB, multiple=True, metavar="JOB", help="Wait until this job has finished without failures."
)
@click.option("--after-any", type=JOB, multiple=True, metavar="JOB", help="Wait until this job has ended in any way.")
@click.option(
    "--after-each",
    type=JOB,
    multiple=True,
    metavar="JOB",
    help="Start each task when the task with its number in this job has finished. Both have as many tasks.",
)
@click.option("--at", type=WrittenTimeType(), metavar="TIME", help=AT_HELP)
@click.option("--wait", is_flag=True, help="Wait for the job, show its progress, and exit with its result.")
@foreman_option
@output_option
@click.argument("command", nargs=-1, type=click.UNPROCESSED)
def submit(
    command: tuple[str, ...],
    file: str | None,
    each_line: str | None,
    wait: bool,
    foreman: tuple[str, ...],
    output: Format,
    at: WrittenTime | None,
    **given: Any,
) -> None:
    """Queue a command, once or many times, and print the job's number.

    One COMMAND word is a line for the shell; several are a program and its arguments, which no shell sees. {task} and
    {line} are replaced by the number and the line of the task; the environment has them as GANDY_TASK and GANDY_LINE. A
    line is one argument, whatever it contains: put no quotes around {line}. When the number is printed, the job is on
    disk and survives any crash.

    With --at, tasks begin at that time of the shared clock, all at once if there are enough slots; this needs a foreman
    and workers with --ensemble. 14:00 is the next one; a plain number is a shared time.

    JOB.toml has the same names as the options, and "command": a string or an array. "each-line" is a file or an array
    of lines, and paths are relative to the folder of JOB.toml. With --output json, one object {"job": NUMBER} is
    printed; with --wait, the object of 'gandy job show' when the job has ended.
    """
    given = drop_missing(given)
    chosen, options, written_at = _merge(command, file, each_line, given)
    with open_client(foreman) as client:
        options["at"] = find_shared_time(client.now, at or written_at)
        job = client.submit(chosen, **options)
        if output != "json" or not wait:
            print_result(output, f"job {job.id}", {"job": job.id}, job.id)
        if wait:
            from gandy.terminal.progress import wait_for

            raise click.exceptions.Exit(wait_for([job], output))


def _merge(
    command: tuple[str, ...], file: str | None, each_line: str | None, given: dict[str, Any]
) -> tuple[str | tuple[str, ...], dict[str, Any], WrittenTime | None]:
    """Merge the options of the file with those of the command line, which override them."""
    from gandy.cli.jobfile import read_job_file, read_lines

    if each_line is not None and "tasks" in given:
        raise click.UsageError("--tasks and --each-line exclude each other.")
    written, options, at = read_job_file(file) if file is not None else ((), {}, None)
    if each_line is not None or "tasks" in given:
        options.pop("lines", None)
        options.pop("tasks", None)
    env = {**(options.get("env") or {}), **(given.get("env") or {})}
    options.update(given)
    options["env"] = env
    if each_line is not None:
        options["lines"] = read_lines(each_line)
    chosen = _choose_command(command) or written
    if not chosen:
        raise click.UsageError("Missing COMMAND: a line for the shell, or a program and its arguments.")
    return chosen, options, at


def _choose_command(words: tuple[str, ...]) -> str | tuple[str, ...]:
    return words[0] if len(words) == 1 else words
