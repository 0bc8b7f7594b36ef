"""What all commands of the bus share: the options that name an ensemble, joining it, and a queue of things to print."""

import os
import sys
from collections.abc import Callable, Iterator
from functools import wraps
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Self

import click

from gandy.config import find_home
from gandy.limits import MAX_UNPRINTED
from gandy.terminal.exits import EXIT_HELP, make_epilog
from gandy.terminal.say import say

if TYPE_CHECKING:
    from gandy.bus import Ensemble
    from gandy.bus.ensemble import Clock
    from gandy.bus.wire.dialects import DialectName


TICK: Final = 1.0  # seconds between two lines about a clock

EVERY_EXIT_HELP: Final = EXIT_HELP + "  130  Ctrl-C\n"


class EnsembleOptions(NamedTuple):
    """Which ensemble, and how to reach it."""

    ensemble: str
    dialect: "DialectName"
    insecure: bool
    peers: tuple[str, ...]
    ip: str | None


def bus_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options of EnsembleOptions to a command, which gets them as one parameter `options`."""
    options = (
        click.option(
            "--ensemble",
            default="gandy",
            show_default=True,
            envvar="GANDY_ENSEMBLE",
            metavar="NAME",
            help="The name of the ensemble. Or set GANDY_ENSEMBLE.",
        ),
        click.option(
            "--dialect",
            type=click.Choice(["2016", "1.0", "1.1"]),
            default="2016",
            show_default=True,
            help="The generation of the protocol that its processes speak.",
        ),
        click.option(
            "--insecure",
            is_flag=True,
            help="Use no key, like the original: any program on the network can take part.",
        ),
        click.option(
            "--peer", "peers", multiple=True, metavar="HOST", help="The IP of a machine that broadcasts do not reach."
        ),
        click.option("--ip", metavar="IP", help="The IP at which other machines reach this one. Default: detected."),
    )

    @wraps(command)
    def run(**given: Any) -> None:
        command(options=EnsembleOptions(**{name: given.pop(name) for name in EnsembleOptions._fields}), **given)

    for option in reversed(options):
        run = option(run)
    return run


def explain(*examples: str) -> str:
    return make_epilog(*examples, exits=EVERY_EXIT_HELP)


def join(options: EnsembleOptions, clock: "Clock" = "follow") -> "Ensemble":
    """Join an ensemble. Use it in a `with` statement. Raises: ConfigError."""
    from gandy.bus import Ensemble

    name, dialect, insecure, peers, ip = options
    if insecure:
        say("gandy: INSECURE: any program on the network can take part in this ensemble", err=True)
    return Ensemble(name, clock=clock, dialect=dialect, insecure=insecure, peers=peers, ip=ip)


def explain_visibility(options: EnsembleOptions) -> str:
    """Explain why a process may be missing."""
    from gandy.keys.ensemble import find_ensemble_key

    if options.insecure:
        return "only processes that are --insecure too are seen"
    return f"only processes that have the key in {find_ensemble_key(find_home(os.environ, sys.platform))} are seen"


class PrintQueue:
    """A queue from the ensemble's thread, which waits if it is full, to the thread that prints."""

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
        """Close the queue. This must happen before the ensemble closes, whose thread may be waiting in `put`."""
        self._is_closed = True

    def __iter__(self) -> Iterator[Any]:
        """Iterate over items without end."""
        while True:
            yield self._queue.get()
