"""`gandy bus send`: sends one message, with values from the command line."""

import time
from typing import TYPE_CHECKING, Any, Final

import click

from gandy.cli.bus.joining import EnsembleOptions, bus_options, explain, explain_visibility, join
from gandy.clocks import read_monotonic
from gandy.errors import NoClock, UnknownService
from gandy.terminal.options import Seconds, find_shared_time
from gandy.terminal.people import format_seconds
from gandy.terminal.text import parse_argument
from gandy.terminal.times import AT_HELP, WrittenTime, WrittenTimeType

if TYPE_CHECKING:
    from gandy.bus import Ensemble


POLL: Final = 0.01  # seconds between two checks; no news says when another process knows the time


@click.command(
    epilog=explain(
        "gandy bus send /kitchen/cook 3 soup",
        "gandy bus send '/kitchen/oven/*/heat' 220.5 --types f --udp",
        "gandy bus send /kitchen/bell --at +0.5",
        "gandy bus send /kitchen/menu '[1, 2, 3]' -- -5",
    )
)
@click.option(
    "--types", metavar="TYPES", help="The types of the values, such as ifs. Default: guessed from the values."
)
@click.option("--at", type=WrittenTimeType(), metavar="TIME", help=AT_HELP.replace("begins", "is delivered"))
@click.option("--udp", is_flag=True, help="Send by UDP: the message may get lost.")
@click.option(
    "--wait", type=Seconds(), default="5s", show_default=True, metavar="TIME", help="How long to wait for the service."
)
@bus_options
@click.argument("address")
@click.argument("values", nargs=-1, type=click.UNPROCESSED, metavar="[VALUE]...")
def send(
    address: str,
    values: tuple[str, ...],
    types: str | None,
    at: WrittenTime | None,
    udp: bool,
    wait: float,
    options: EnsembleOptions,
) -> None:
    """Send a message to a service of an ensemble: to /service/path with patterns, or to !service/path as it stands.

    A VALUE that is valid JSON is that value, any other is a string; after -- it may begin with a dash. Whole numbers
    are i or h, others d, strings s, arrays are arrays. With --types: i h f d t numbers, s S text, c a character, b
    bytes in base64, m 4 bytes in hex, B true or false, [..] and vi vh vf vd a JSON array; T F N I need no VALUE.
    """
    from gandy.bus.core.addresses import split_address

    parts = split_address(address)
    if parts is None:
        raise click.UsageError(f"{address!r} is not an address: write /service/path, or !service/path")
    args = _parse_values(address, values, types)
    service = parts[0]
    with join(options) as ensemble:
        if not ensemble.wait_for(service, wait):
            raise UnknownService(
                f"no process in {ensemble.name} offers the service {service}, even after {format_seconds(wait)}; "
                f"{explain_visibility(options)}"
            )
        if at is not None:
            _wait_for_time(ensemble, service, wait)
        ensemble.send(address, *args, types=types, at=find_shared_time(ensemble.now, at), reliable=not udp)


def _wait_for_time(ensemble: "Ensemble", service: str, wait: float) -> None:
    from gandy.bus import Status

    until = read_monotonic() + wait
    while ensemble.status(service) not in (Status.LOCAL, Status.REMOTE, Status.BRIDGE, Status.TO_OSC):
        if read_monotonic() > until:
            if ensemble.clock_leader is None:
                raise NoClock(f"no process leads the clock of {ensemble.name}: 'gandy bus clock --lead' does")
            raise NoClock(f"the shared time is not known both here and at {service} after {format_seconds(wait)}")
        time.sleep(POLL)


def _parse_values(address: str, words: tuple[str, ...], types: str | None) -> tuple[Any, ...]:
    """Parse values, before the ensemble is joined. Raises: UsageError."""
    from gandy.bus.wire.messages import encode_message, make_message

    try:
        values = tuple(map(parse_argument, words)) if types is None else _parse_typed(words, types)
        encode_message(make_message(address, values, types), "<")
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return values


def _parse_typed(words: tuple[str, ...], types: str) -> tuple[Any, ...]:
    """Raises: ValueError."""
    from gandy.bus.wire.types import parse_types
    from gandy.bus.wire.values import CONSTANTS

    items = parse_types(types)
    wanted = sum(1 for item in items if item not in CONSTANTS)
    if len(words) != wanted:
        raise ValueError(f"{types!r} needs {wanted} values, and {len(words)} are given")
    left = iter(words)
    return tuple([CONSTANTS[str(item)] if item in CONSTANTS else _parse_value(next(left), item) for item in items])


def _parse_value(word: str, item: Any) -> Any:
    match item:
        case "s" | "S" | "c":
            return word
        case "b":
            from base64 import b64decode

            return b64decode(word, validate=True)
        case "m":
            return bytes.fromhex(word)
        case _:
            return parse_argument(word)
