"""`gandy bus`: look at an ensemble, send to its services, and be one of its processes for a while."""

import json
import math
import re
import sys
import time
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self, TypeVar

import click

from gandy.cli.exits import EXIT_HELP, make_epilog
from gandy.cli.options import Format, Seconds, output_option
from gandy.cli.people import format_seconds, make_printable, parse_seconds
from gandy.cli.text import parse_argument
from gandy.errors import ConfigError, NoClock, UnknownService

if TYPE_CHECKING:
    from gandy.bus import Ensemble, Message
    from gandy.bus.ensemble import Clock
    from gandy.core.bus.effects import News

F = TypeVar("F", bound=Callable[..., Any])

QUIET: Final = 0.5  # seconds without news until a look at an ensemble is over
TICK: Final = 1.0  # seconds between two lines about a clock
POLL: Final = 0.01  # seconds; nobody tells us that others know the time
MAX_UNPRINTED: Final = 1_000  # messages or news; then whoever sends them waits

EVERY_EXIT_HELP: Final = EXIT_HELP + "  130  Ctrl-C\n"


def bus_options(command: F) -> F:
    """Which ensemble, and where. They come as one dictionary."""
    options = (
        click.option(
            "--ensemble", default="gandy", show_default=True, envvar="GANDY_ENSEMBLE", metavar="NAME", help="Its name."
        ),
        click.option(
            "--dialect",
            type=click.Choice(["2016", "1.0", "1.1"]),
            default="2016",
            show_default=True,
            help="Which generation of the protocol its processes speak.",
        ),
        click.option("--insecure", is_flag=True, help="Use the network, without keys, and not this machine alone."),
        click.option(
            "--peer", "peers", multiple=True, metavar="HOST", help="The IP of a machine that broadcasts do not reach."
        ),
        click.option("--ip", metavar="IP", help="What other machines call this one. Default: found out."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _explain(*examples: str) -> str:
    return make_epilog(*examples, exits=EVERY_EXIT_HELP)


@click.group(
    epilog=_explain("gandy bus status", "gandy bus listen kitchen", "gandy bus send /kitchen/cook 3 '\"soup\"'")
)
def bus() -> None:
    """Look at an ensemble of the bus, and send to its services."""


def _join(told: dict[str, Any], clock: "Clock" = "follow") -> "Ensemble":
    """Still to be entered. Raises: ConfigError."""
    from gandy.bus import Ensemble

    if told["insecure"]:
        click.echo("gandy: INSECURE: everybody on the network can take part in this ensemble", err=True)
    elif told["peers"] or told["ip"] is not None:
        raise ConfigError("--peer and --ip are for the network, and the bus has no keys: --insecure does without them")
    options = {key: told[key] for key in ("dialect", "insecure", "peers", "ip")}
    return Ensemble(told["ensemble"], clock=clock, **options)


class Feed:
    """Things that happen in the thread of an ensemble, for the one that prints. Slow readers slow everything down."""

    def __init__(self) -> None:
        from queue import Queue

        self._queue: Queue[Any] = Queue(MAX_UNPRINTED)
        self._is_closed = False

    def put(self, item: Any) -> None:
        from queue import Full

        while not self._is_closed:
            try:
                self._queue.put(item, timeout=TICK)
            except Full:
                continue
            return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        """Before the ensemble closes: its thread may wait for us."""
        self._is_closed = True

    def __iter__(self) -> Iterator[Any]:
        """Without end."""
        while True:
            yield self._queue.get()


# Status


class View(NamedTuple):
    """An ensemble as we see it. The keys of the JSON are never renamed or removed."""

    ensemble: str
    process: str
    processes: list[dict[str, Any]]
    services: dict[str, str]
    clock: dict[str, Any]

    @property
    def is_told_by(self) -> tuple[Any, ...]:
        """All but what changes with every look."""
        return self.processes, self.services, self.clock["leader"]


def _look(band: "Ensemble") -> View:
    processes = [
        {"process": name, "state": state.name.lower(), "services": list(services)}
        for name, state, services in band.neighbours()
    ]
    return View(band.name, band.process, processes, band.services(), _look_at_clock(band))


def _look_at_clock(band: "Ensemble") -> dict[str, Any]:
    """`offset`: the shared time minus the monotonic clock of this machine. What is not known is None."""
    is_synced, error = band.is_synced, band.clock_error()
    now, local = (band.now(), time.monotonic()) if is_synced else (None, 0.0)
    return {
        "leader": band.clock_leader,
        "leads": band.clock_leader == band.process,
        "time": now,
        "offset": None if now is None else now - local,
        "round_trip": band.clock_round_trip(),
        "error": error if math.isfinite(error) else None,
    }


@bus.command(epilog=_explain("gandy bus status", "gandy bus status --watch", "gandy bus status --output json"))
@click.option("--watch", is_flag=True, help="Go on, and show what changes.")
@click.option(
    "--wait", type=Seconds(), default="2s", show_default=True, metavar="TIME", help="How long to look for processes."
)
@bus_options
@output_option
def status(watch: bool, wait: float, output: Format, **told: Any) -> None:
    """Tell which processes and services an ensemble has, and what its clock says.

    To see them, this command takes part in the ensemble for some seconds. Where there are many processes on one
    machine, a longer --wait finds more of them.

    With --output json, an object with the keys ensemble, process (this one), processes, services and clock is printed;
    with --watch, one each second. With --output quiet, only the names of processes are.
    """
    with _join(told) as band:
        if watch:
            _watch(band, output)
        _settle(band, wait)
        _print_view(_look(band), output)


def _settle(band: "Ensemble", wait: float) -> None:
    """Until all is found that can be found in that time. Who comes at the end has a moment to tell what it has."""
    seen, began = _look(band).is_told_by, time.monotonic()
    until = began + wait
    while time.monotonic() < until:
        time.sleep(POLL)
        if seen != (seen := _look(band).is_told_by):
            until = min(max(until, time.monotonic() + QUIET), began + wait + TICK)
    if band.clock_leader is not None:
        band.wait_for_clock(TICK)


def _watch(band: "Ensemble", output: Format) -> None:
    if output == "table" and sys.stdout.isatty():
        _draw_live(band)
    seen: Any = None
    while True:
        view = _look(band)
        if output == "json" or view.is_told_by != seen:
            _print_view(view, output)
        seen = view.is_told_by
        time.sleep(TICK)


def _draw_live(band: "Ensemble") -> None:
    from rich.live import Live

    with Live(auto_refresh=False) as live:
        while True:
            live.update(_render(_look(band)), refresh=True)
            time.sleep(TICK)


def _render(view: View) -> Any:
    """The same as the table, for a screen that changes."""
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(*map(str.upper, HEADERS), box=None, pad_edge=False)
    for row in _make_rows(view):
        table.add_row(*(Text(make_printable(cell)) for cell in row))
    fields = Table.grid(padding=(0, 2, 0, 0))
    for name, value in _make_fields(view):
        fields.add_row(Text(name, style="bold"), Text(make_printable(value)))
    return Group(table, Text(), fields)


HEADERS: Final = ("process", "state", "services")


def _print_view(view: View, output: Format) -> None:
    if output == "json":
        _print_json(view._asdict())
    elif output == "quiet":
        for process in view.processes:
            click.echo(process["process"])
    else:
        from gandy.cli.table import draw_fields, draw_table

        if view.processes:
            draw_table(HEADERS, _make_rows(view))
            click.echo()
        draw_fields(_make_fields(view))


def _make_rows(view: View) -> list[tuple[str, ...]]:
    return [
        (process["process"], process["state"].replace("_", " "), ", ".join(process["services"]))
        for process in view.processes
    ]


def _make_fields(view: View) -> list[tuple[str, str]]:
    clock, count = view.clock, len(view.processes)
    return [
        ("ensemble", f"{view.ensemble}: {count or 'no'} other process{'' if count == 1 else 'es'}"),
        ("clock", _tell_leader(clock)),
        ("time", "" if clock["time"] is None else f"{clock['time']:.6f} s"),
        ("offset", "" if clock["offset"] is None else f"{clock['offset']:+.6f} s to this machine's monotonic clock"),
        ("round trip", _format_ms(clock["round_trip"])),
        ("error", f"at most {_format_ms(clock['error'])}" if clock["error"] is not None else ""),
    ]


def _tell_leader(clock: dict[str, Any]) -> str:
    if clock["leader"] is None:
        return "nobody leads it" + ("" if clock["time"] is None else ", and it goes on by itself")
    if clock["leads"]:
        return "this process leads it"
    return f"{clock['leader']} leads it" + (", and has not told the time yet" if clock["time"] is None else "")


def _format_ms(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds * 1000:.3f} ms"


def _print_json(value: object) -> None:
    click.echo(json.dumps(value, separators=(",", ":")))


# Send


class At(NamedTuple):
    """When: a shared time, or seconds from now."""

    seconds: float
    is_from_now: bool


class AtType(click.ParamType[At]):
    """As people write it: +0.5 or +2min from now, or the shared time in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> At:
        seconds = parse_seconds(str(value).removeprefix("+"))
        if seconds is None:
            self.fail(f"{value!r} is not a time; write +0.5, +2min, or the shared time in seconds", param, ctx)
        return At(seconds, str(value).startswith("+"))


@bus.command(
    epilog=_explain(
        "gandy bus send /kitchen/cook 3 soup",
        "gandy bus send '/kitchen/oven/*/heat' 220.5 --types f --udp",
        "gandy bus send /kitchen/bell --at +0.5",
        "gandy bus send /kitchen/menu '[1, 2, 3]' -- -5",
    )
)
@click.option("--types", metavar="TYPES", help="Their types, as in ifs. Default: what the values look like.")
@click.option("--at", "at", type=AtType(), metavar="+TIME|TIME", help="When it is delivered: from now, or shared time.")
@click.option("--udp", is_flag=True, help="By UDP: perhaps it comes, perhaps not.")
@click.option(
    "--wait", type=Seconds(), default="5s", show_default=True, metavar="TIME", help="How long to wait for the service."
)
@bus_options
@click.argument("address")
@click.argument("values", nargs=-1, type=click.UNPROCESSED, metavar="[VALUE]...")
def send(
    address: str, values: tuple[str, ...], types: str | None, at: At | None, udp: bool, wait: float, **told: Any
) -> None:
    """Send a message to a service of an ensemble: to /service/path with patterns, or to !service/path as it stands.

    A VALUE that is JSON is that value, any other is a text; behind -- it may begin with a dash. Whole numbers are i or
    h, others d, texts s, arrays are arrays. With --types: i h f d t numbers, s S text, c a character, b bytes in
    base64, m 4 bytes in hex, B true or false, [..] and vi vh vf vd a JSON array; T F N I need no VALUE.
    """
    from gandy.core.bus.addresses import split_address

    parts = split_address(address)
    if parts is None:
        raise click.UsageError(f"{address!r} is no address: write /service/path, or !service/path")
    args = _parse_values(address, values, types)
    service = parts[0]
    with _join(told) as band:
        if not band.wait_for(service, wait):
            raise UnknownService(f"nobody in {band.name} offers the service {service}, for {format_seconds(wait)} now")
        if at is not None:
            _wait_for_time(band, service, wait)
        band.send(address, *args, types=types, at=_tell_time(band, at), reliable=not udp)


def _tell_time(band: "Ensemble", at: At | None) -> float | None:
    if at is None:
        return None
    return band.now() + at.seconds if at.is_from_now else at.seconds


def _wait_for_time(band: "Ensemble", service: str, wait: float) -> None:
    from gandy.bus import Status

    until = time.monotonic() + wait
    while band.status(service) not in (Status.LOCAL, Status.REMOTE, Status.BRIDGE, Status.TO_OSC):
        if time.monotonic() > until:
            if band.clock_leader is None:
                raise NoClock(f"nobody leads the clock of {band.name}: 'gandy bus clock --lead' does")
            raise NoClock(f"the shared time is not known here and at {service} after {format_seconds(wait)}")
        time.sleep(POLL)


def _parse_values(address: str, words: tuple[str, ...], types: str | None) -> tuple[Any, ...]:
    """Raises: UsageError, before anybody is bothered."""
    from gandy.wire.bus import encode_message, make_message

    try:
        values = tuple(map(parse_argument, words)) if types is None else _parse_typed(words, types)
        encode_message(make_message(address, values, types), "<")
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    return values


def _parse_typed(words: tuple[str, ...], types: str) -> tuple[Any, ...]:
    """Raises: ValueError."""
    from gandy.wire.bus_types import parse_types
    from gandy.wire.bus_values import CONSTANTS

    items = parse_types(types)
    wanted = sum(1 for item in items if item not in CONSTANTS)
    if len(words) != wanted:
        raise ValueError(f"{types!r} is for {wanted} values, and {len(words)} are given")
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


# Listen


@bus.command(epilog=_explain("gandy bus listen kitchen", "gandy bus listen kitchen --json > messages"))
@click.option("--json", "as_json", is_flag=True, help="Print each as a JSON object: address, types, values, times.")
@bus_options
@click.argument("service")
def listen(service: str, as_json: bool, **told: Any) -> None:
    """Offer a service, and print each message that comes: address, types, values, and its time if it has one.

    In the JSON, "time" is the shared time for which it was sent and "arrived" that at which it was delivered, where
    they are known. Bytes are base64 text.
    """
    from gandy.core.bus.effects import ServiceFound

    with _join(told) as band, Feed() as feed:
        band.on_news(feed.put)
        _offer(band, service, lambda message: feed.put(Arrival(message, _maybe_tell_now(band))))
        click.echo(f"gandy: {band.process} offers {service} in {band.name}; Ctrl-C ends it", err=True)
        for item in feed:
            match item:
                case Arrival():
                    _print_arrival(item, as_json)
                case ServiceFound(name, process) if name == service and process != band.process:
                    _warn_of_rival(band, service)


class Arrival(NamedTuple):
    """A message, and the shared time of its delivery, if that is known."""

    message: "Message"
    time: float | None


def _warn_of_rival(band: "Ensemble", service: str) -> None:
    provider = band.services().get(service, band.process)
    if provider != band.process:
        click.echo(f"gandy: {provider} offers {service} too, and gets its messages", err=True)


def _print_arrival(arrival: Arrival, as_json: bool) -> None:
    if as_json:
        _print_json(_arrival_to_json(arrival))
    else:
        click.echo(make_printable(_message_to_line(arrival.message)))


def _offer(band: "Ensemble", service: str, function: "Callable[[Message], None]") -> None:
    """With its handler at once: somebody may wait for the service, and send in the same moment."""
    from gandy.bus.ensemble import make_message
    from gandy.core.bus.coercion import Handler

    handler = Handler(None, lambda delivery: function(make_message(delivery)), takes_delivery=True)
    band.engine.ask(lambda member, _now: member.add_service(service).add("", handler))


def _maybe_tell_now(band: "Ensemble") -> float | None:
    try:
        return band.now()
    except NoClock:
        return None


def _arrival_to_json(arrival: Arrival) -> dict[str, Any]:
    message = arrival.message
    return {
        "address": message.address,
        "types": message.types,
        "values": _simplify(message.values),
        "time": message.time or None,
        "arrived": arrival.time,
    }


def _message_to_line(message: "Message") -> str:
    values = [json.dumps(_simplify(value), ensure_ascii=False) for value in message.values]
    times = [f"at {message.time:.6f}"] if message.time else []
    return " ".join((message.address, f",{message.types}", *values, *times))


def _simplify(value: Any) -> Any:
    """The same, as far as JSON knows it."""
    match value:
        case list() | tuple():
            return [_simplify(item) for item in value]
        case bytes():
            from base64 import b64encode

            return b64encode(value).decode()
        case float() if not math.isfinite(value):
            return str(value)
        case None | str() | bool() | int() | float():
            return value
        case _:
            return value.value  # infinitum


# Clock


@bus.command(epilog=_explain("gandy bus clock", "gandy bus clock --lead", "gandy bus clock --json | head -60"))
@click.option("--lead", is_flag=True, help="Lead the clock, if nobody else does.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects: leader, leads, time, offset, ...")
@bus_options
def clock(lead: bool, as_json: bool, **told: Any) -> None:
    """Follow the clock of an ensemble, or lead it, and print a line each second.

    The offset is that of the shared time to this machine's monotonic clock; the time is wrong by no more than the
    error. In the JSON all are in seconds, and null where they are not known; round_trip is the least of the last five.
    """
    with _join(told, "lead" if lead else "follow") as band:
        while True:
            now = _look_at_clock(band)
            if as_json:
                _print_json(now)
            else:
                click.echo(_clock_to_line(now))
            time.sleep(TICK)


def _clock_to_line(clock: dict[str, Any]) -> str:
    if clock["time"] is None:
        return _tell_leader(clock)
    told = f"{clock['time']:.6f} s, offset {clock['offset']:+.6f} s"
    trip = f", round trip {_format_ms(clock['round_trip'])}" if clock["round_trip"] is not None else ""
    error = f", error {_format_ms(clock['error'])}" if clock["error"] is not None else ""
    return f"{told}{trip}{error}: {_tell_leader(clock)}"


# Monitor


@bus.command(epilog=_explain("gandy bus monitor", "gandy bus monitor --json"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects: time, event, process, service.")
@bus_options
def monitor(as_json: bool, **told: Any) -> None:
    """Print processes and services of an ensemble when they come and go, with the time of day, and who leads the clock.

    In the JSON, "time" is in seconds since 1970, and "event" is process_found, process_lost, service_found,
    service_lost, clock_found, clock_lost or clock_changed, which has "seconds".
    """
    with _join(told) as band, Feed() as feed:
        band.on_news(lambda news: feed.put((time.time(), news)))
        click.echo(f"gandy: {band.process} looks at {band.name}; Ctrl-C ends it", err=True)
        for now, news in feed:
            _print_news(now, news, as_json)


_EVENTS: Final = {
    "ProcessFound": "process {0} came",
    "ProcessLost": "process {0} went",
    "ServiceFound": "service {0} is at {1}",
    "ServiceLost": "service {0} went",
    "ClockFound": "clock of {0} is known",
    "ClockLost": "clock of {0} went; ours goes on",
    "ClockChanged": "clock of {0} leapt by {1:+.3f} s",
}


def _print_news(now: float, news: "News", as_json: bool) -> None:
    name = type(news).__name__
    if as_json:
        from msgspec.structs import asdict

        told = {"process" if key == "leader" else key: value for key, value in asdict(news).items()}
        event = re.sub("(?<=.)([A-Z])", r"_\1", name).lower()
        _print_json({"time": now, "event": event, **told})
    else:
        from msgspec.structs import astuple

        clock = datetime.fromtimestamp(now).strftime("%H:%M:%S.%f")[:-3]
        click.echo(make_printable(f"{clock}  {_EVENTS[name].format(*astuple(news))}"))
