"""`gandy audit`: shows which peers connected, were refused, submitted, cancelled or changed keys, and from where."""

import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Final

import click

from gandy.config import find_home
from gandy.errors import ConfigError
from gandy.terminal.exits import EXIT_HELP, make_epilog
from gandy.terminal.options import Format, output_option, refuse_joined
from gandy.terminal.say import print_json, say

FOLLOW_PAUSE: Final = 0.5  # seconds between two checks for new entries

# Text that needs no quotes. A name that a peer chose must not look like several words.
WORD: Final = re.compile(r"[\w.:@+-]+")


@click.command(
    epilog=make_epilog(
        "gandy audit",
        "gandy audit --last 1000 --output json",
        "gandy audit --follow",
        exits=EXIT_HELP + "  130  Ctrl-C\n",
    )
)
@click.option("--last", type=click.IntRange(1), default=50, show_default=True, metavar="N", help="How many entries.")
@click.option("--follow", "-f", is_flag=True, help="Print new entries as they come, until Ctrl-C.")
@output_option
def audit(last: int, follow: bool, output: Format) -> None:
    """Show who connected, was refused, submitted or changed something, and from where.

    The foreman of this home writes it to audit.jsonl; older entries are in audit.jsonl.1. With --output json, each
    entry is an object with the keys time, what, who and from; for peers that have a key also as (its role) and key (its
    id); and details that depend on the entry. With --output quiet, only who and what are printed.
    """
    path = Path(find_home(os.environ, sys.platform)) / "audit.jsonl"
    try:
        with path.open("rb") as file:
            for line in _read_last(path, file, last):
                _print(line, output)
            if not follow:
                return
            for line in _follow(path, file):
                _print(line, output)
    except FileNotFoundError:
        refuse_joined(path.parent)
        raise ConfigError(f"there is no audit log at {path}: no foreman has run in this home") from None
    except PermissionError:
        raise ConfigError(f"only the foreman's own user can read {path}") from None


def _read_last(path: Path, file: IO[bytes], last: int) -> list[bytes]:
    """Read the last lines, also from the older file if this one has too few."""
    found = deque(file, last)
    if found and not found[-1].endswith(b"\n"):
        file.seek(-len(found.pop()), os.SEEK_CUR)  # the foreman is writing it
    older: deque[bytes] = deque()
    old = path.with_name(f"{path.name}.1")
    if len(found) < last and old.exists():
        with old.open("rb") as before:
            older = deque(before, last - len(found))
    return [*older, *found]


def _follow(path: Path, file: IO[bytes]) -> Iterator[bytes]:
    """Iterate over new lines without end, also from the file that replaces this one."""
    rest = b""
    while True:
        sys.stdout.flush()
        is_old = _is_replaced(path, file)  # checked before the last read: later lines are in the new file
        while data := file.readline():
            rest += data
            if rest.endswith(b"\n"):
                yield rest
                rest = b""
        if is_old:
            file.close()
            file, rest = path.open("rb"), b""
        else:
            time.sleep(FOLLOW_PAUSE)


def _is_replaced(path: Path, file: IO[bytes]) -> bool:
    try:
        return not os.path.samestat(path.stat(), os.fstat(file.fileno()))
    except FileNotFoundError:
        return False  # the new file is not there yet


def _print(line: bytes, output: Format) -> None:
    try:
        entry: dict[str, Any] = json.loads(line)
        words = _describe(dict(entry), is_short=output == "quiet")
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        return  # a line that a crash cut short
    if output == "json":
        print_json(entry)
    else:
        say(words)


def _describe(entry: dict[str, Any], is_short: bool) -> str:
    moment = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(entry.pop("time")))
    who, what, place = _quote(entry.pop("who")), str(entry.pop("what")), str(entry.pop("from"))
    what = "was refused" if what == "refused" else what
    if is_short:
        return f"{who} {what}"
    about = " ".join(filter(None, (entry.pop("as", ""), entry.pop("key", ""))))
    whole = f"{moment} {who}{f' ({about})' if about else ''} at {place} {what}"
    details = [f"{name}={_quote(value)}" for name, value in entry.items() if value != ""]
    return f"{whole}: {' '.join(details)}" if details else whole


def _quote(value: object) -> str:
    text = f"{value:g}" if isinstance(value, float) else str(value)
    return (
        text if WORD.fullmatch(text) or text == "a stranger" else json.dumps(text, ensure_ascii=not text.isprintable())
    )
