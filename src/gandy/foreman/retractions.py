"""Cancels tasks that have not begun, and only those. What a worker has is asked of that worker: only it knows."""

import asyncio
from collections.abc import Iterable
from typing import Final

from gandy.core import requests as ask
from gandy.core.extensions import RETRACT, Retraction, decode_retraction, encode
from gandy.core.model import AttemptKey
from gandy.errors import RemoteProtocolError
from gandy.foreman.errands import Errands
from gandy.foreman.server import Server
from gandy.wire.messages import Extension

PATIENCE: Final = 5.0  # seconds that a worker has to answer; a task on one that does not is taken for begun


class Retractions:
    """One for each foreman."""

    def __init__(self, server: Server, errands: Errands) -> None:
        self._server = server
        self._errands = errands

    async def retract(self, request: ask.RetractTasks) -> ask.Retracted:
        reactor = self._server.foreman.reactor
        given = reactor.list_given(request.job, request.tasks)
        at_hand, effects = reactor.retract(request.job, request.tasks, self._server.now())
        await self._server.commit(effects)
        answers = await asyncio.gather(*(self._ask(worker, attempts) for worker, attempts in given.items()))
        dropped = [attempt for answer in answers for attempt in answer]
        current = [a.task for a in dropped if reactor.current_attempt(a.job, a.task) == a]
        if current:
            await self._server.commit(reactor.cancel(request.job, current, self._server.now()))
        return ask.Retracted((*at_hand, *(attempt.task for attempt in dropped)))

    async def _ask(self, worker: str, attempts: list[AttemptKey]) -> Iterable[AttemptKey]:
        """Those that its worker had not begun and never will."""
        link = self._server.foreman.find_link(worker)
        if link is None or Extension.OUTPUT not in link.agreed:
            return ()
        try:
            answer = await self._errands.ask(link, RETRACT, encode(Retraction(tuple(attempts))), PATIENCE)
            return set(decode_retraction(answer).attempts) & set(attempts)
        except (TimeoutError, RemoteProtocolError):
            return ()
