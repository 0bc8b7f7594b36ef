"""`gandy call`: calls a command that workers have installed, and prints its value."""

import base64
import sys
from typing import TYPE_CHECKING, Any, Final

import click

from gandy.terminal.exits import ExitCode, make_epilog
from gandy.terminal.options import Seconds, find_shared_time, foreman_option, open_client
from gandy.terminal.say import format_json, say
from gandy.terminal.text import parse_argument
from gandy.terminal.times import AT_HELP, WrittenTime, WrittenTimeType

if TYPE_CHECKING:
    from gandy.client.calling import WorkerReply

EPILOG: Final = make_epilog(
    "gandy call ping",
    "gandy call add 1 2",
    "gandy call --all ping",
    "gandy call --stream stream 1024 > ones",
    "gandy call --timeout 5 cook '\"soup\"'",
    "gandy call --all --at +0.5 beep",
)


@click.command(epilog=EPILOG)
@click.option("--json", "as_json", is_flag=True, help="Print values as JSON, also text and bytes.")
@click.option("--stream", is_flag=True, help="Print each value of a stream as it comes.")
@click.option("--cast", is_flag=True, help="Do not wait for an answer: there will be none.")
@click.option("--all", "every", is_flag=True, help="Call every worker that offers it, and print one line for each.")
@click.option("--timeout", type=Seconds(), metavar="TIME", help="Give up after this time: 0.5, 90, 5min.")
@click.option("--at", type=WrittenTimeType(), metavar="TIME", help=AT_HELP)
@foreman_option
@click.argument("name")
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENT]...")
def call(
    name: str,
    arguments: tuple[str, ...],
    as_json: bool,
    stream: bool,
    cast: bool,
    every: bool,
    timeout: float | None,
    at: WrittenTime | None,
    foreman: tuple[str, ...],
) -> None:
    """Call a command that workers have installed, and print its value.

    An ARGUMENT that is valid JSON is that value, any other is a string; after -- it may begin with a dash. Strings and
    bytes are printed as they are, but on a terminal without control characters; other values are printed as JSON. With
    --json, bytes become base64.

    With --at, the command begins at that time of the shared clock, with --all on every worker at once; workers need
    --ensemble. The timeout counts from then on.
    """
    if stream + cast + every > 1:
        raise click.UsageError("--stream, --cast and --all exclude each other")
    if cast and timeout is not None:
        raise click.UsageError("--cast waits for no answer, so it takes no --timeout")
    from gandy.functions.values import encode_value
    from gandy.wire.calls import encode_target

    args = tuple(map(parse_argument, arguments))
    try:
        encode_target(name)
        encode_value(args)
    except (TypeError, ValueError) as error:
        raise click.UsageError(str(error)) from None
    with open_client(foreman) as client:
        begin = find_shared_time(client.now, at)
        if cast:
            client.cast(name, *args, at=begin)
        elif stream:
            for value in client.stream(name, *args, timeout=timeout, at=begin):
                _print(value, as_json)
        elif every:
            raise click.exceptions.Exit(_print_replies(client.call_all(name, *args, timeout=timeout, at=begin)))
        else:
            _print(client.call(name, *args, timeout=timeout, at=begin), as_json)


def _print_replies(replies: "list[WorkerReply]") -> ExitCode:
    code = ExitCode.DONE
    for reply in replies:
        if reply.error is None:
            say(f"{reply.worker}: {_format(reply.value)}")
        else:
            say(f"gandy: {reply.worker}: {reply.error}", err=True)
            code = ExitCode.FAILED
    return code


def _print(value: Any, as_json: bool) -> None:
    """Print text and bytes as they are to a program or a file, and without control characters to a terminal."""
    is_raw = isinstance(value, str | bytes) and not as_json
    if is_raw and sys.stdout.isatty():
        say(value if isinstance(value, str) else value.decode(errors="backslashreplace"))
    elif is_raw:
        data = value if isinstance(value, bytes) else value.encode(errors="surrogateescape") + b"\n"
        sys.stdout.buffer.write(data)
        sys.stdout.buffer.flush()
    else:
        say(_format(value))


def _format(value: Any) -> str:
    return format_json(_simplify(value))


def _simplify(value: Any) -> Any:
    """Return the value as far as JSON can express it."""
    match value:
        case dict():
            return {
                key if isinstance(key, str) else str(_simplify(key)): _simplify(item) for key, item in value.items()
            }
        case list():
            return [_simplify(item) for item in value]
        case bytes():
            return base64.b64encode(value).decode()
        case None | str() | bool() | int() | float():
            return value
        case _:
            return str(value)
