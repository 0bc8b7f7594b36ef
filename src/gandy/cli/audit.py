"""`gandy audit`: who came, was refused, submitted, cancelled or changed keys, and from where."""

import json
import os
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from gandy.cli.exits import make_epilog
from gandy.cli.options import Format, output_option
from gandy.config import tell_home
from gandy.errors import ConfigError

FOLLOW_PAUSE = 0.5  # seconds between two looks at whether there is more


@click.command(epilog=make_epilog("gandy audit", "gandy audit --last 1000 --output json", "gandy audit --follow"))
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="So many entries.")
@click.option("--follow", "-f", is_flag=True, help="Go on as more come, until Ctrl-C.")
@output_option
def audit(last: int, follow: bool, output: Format) -> None:
    """Tell who came, was refused, submitted or changed something, and from where.

    It is what the foreman of this home wrote, in audit.jsonl and, before that, audit.jsonl.1. With --output json, each
    entry is an object with the keys time, what and who, and what else there is to tell.
    """
    path = Path(tell_home(os.environ, sys.platform)) / "audit.jsonl"
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            for line in deque(file, last):
                _print(line, output)
            while follow:
                sys.stdout.flush()
                time.sleep(FOLLOW_PAUSE)
                for line in file:
                    _print(line, output)
    except FileNotFoundError:
        raise ConfigError(f"there is no audit at {path}: no foreman has run in this home") from None
    except PermissionError:
        raise ConfigError(f"{path} is for the foreman's own user") from None


def _print(line: str, output: Format) -> None:
    if output == "json":
        click.echo(line.rstrip("\n"))
        return
    try:
        entry: dict[str, Any] = json.loads(line)
        words = list(_describe(entry))
    except (ValueError, KeyError, TypeError):
        return  # the end of a line that a crash cut short
    click.echo(" ".join(words[1:3] if output == "quiet" else words))


def _describe(entry: dict[str, Any]) -> Iterator[str]:
    from gandy.cli.people import make_printable

    yield time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.pop("time")))
    what, who = entry.pop("what"), entry.pop("who")
    yield make_printable(str(who))
    yield make_printable(str(what))
    for name, value in entry.items():
        yield f"{name}={make_printable(str(value))}"
