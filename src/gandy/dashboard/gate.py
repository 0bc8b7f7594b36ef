"""Bounds what browsers and programs make the foreman do: how many of their requests are under way, and for how long."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from http import HTTPStatus
from typing import Final

from gandy.clocks import read_monotonic
from gandy.dashboard.limits import MAX_SESSION_REQUESTS, MAX_UNDER_WAY, MAX_WAITING
from gandy.dashboard.messages import HttpRefusal
from gandy.dashboard.sessions import Session

PATIENCE: Final = 25.0  # seconds for an answer; a client tries for 15 to reach a foreman that has just gone


class Gate:
    """Requests to the foreman pass through it, each as part of a session."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(MAX_UNDER_WAY)
        self._waiting = 0

    @asynccontextmanager
    async def hold(self, session: Session) -> AsyncIterator[None]:
        """Raises: HttpRefusal."""
        if self._waiting >= MAX_WAITING:
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "busy", "too many requests wait for the foreman")
        self._waiting += 1
        try:
            async with asyncio.timeout(PATIENCE):
                await asyncio.sleep(session.take_turn(read_monotonic()))
                async with self._room:
                    yield
        except TimeoutError:
            raise HttpRefusal(HTTPStatus.SERVICE_UNAVAILABLE, "away", "the foreman did not answer in time") from None
        finally:
            self._waiting -= 1


def count_request(session: Session) -> None:
    """Raises: HttpRefusal, if the session has too many already."""
    if session.requests >= MAX_SESSION_REQUESTS:
        text = f"only {MAX_SESSION_REQUESTS} requests are handled at once; wait for their answers"
        raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, "too_many", text, {"Retry-After": "1"})
    session.requests += 1
