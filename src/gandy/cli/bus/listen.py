"""`gandy bus listen`: a service that prints every message that it gets."""

import json
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from gandy.cli.bus.joining import EnsembleOptions, PrintQueue, bus_options, explain, join
from gandy.errors import NoClock
from gandy.terminal.people import make_printable
from gandy.terminal.say import print_json, say

if TYPE_CHECKING:
    from gandy.bus import Ensemble, Message


@click.command(epilog=explain("gandy bus listen kitchen", "gandy bus listen kitchen --json > messages"))
@click.option(
    "--json", "as_json", is_flag=True, help="Print each message as a JSON object: address, types, values, times."
)
@bus_options
@click.argument("service")
def listen(service: str, as_json: bool, options: EnsembleOptions) -> None:
    """Offer a service, and print each message that comes: address, types, values, and its time if it has one.

    In the JSON, "time" is the shared time for which the message was sent and "arrived" the one at which it was
    delivered, if they are known. Bytes are base64 text.
    """
    from gandy.bus.core.effects import ServiceFound

    with join(options) as ensemble, PrintQueue() as feed:
        ensemble.on_news(feed.put)
        _offer(ensemble, service, lambda message: feed.put(Arrival(message, _maybe_read_clock(ensemble))))
        say(f"gandy: {ensemble.process} offers {service} in {ensemble.name}; Ctrl-C ends it", err=True)
        for item in feed:
            match item:
                case Arrival():
                    _print_arrival(item, as_json)
                case ServiceFound(name, process) if name == service and process != ensemble.process:
                    _warn_of_rival(ensemble, service)


class Arrival(NamedTuple):
    """A message, and the shared time of its delivery if that is known."""

    message: "Message"
    time: float | None


def _warn_of_rival(ensemble: "Ensemble", service: str) -> None:
    provider = ensemble.services().get(service, ensemble.process)
    if provider != ensemble.process:
        say(f"gandy: {provider} offers {service} too, and gets its messages", err=True)


def _print_arrival(arrival: Arrival, as_json: bool) -> None:
    if as_json:
        print_json(_arrival_to_json(arrival))
    else:
        say(make_printable(_message_to_line(arrival.message)))


def _offer(ensemble: "Ensemble", service: str, function: "Callable[[Message], None]") -> None:
    """Offer a service together with its handler: a process that waits for the service may send at once."""
    from gandy.bus.core.coercion import Handler
    from gandy.bus.ensemble import make_message

    handler = Handler(None, lambda delivery: function(make_message(delivery)), takes_delivery=True)
    ensemble.engine.ask(lambda member, _now: member.add_service(service).add("", handler))


def _maybe_read_clock(ensemble: "Ensemble") -> float | None:
    try:
        return ensemble.now()
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
    """Return the nearest value that JSON has."""
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
