"""`gandy run`: runs a Python function on a worker, once or for each line."""

from typing import TYPE_CHECKING, Any, Final

import click

from gandy.terminal.exits import WAIT_EXIT_HELP, ExitCode, make_epilog
from gandy.terminal.options import (
    Format,
    drop_missing,
    foreman_option,
    open_client,
    output_option,
    task_options,
)
from gandy.terminal.say import format_json, print_result, say
from gandy.terminal.text import parse_argument

if TYPE_CHECKING:
    from gandy.client.futures import FunctionFuture

EPILOG: Final = make_epilog(
    "gandy run math:hypot 3 4 --wait",
    "gandy run --wait os:path.join '\"/tmp\"' x",
    "gandy run --each-line urls.txt --retries 3 mymodule:fetch",
    "gandy run --name nightly mymodule:report '{\"year\": 2026}'",
    exits=WAIT_EXIT_HELP,
)


@click.command(epilog=EPILOG)
@click.option("--name", metavar="TEXT", help="A name to find the job by.")
@click.option("--each-line", metavar="FILE|-", help="Run it once for each line of a file or of standard input.")
@click.option("--cwd", metavar="FOLDER", help="Where it runs and finds modules. Default: the current folder.")
@task_options
@click.option("--fresh", is_flag=True, default=None, help="Start a new process for each task.")
@click.option("--wait", is_flag=True, help="Wait, and print each return value on a line, as JSON if possible.")
@foreman_option
@output_option
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENT]...")
def run(
    function: str,
    arguments: tuple[str, ...],
    each_line: str | None,
    wait: bool,
    foreman: tuple[str, ...],
    output: Format,
    **given: Any,
) -> None:
    """Run a Python function on a worker that has it, and print the job's number.

    An ARGUMENT that is valid JSON is that value, any other is a string; after -- it may begin with a dash. With
    --each-line, the line is the last argument. With --wait, the return values are printed in the order of the lines
    instead of the number; exceptions go to standard error, and the rest goes on. 'gandy job' shows the job like any
    other.
    """
    from gandy.cli.jobfile import read_lines
    from gandy.functions.named import Named

    options = drop_missing(given)
    args = tuple(map(parse_argument, arguments))
    items = [args] if each_line is None else [(*args, line) for line in read_lines(each_line)]
    with open_client(foreman) as client:
        functions = client.functions(**options)
        futures = functions.run_items(Named(function), items)
        functions.close()
        if wait:
            raise click.exceptions.Exit(_print_values(futures))
        job = futures[0].job
        print_result(output, f"job {job}", {"job": job}, job)


def _print_values(futures: "list[FunctionFuture[list[Any]]]") -> ExitCode:
    code = ExitCode.DONE
    for number, future in enumerate(futures, 1):
        try:
            (value,) = future.result()
        except Exception as error:  # noqa: BLE001 - functions may raise anything
            say(f"gandy: task {number}: {type(error).__name__}: {error}", err=True)
            code = ExitCode.FAILED
        else:
            say(_format(value))
    return code


def _format(value: Any) -> str:
    try:
        return format_json(value)
    except (TypeError, ValueError):
        return repr(value)
