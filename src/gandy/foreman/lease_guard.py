"""Keeps a foreman from speaking for a shard that may have another owner by now.

What is committed is fenced by the database. What is sent is not: a foreman that slept between the two must look first.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from gandy.clocks import read_monotonic
from gandy.core.hosting import LEASE_MARGIN, LEASE_SECONDS
from gandy.errors import ShardLost, StoreError
from gandy.moments import LONG_AGO, Monotonic

RETRY_PAUSE: Final = 0.5  # seconds between two looks while the database does not answer


class LeaseGuard:
    """One for each shard that runs here. `look` renews the lease, or calls `lose`."""

    def __init__(self, look: Callable[[], Awaitable[None]]) -> None:
        self._look = look
        self._until = LONG_AGO
        self.is_lost = False

    def renew(self, asked: Monotonic) -> None:
        """The database has renewed the lease, some time after `asked`."""
        self._until = asked + (LEASE_SECONDS - LEASE_MARGIN)

    def lose(self) -> None:
        self.is_lost = True

    async def hold(self) -> None:
        """Return while the shard is ours; waits for the database, if the lease may have expired. Raises: ShardLost."""
        while not self.is_lost and read_monotonic() >= self._until:
            try:
                await self._look()
            except StoreError:
                await asyncio.sleep(RETRY_PAUSE)
        if self.is_lost:
            raise ShardLost("another foreman owns this shard now")
