"""`gandy audit`: shows which peers connected, were refused, submitted, cancelled or changed keys, and from where."""

import json
import os
import re
import sys
import time
from collections import deque
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, Final, NoReturn

import click

from gandy.config import SOCKET_NAME, find_home
from gandy.errors import ConfigError, GandyError, LinkError
from gandy.limits import MAX_PAGE
from gandy.terminal.exits import EXIT_HELP, make_epilog
from gandy.terminal.options import Format, output_option, refuse_joined
from gandy.terminal.say import print_json, say

if TYPE_CHECKING:
    from gandy.client import Client

FOLLOW_PAUSE: Final = 0.5  # seconds between two checks for new entries
FOLLOWED_LINES: Final = 1_000  # new entries of a crew between two checks: each check reads so many

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

    The foreman of this home writes it to audit.jsonl; older entries are in audit.jsonl.1. While that foreman runs and
    is one of many, the entries of all foremen of the crew are shown, at most 10,000. With --output json, each entry is
    an object with the keys time, what, who and from; for peers that have a key also as (its role) and key (its id); in
    a crew of many, foreman (the name of its machine); and details that depend on the entry. With --output quiet, only
    who and what are printed.
    """
    path = Path(find_home(os.environ, sys.platform)) / "audit.jsonl"
    if _show_crew(path.parent, last, follow, output):
        return
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


def _show_crew(home: Path, last: int, follow: bool, output: Format) -> bool:
    """Show the audit of a crew with many foremen. False if the foreman of this home is alone, or does not run."""
    from gandy.client import Client

    if not (home / SOCKET_NAME).exists():
        return False
    with Client(f"unix:{home / SOCKET_NAME}") as client:
        lines = _ask_crew(client, min(max(last, FOLLOWED_LINES), MAX_PAGE))
        if lines is None:
            return False
        for line in lines[-last:]:
            _print(line.encode(), output)
        if follow:
            _follow_crew(client, lines, output)
    return True


def _ask_crew(client: "Client", last: int) -> Sequence[str] | None:
    try:
        return client.audit(last)
    except LinkError:
        return None  # no foreman runs here
    except GandyError as error:
        say(f"the audit of the crew cannot be read, so this is what this foreman noted: {error}", err=True)
        return None


def _follow_crew(client: "Client", lines: Sequence[str], output: Format) -> NoReturn:
    """Print new lines without end. Lines of other foremen may come late, so the order of two does not say much."""
    seen = dict.fromkeys(lines)
    while True:
        sys.stdout.flush()
        time.sleep(FOLLOW_PAUSE)
        for line in client.audit(FOLLOWED_LINES) or ():
            if line not in seen:
                _print(line.encode(), output)
            seen.pop(line, None)
            seen[line] = None
        while len(seen) > 2 * FOLLOWED_LINES:
            del seen[next(iter(seen))]


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
