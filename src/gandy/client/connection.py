"""A client's connection to its foreman: one link at a time, opened when it is first needed and again after a break.

A request over a link that breaks is not sent again; callers may repeat requests that only read.
"""

import asyncio
from collections.abc import AsyncGenerator, Iterator
from typing import Final, TypeVar

from gandy.client.caller import Caller
from gandy.client.link import ClientLink, connect
from gandy.clocks import read_monotonic
from gandy.config import Address
from gandy.core.requests import Answer, GetTime, Request, Time
from gandy.core.roles import CrewRole
from gandy.errors import REFUSALS, ErrorCode, NotAllowed, Rejected, RemoteProtocolError
from gandy.moments import Shared
from gandy.reach import Reach

# Seconds before the next try to reach a foreman that went away: the first pause, and the longest; each doubles.
RETURN_PAUSES: Final = (0.1, 5.0)

# Seconds for the last tasks and casts to reach the foreman when a client is closed.
SEND_PATIENCE: Final = 5.0

A = TypeVar("A", bound=Answer)


class Connection:
    """Makes requests to one foreman, and has the caller for its commands."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._link: ClientLink | None = None
        self._connecting = asyncio.Lock()
        self.caller = Caller(self.get_link, lambda: self._link, self.get_shared_time, self.explain_missing)

    @property
    def address(self) -> Address:
        """Where the foreman is, or the first place to look for it."""
        return self._reach.places[0] if self._link is None else self._link.address

    async def open(self) -> None:
        """Raises: LinkError, if no foreman can be reached."""
        self.caller.open()
        await self.get_link()

    async def close(self) -> None:
        self.caller.close()
        if self._link is not None:
            await self._link.wait_written(SEND_PATIENCE)
        await self._drop_link()

    async def get_link(self) -> ClientLink:
        """Return the link to the foreman, a new one if the last one broke.

        Raises: LinkError.
        """
        async with self._connecting:
            if self._link is None or not self._link.is_open:
                await self._drop_link()
                self._link = await connect(self._reach, self.caller)
            return self._link

    async def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            await link.end()

    async def ask(self, request: Request, expected: type[A]) -> A:
        """Make one request.

        Raises: LinkError; if the foreman refuses: JobNotFound, Rejected, StoreError, GandyError.
        """
        link = await self.get_link()
        return check(await link.ask(request), expected)

    async def watch(self, request: Request, expected: type[A]) -> AsyncGenerator[A, None]:
        """Make one request and iterate over its events, skipping those that are out of date.

        Raises: as `ask`. It ends only with an error.
        """
        link = await self.get_link()
        feed = link.follow(request, latest_only=True)
        try:
            while True:
                yield check(await feed.take(), expected)
        finally:
            link.unfollow(feed)

    async def get_shared_time(self) -> Shared:
        """Return the shared time of the foreman's ensemble, to within half a round trip. Raises: NoClock."""
        asked = read_monotonic()
        answer = await self.ask(GetTime(), Time)
        return answer.shared + (read_monotonic() - asked) / 2

    def explain_missing(self, what: str) -> Rejected:
        """Make the error for something that the foreman does not offer: to an observer it offers less."""
        keys = self._reach.keys
        if self.address.scheme == "tcp" and keys is not None and keys.about.role is CrewRole.OBSERVER:
            return NotAllowed(f"{self.address}: {REFUSALS[ErrorCode.WRONG_ROLE]}")
        return Rejected(f"the foreman does not know {what}: it is older than this client")


def return_pauses() -> Iterator[float]:
    """Iterate over the pauses between tries to reach a foreman that went away."""
    return growing(*RETURN_PAUSES)


def growing(first: float, last: float) -> Iterator[float]:
    """Iterate without end over pauses that double until `last`, which repeats."""
    pause = first
    while True:
        yield pause
        pause = min(2 * pause, last)


def check(answer: Answer, expected: type[A]) -> A:
    """Raises: RemoteProtocolError, if the answer is of another type."""
    if not isinstance(answer, expected):
        text = f"the foreman answered {type(answer).__name__}, and {expected.__name__} was expected"
        raise RemoteProtocolError(text, ErrorCode.BAD_PAYLOAD)
    return answer


def check_progress(has_advanced: bool) -> None:
    """Raises: RemoteProtocolError, unless the page is a new one: a foreman must not make us read without end."""
    if not has_advanced:
        raise RemoteProtocolError("the foreman sent the same page again", ErrorCode.BAD_PAYLOAD)
