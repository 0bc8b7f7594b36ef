"""What all commands of the bus share: which ensemble, and how to be one of its processes for a while."""

import json
import os
import sys
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

import click

from gandy.config import find_home
from gandy.terminal.exits import EXIT_HELP, make_epilog
from gandy.terminal.say import say

if TYPE_CHECKING:
    from gandy.bus import Ensemble
    from gandy.bus.ensemble import Clock


F = TypeVar("F", bound=Callable[..., Any])

TICK: Final = 1.0  # seconds between two lines about a clock
MAX_UNPRINTED: Final = 1_000  # messages or news; then whoever sends them waits

EVERY_EXIT_HELP: Final = EXIT_HELP + "  130  Ctrl-C\n"


def bus_options(command: F) -> F:
    """Which ensemble, and where. They come as one dictionary."""
    options = (
        click.option(
            "--ensemble",
            default="gandy",
            show_default=True,
            envvar="GANDY_ENSEMBLE",
            metavar="NAME",
            help="Its name. GANDY_ENSEMBLE does the same.",
        ),
        click.option(
            "--dialect",
            type=click.Choice(["2016", "1.0", "1.1"]),
            default="2016",
            show_default=True,
            help="Which generation of the protocol its processes speak.",
        ),
        click.option(
            "--insecure", is_flag=True, help="Without a key, as the original: everybody on the network can take part."
        ),
        click.option(
            "--peer", "peers", multiple=True, metavar="HOST", help="The IP of a machine that broadcasts do not reach."
        ),
        click.option("--ip", metavar="IP", help="What other machines call this one. Default: found out."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def explain(*examples: str) -> str:
    return make_epilog(*examples, exits=EVERY_EXIT_HELP)


def join(told: dict[str, Any], clock: "Clock" = "follow") -> "Ensemble":
    """Still to be entered. Raises: ConfigError."""
    from gandy.bus import Ensemble

    if told["insecure"]:
        say("gandy: INSECURE: everybody on the network can take part in this ensemble", err=True)
    options = {key: told[key] for key in ("dialect", "insecure", "peers", "ip")}
    return Ensemble(told["ensemble"], clock=clock, **options)


def tell_who_is_seen(told: dict[str, Any]) -> str:
    """For those who wonder why somebody is missing."""
    from gandy.keys.ensemble import find_ensemble_key

    if told["insecure"]:
        return "only those who are --insecure, too, are seen"
    return f"only those who have the key in {find_ensemble_key(find_home(os.environ, sys.platform))} are seen"


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


def print_json(value: object) -> None:
    say(json.dumps(value, separators=(",", ":")))
