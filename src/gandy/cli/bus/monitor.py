"""`gandy bus monitor`: prints which processes and services come and go."""

import re
from datetime import datetime
from typing import TYPE_CHECKING, Final

import click

from gandy.cli.bus.joining import EnsembleOptions, PrintQueue, bus_options, explain, join
from gandy.clocks import read_wall
from gandy.moments import Wall
from gandy.terminal.people import make_printable
from gandy.terminal.say import print_json, say

if TYPE_CHECKING:
    from gandy.bus.core.effects import News


@click.command(epilog=explain("gandy bus monitor", "gandy bus monitor --json"))
@click.option("--json", "as_json", is_flag=True, help="Print JSON objects: time, event, process, service.")
@bus_options
def monitor(as_json: bool, options: EnsembleOptions) -> None:
    """Print which processes and services of an ensemble come and go, and which one leads the clock, with the time.

    In the JSON, "time" is in seconds since 1970, and "event" is process_found, process_lost, service_found,
    service_lost, clock_found, clock_lost or clock_changed, which has "seconds".
    """
    with join(options) as ensemble, PrintQueue() as feed:
        ensemble.on_news(lambda news: feed.put((read_wall(), news)))
        say(f"gandy: {ensemble.process} looks at {ensemble.name}; Ctrl-C ends it", err=True)
        for now, news in feed:
            _print_news(now, news, as_json)


_EVENTS: Final = {
    "ProcessFound": "process {0} came",
    "ProcessLost": "process {0} went",
    "ServiceFound": "service {0} is at {1}",
    "ServiceLost": "service {0} went",
    "ClockFound": "clock of {0} is known",
    "ClockLost": "clock of {0} went; ours goes on",
    "ClockChanged": "clock of {0} jumped by {1:+.3f} s",
}


def _print_news(now: Wall, news: "News", as_json: bool) -> None:
    name = type(news).__name__
    if as_json:
        from msgspec.structs import asdict

        fields = {"process" if key == "leader" else key: value for key, value in asdict(news).items()}
        event = re.sub("(?<=.)([A-Z])", r"_\1", name).lower()
        print_json({"time": now, "event": event, **fields})
    else:
        from msgspec.structs import astuple

        clock = datetime.fromtimestamp(float(now)).strftime("%H:%M:%S.%f")[:-3]
        say(make_printable(f"{clock}  {_EVENTS[name].format(*astuple(news))}"))
