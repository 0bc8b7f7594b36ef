"""The audit of a crew: lines of all its foremen, in the database that they share.

Lines wait here until the database has them. If it is away for long, further ones are only counted: the file of this
foreman has them all. A line whose answer was lost is sent again, so it may be there twice.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from gandy.errors import StoreError
from gandy.limits import MAX_AUDIT_BATCH, MAX_AUDIT_WAITING

log = logging.getLogger("gandy.foreman")

RETRY_PAUSE: Final = 1.0  # seconds until the database is tried again
CLOSE_SECONDS: Final = 1.0  # that the last lines have to get there


class CrewAudit:
    """`add` lines; `run` is a loop that sends them, in order and many at a time."""

    def __init__(self, send: Callable[[Sequence[str]], Awaitable[None]], on_lost: Callable[[int], None]) -> None:
        """`on_lost`: the database is back, and so many lines were not sent."""
        self._send = send
        self._on_lost = on_lost
        self._waiting: deque[str] = deque()
        self._lost = 0
        self._wake = asyncio.Event()

    def add(self, line: str) -> None:
        if len(self._waiting) >= MAX_AUDIT_WAITING:
            self._lost += 1
            return
        self._waiting.append(line)
        self._wake.set()

    async def run(self) -> None:
        """Runs until cancelled."""
        problem = ""
        while True:
            await self._wake.wait()
            self._wake.clear()
            while self._waiting:
                try:
                    await self._send_some()
                except StoreError as error:
                    if not problem:
                        log.warning("the audit of the crew waits for the database: %s", error)
                    problem = str(error)
                    await asyncio.sleep(RETRY_PAUSE)
                else:
                    problem = ""

    async def close(self) -> None:
        """Send what waits, if the database takes it at once."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                while self._waiting:
                    await self._send_some()
        except (StoreError, TimeoutError):
            log.warning("%d lines are missing in the audit of the crew", len(self._waiting))

    async def _send_some(self) -> None:
        """Raises: StoreError."""
        some = [self._waiting[number] for number in range(min(MAX_AUDIT_BATCH, len(self._waiting)))]
        await self._send(some)
        for _ in some:
            self._waiting.popleft()
        if self._lost:
            lost, self._lost = self._lost, 0
            self._on_lost(lost)
