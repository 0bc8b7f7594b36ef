"""Links to the other foremen of the crew, one to each: by them a foreman learns at once that another one has died.

A link that breaks proves nothing. A foreman is dead if nothing listens at any of its addresses, or if another foreman
does. All other trouble is left to the leases.
"""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from gandy.core.requests import Answer, ForemanStatus, GetStatus, LookAtShards, Request
from gandy.core.shards import CrewView, ForemanPlace
from gandy.errors import ConfigError, LinkError, NothingListens
from gandy.foreman.crew_link import CrewLink, connect
from gandy.reach import Reach

log = logging.getLogger("gandy.foreman")

RETRY_PAUSE: Final = 0.2  # seconds between two tries to reach a foreman whose link broke
NUDGE_SECONDS: Final = 1.0  # that another foreman has to answer that it looks


class OtherForeman:
    """Another foreman, and our link to it."""

    def __init__(self, place: ForemanPlace, reach: Reach, on_death: Callable[[str], None]) -> None:
        self.place = place
        self._reach = reach
        self._on_death = on_death
        self.link: CrewLink | None = None
        self._keeping = asyncio.create_task(self._keep())

    async def _keep(self) -> None:
        """Keep the link up until the other foreman is dead, or we are closed."""
        while True:
            try:
                link = await connect(self._reach)
                if not await self._is_same(link):
                    link.close()
                    break
                self.link = link
                await link.request(LookAtShards())  # so that it knows us at once, if we are new
                await link.lost
            except NothingListens:
                break
            except (LinkError, ConfigError) as error:
                log.debug("the foreman %s cannot be reached: %s", self.place.name, error)
                await asyncio.sleep(RETRY_PAUSE)
            finally:
                self.link = None
        self._on_death(self.place.id)

    async def _is_same(self, link: CrewLink) -> bool:
        """False if another foreman has the address now."""
        answer = await link.request(GetStatus(is_local=True))
        return isinstance(answer, ForemanStatus) and answer.foreman == self.place.id

    async def request(self, request: Request) -> Answer:
        """Raises: LinkError."""
        if self.link is None:
            raise LinkError(f"there is no link to the foreman {self.place.name}")
        return await self.link.request(request)

    def close(self) -> None:
        self._keeping.cancel()
        if self.link is not None:
            self.link.close()


class OtherForemen:
    """All other foremen. `dead` has those that are known to be gone, until the database forgets them."""

    def __init__(
        self, me: str, make_reach: Callable[[ForemanPlace], Reach | None], on_death: Callable[[], None]
    ) -> None:
        self._me = me
        self._make_reach = make_reach
        self._on_change = on_death
        self._by_id: dict[str, OtherForeman] = {}
        self.dead: set[str] = set()

    def __iter__(self) -> Iterator[OtherForeman]:
        return iter(list(self._by_id.values()))

    def find(self, name: str) -> OtherForeman | None:
        """A foreman by its id or name."""
        return next((each for each in self if name in (each.place.id, each.place.name)), None)

    def on_view(self, view: CrewView) -> None:
        """Connect to foremen that are new, and forget those that are gone."""
        known = {each.id: each for each in view.foremen if each.id != self._me}
        self.dead &= known.keys()
        for gone in self._by_id.keys() - known.keys():
            self._by_id.pop(gone).close()
        for place in known.values():
            if place.id not in self._by_id and place.id not in self.dead:
                self._add(place)

    def _add(self, place: ForemanPlace) -> None:
        reach = self._make_reach(place)
        if reach is not None:
            self._by_id[place.id] = OtherForeman(place, reach, self._on_death)

    def _on_death(self, foreman: str) -> None:
        gone = self._by_id.pop(foreman, None)
        if gone is not None:
            log.warning("the foreman %s is gone", foreman)
            self.dead.add(foreman)
            self._on_change()

    async def nudge(self, foreman: str | None = None) -> None:
        """Have one foreman, or all, look at the database now. What cannot be reached looks by itself soon."""
        found = [each for each in self if foreman in (None, each.place.id)]
        await asyncio.gather(*map(_nudge, found))

    def close(self) -> None:
        for each in self._by_id.values():
            each.close()
        self._by_id.clear()


async def _nudge(other: OtherForeman) -> None:
    with suppress(LinkError, TimeoutError):
        async with asyncio.timeout(NUDGE_SECONDS):
            await other.request(LookAtShards())
