"""Has another foreman hand over what it owns, or finds out that it is gone and others have taken over.

It takes over nothing itself: that is left to `foreman.hosting`.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Final

from gandy.core import requests as ask
from gandy.core.hosting import BEAT_PERIOD, LEASE_SECONDS, find_foreman, list_present
from gandy.core.refusal import Refusal
from gandy.core.shards import CrewView, ForemanPlace
from gandy.errors import LinkError
from gandy.foreman.other_foremen import OtherForemen

LOOK_PERIOD: Final = 1.0  # seconds between two looks at whether a foreman is gone
LOOKS: Final = int(2 * LEASE_SECONDS / LOOK_PERIOD)  # by then others have taken over, unless none can


class Draining:
    """Of other foremen, as clients of this one ask for it."""

    def __init__(
        self, others: OtherForemen, get_view: Callable[[], CrewView], refresh: Callable[[], Awaitable[None]]
    ) -> None:
        """`refresh` reads the view again. Raises: StoreError."""
        self._others = others
        self._get_view = get_view
        self._refresh = refresh

    async def drain(self, foreman: str) -> None:
        """Return when it owns nothing any more. Raises: Refusal, StoreError."""
        await self._refresh()
        place = find_foreman(self._get_view(), foreman)
        if place is None:
            raise Refusal("refused", f"no foreman is called {foreman}; see 'gandy foreman list'")
        try:
            answer = await self._ask(place)
        except LinkError as error:
            if not await self._sees_end(place):
                raise Refusal("gone", f"{place.name} cannot be reached: {error}", retryable=True) from None
            return
        if isinstance(answer, ask.RequestFailure):
            raise Refusal(answer.kind, answer.message, answer.retryable)

    async def _ask(self, place: ForemanPlace) -> ask.Answer:
        """The answer of this foreman. Raises: LinkError: there is none, or it is gone."""
        found = self._others.find(place.id)
        if found is None:
            raise LinkError("nothing listens there")
        asking = asyncio.create_task(found.request(ask.DrainForeman()))
        try:
            while not asking.done() and not self._is_gone(place):  # its machine may have died with the link up
                await asyncio.wait({asking}, timeout=BEAT_PERIOD)
            if not asking.done():
                raise LinkError("it is silent")
            return asking.result()
        finally:
            asking.cancel()
            with suppress(LinkError, asyncio.CancelledError):
                await asking

    async def _sees_end(self, place: ForemanPlace) -> bool:
        """Wait until others have taken over. False: it lives, or none takes over. Raises: StoreError."""
        for look in range(LOOKS):
            await self._refresh()
            found = find_foreman(self._get_view(), place.id)
            if found is None or self._is_gone(place):
                return True
            if found.silent_seconds < look * LOOK_PERIOD:  # it has renewed its leases since
                return False
            await asyncio.sleep(LOOK_PERIOD)
        return False

    def _is_gone(self, place: ForemanPlace) -> bool:
        return place.id not in list_present(self._get_view())
