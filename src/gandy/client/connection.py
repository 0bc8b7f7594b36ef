"""A client's connection to its crew: one link at a time, to any of its foremen, opened when it is first needed.

If the link breaks in the middle of a request, the request is sent again over the next one, if `repeats` allows that.
"""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Final, TypeVar

from msgspec.structs import replace

from gandy.client.caller import Caller
from gandy.client.learning import Learner
from gandy.client.link import ClientLink, connect
from gandy.client.repeats import REQUEST_PATIENCE, Patience, is_passing, may_repeat
from gandy.clocks import read_monotonic
from gandy.config import Address
from gandy.core.model import JobSpec
from gandy.core.requests import Answer, GetTime, Request, Time, WatchCrew, WatchTasks
from gandy.core.roles import CrewRole
from gandy.errors import (
    REFUSALS,
    CrewFailed,
    ErrorCode,
    GandyError,
    LinkError,
    NotAllowed,
    Rejected,
    RemoteProtocolError,
)
from gandy.limits import MAX_WAITING_UPDATES
from gandy.moments import LONG_AGO, Monotonic, Shared
from gandy.reach import Reach

# Seconds for the last tasks and casts to reach the foreman when a client is closed.
SEND_PATIENCE: Final = 5.0

A = TypeVar("A", bound=Answer)
T = TypeVar("T")


class Connection:
    """Makes requests to one foreman after the other, and has the caller for commands."""

    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._link: ClientLink | None = None
        self._lost_at = LONG_AGO  # when the link before it broke
        self._connecting = asyncio.Lock()
        self._is_closed = False
        self.end_of_crew = ""  # why there will be no foreman again; any thread may set it
        self._learner = Learner(reach)
        self.displays: set[asyncio.Future[None]] = set()  # in a notebook, which are kept up to date
        self.caller = Caller(self.wait_for_link, lambda: self._link, self.get_shared_time, self.explain_missing)

    @property
    def address(self) -> Address:
        """Where the foreman is, or the first place to look for it."""
        return self._reach.places[0] if self._link is None else self._link.address

    @property
    def role(self) -> CrewRole:
        """What we may do, as far as we know without asking."""
        keys = self._reach.keys
        if self.address.scheme == "tcp" and keys is not None:
            return keys.about.role
        return CrewRole.ANYBODY if self.address.scheme == "plain" else CrewRole.OWNER

    async def open(self) -> None:
        """Raises: LinkError, if no foreman can be reached."""
        self._is_closed = False
        self.caller.open()
        await self.get_link()

    async def close(self) -> None:
        self._is_closed = True
        self.caller.close()
        self._learner.stop()
        for display in self.displays:
            display.cancel()
        if self._link is not None:
            await self._link.wait_written(SEND_PATIENCE)
        await self._drop_link()

    async def get_link(self) -> ClientLink:
        """Return the link to a foreman, a new one if the last one broke.

        Raises: LinkError, if no foreman can be reached now; CrewFailed, if there will be none again.
        """
        if self.end_of_crew:
            raise CrewFailed(self.end_of_crew)
        async with self._connecting:
            if self._link is None or not self._link.is_open:
                await self._drop_link()
                self._link = await connect(self._reach, self.caller)
                self._learner.on_link(self._link, is_first=self._lost_at == LONG_AGO)
            return self._link

    async def _drop_link(self) -> None:
        link, self._link = self._link, None
        if link is not None:
            self._lost_at = link.lost_at
            await link.end()

    async def wait_for_link(self) -> ClientLink:
        """Like `get_link`, but a foreman that was there may be away for a while."""

        async def take(link: ClientLink, _again: bool) -> ClientLink:
            return link

        return await self.over_links(take)

    async def ask(self, request: Request, expected: type[A]) -> A:
        """Make one request.

        Raises: LinkError; if the foreman refuses: JobNotFound, Rejected, StoreError, GandyError.
        """

        async def ask(link: ClientLink, again: bool) -> A:
            return check(await link.ask(replace(request, again=True) if again else request), expected)

        return await self.over_links(ask, may_repeat(request))

    async def over_links(self, act: Callable[[ClientLink, bool], Awaitable[T]], is_repeatable: bool = True) -> T:
        """Do something over a link; and again over the next, if that breaks or the foreman cannot do it yet.

        `act` is passed the link, and whether it was called before. Raises: as `get_link` and `act`.
        """
        patience, first_error = Patience(), None
        while True:
            try:
                link = await self.get_link()
            except LinkError as error:
                pause = self._find_link_pause(patience, self._lost_at)
                if pause is None:
                    raise first_error or error from None
            else:
                try:
                    return await act(link, first_error is not None)
                except GandyError as error:
                    pause = self._find_pause(patience, link, error) if is_repeatable else None
                    if pause is None:
                        raise
                    first_error = first_error or error
            await asyncio.sleep(pause)

    def _find_pause(self, patience: Patience, link: ClientLink, error: GandyError) -> float | None:
        """How long to wait before the next try; None: give up."""
        if isinstance(error, LinkError):
            return self._find_link_pause(patience, link.lost_at)
        now = read_monotonic()
        has_just_moved = now < self._lost_at + REQUEST_PATIENCE
        is_over = not is_passing(error, len(self._reach.places) > 1, has_just_moved)
        return None if is_over else patience.on_refusal(now)

    def _find_link_pause(self, patience: Patience, lost_at: Monotonic) -> float | None:
        return None if self._is_closed else patience.on_link_error(lost_at, read_monotonic())

    async def watch(self, request: Request, expected: type[A]) -> AsyncGenerator[A, None]:
        """Make one request and iterate over its answer and its events, skipping those that are out of date.

        Raises: as `ask`, but at once. It ends only with an error.
        """
        link = await self.get_link()
        feed = link.follow(request, latest_only=True)
        try:
            while True:
                yield check(await feed.take(), expected)
        finally:
            link.unfollow(feed)

    async def view(self, request: WatchCrew | WatchTasks, expected: type[A]) -> AsyncGenerator[A, None]:
        """The same, without skipping any. A LinkError if they are not taken as fast as they come: ask again."""
        link = await self.get_link()
        feed = link.follow(request, limit=MAX_WAITING_UPDATES)
        try:
            while True:
                yield check(await feed.take(), expected)
        finally:
            link.unwatch(feed)

    async def get_shared_time(self) -> Shared:
        """Return the shared time of the foreman's ensemble, to within half a round trip. Raises: NoClock."""

        async def ask(link: ClientLink, _again: bool) -> Shared:
            asked = read_monotonic()
            answer = check(await link.ask(GetTime()), Time)
            return answer.shared + (read_monotonic() - asked) / 2

        return await self.over_links(ask)

    async def check_offers(self, spec: JobSpec) -> None:
        """An older foreman would ignore what it does not know. Raises: Rejected, LinkError."""
        if spec.at is not None and not (await self.wait_for_link()).takes_times:
            raise self.explain_missing("jobs with a time")
        if (spec.after_any or spec.after_each) and not (await self.wait_for_link()).takes_links:
            raise self.explain_missing("jobs that follow others in this way")

    def explain_missing(self, what: str) -> Rejected:
        """Make the error for something that the foreman does not offer: to an observer it offers less."""
        if self.role is CrewRole.OBSERVER:
            return NotAllowed(f"{self.address}: {REFUSALS[ErrorCode.WRONG_ROLE]}")
        return Rejected(f"the foreman does not know {what}: it is older than this client")


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
