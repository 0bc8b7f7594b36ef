"""`gandy run`: a Python function from the command line, once or for each line."""

from typing import TYPE_CHECKING, Any, Final

import click

from gandy.terminal.exits import WAIT_EXIT_HELP, ExitCode, make_epilog
from gandy.terminal.options import Bytes, Format, Seconds, foreman_option, open_client, output_option
from gandy.terminal.say import format_json, say
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
@click.option("--name", metavar="TEXT", help="A name for people to know it by.")
@click.option("--each-line", metavar="FILE|-", help="One call for each line of a file or of standard input.")
@click.option("--cwd", metavar="FOLDER", help="Where it runs, and finds modules. Default: the current folder.")
@click.option("--retries", type=click.IntRange(min=0), metavar="N", help="How often a call that fails is tried again.")
@click.option("--timeout", type=Seconds(), metavar="TIME", help="Kill an attempt after this time: 90, 5min, 2h.")
@click.option("--memory", type=Bytes(), metavar="SIZE", help="Kill an attempt whose process uses more: 500M, 2G.")
@click.option("--priority", type=int, metavar="N", help="Higher goes first. Default: 0.")
@click.option("--slots", type=click.IntRange(min=1), metavar="N", help="Slots that each call takes. Default: 1.")
@click.option("--tag", "tags", multiple=True, metavar="TAG", help="A tag that a worker must have.")
@click.option("--limit", type=click.IntRange(min=1), metavar="N", help="Calls that may run at the same time.")
@click.option("--fresh", is_flag=True, default=None, help="A new process for each call.")
@click.option("--wait", is_flag=True, help="Wait, and print each value on a line, as JSON where it can be.")
@foreman_option
@output_option
@click.argument("function", metavar="MODULE:FUNCTION")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENT]...")
def run(
    function: str,
    arguments: tuple[str, ...],
    each_line: str | None,
    wait: bool,
    foreman: str | None,
    output: Format,
    **told: Any,
) -> None:
    """Call a Python function on a worker that has it, and print the job's number.

    An ARGUMENT that is JSON is that value, any other is a text; behind -- it may begin with a dash. With
    --each-line, the line follows them as the last argument. With --wait, the values are printed in the order of the
    lines instead of the number; a call that raises is told on standard error, and the rest goes on. 'gandy job'
    shows the job like any other.
    """
    from gandy.cli.jobfile import read_lines
    from gandy.functions.named import Named

    options = {key: value for key, value in told.items() if value is not None and value != ()}
    given = tuple(map(parse_argument, arguments))
    items = [given] if each_line is None else [(*given, line) for line in read_lines(each_line)]
    with open_client(foreman) as client:
        functions = client.functions(**options)
        calls = functions.run_items(Named(function), items)
        functions.close()
        if wait:
            raise click.exceptions.Exit(_print_values(calls))
        _tell(calls[0].job, output)


def _tell(job: int, output: Format) -> None:
    from gandy.terminal.rows import print_json

    if output == "json":
        print_json({"job": job})
    else:
        say(job if output == "quiet" else f"job {job}")


def _print_values(calls: "list[FunctionFuture[list[Any]]]") -> ExitCode:
    code = ExitCode.DONE
    for number, call in enumerate(calls, 1):
        try:
            (value,) = call.result()
        except Exception as error:  # noqa: BLE001 - functions may raise anything
            say(f"gandy: call {number}: {type(error).__name__}: {error}", err=True)
            code = ExitCode.FAILED
        else:
            say(_format(value))
    return code


def _format(value: Any) -> str:
    try:
        return format_json(value)
    except (TypeError, ValueError):
        return repr(value)
