"""Learns from the foreman of a link where the other foremen of the crew are, so that another link can go there.

A short command asks at most once a day, together with its first request, so it waits no longer.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import suppress
from functools import partial
from itertools import zip_longest
from typing import Final

from gandy.client.link import ClientLink
from gandy.clocks import read_wall
from gandy.config import Address, parse_address
from gandy.core.requests import Answer, ForemanList, ForemanRow, ListForemen
from gandy.errors import ConfigError, LinkError
from gandy.reach import Reach

# Seconds before a client that need not know asks: most are gone by then.
FIRST_PAUSE: Final = 1.0

# Seconds between two requests of a client that stays.
PERIOD: Final = 600.0

# Hosts of foremen that listen at all addresses of their machines: no place to connect to from elsewhere.
WILDCARDS: Final = ("0.0.0.0", "::")  # noqa: S104 - nothing listens here


class Learner:
    """Asks over one link after the other. Refusals are ignored: an older foreman has no others."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._timer: asyncio.TimerHandle | None = None

    def on_link(self, link: ClientLink, is_first: bool) -> None:
        """A link is open. `is_first`: no other link broke before."""
        self.stop()
        if not is_first or (link.address.scheme == "tcp" and self._reach.needs_to_learn(read_wall())):
            self._ask(link)
        else:
            self._ask_later(link, FIRST_PAUSE)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _ask_later(self, link: ClientLink, seconds: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(seconds, self._ask, link)

    def _ask(self, link: ClientLink) -> None:
        self._timer = None
        with suppress(LinkError):
            link.ask(ListForemen()).add_done_callback(partial(self._on_answer, link))

    def _on_answer(self, link: ClientLink, answer: "asyncio.Future[Answer]") -> None:
        error = None if answer.cancelled() else answer.exception()
        if answer.cancelled() or isinstance(error, LinkError):
            return
        found = answer.result() if error is None else ForemanList(())
        rows = found.rows if isinstance(found, ForemanList) else ()
        self._reach.learn(find_places(rows), link.address, read_wall())
        if link.is_open:
            self._ask_later(link, PERIOD)


def find_places(rows: Sequence[ForemanRow]) -> list[Address]:
    """Where the foremen of a crew are: the likeliest place of each, then the next one of each. None, if it has one.

    Paths of unix sockets mean something only on the machine of the foreman that was asked.
    """
    if len(rows) < 2:
        return []
    here = {row.name for row in rows if row.is_here}
    lists = [_parse_places(row, row.name in here) for row in rows if not row.is_leaving]
    return [place for turn in zip_longest(*lists) for place in turn if place is not None]


def _parse_places(row: ForemanRow, is_near: bool) -> Iterator[Address]:
    for text in row.places:
        with suppress(ConfigError):
            place = parse_address(text)
            if (is_near or place.scheme != "unix") and place.host not in WILDCARDS:
                yield place
