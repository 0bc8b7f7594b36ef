"""Passes requests about jobs of other shards to their owners, and the answers back. It decides nothing.

Each client link has a connection of its own to each shard that it asks about. So the owner forgets what belongs to the
client (open jobs, watches) when the client hangs up, as if the client had been connected there.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Final

from gandy.core import requests as ask
from gandy.core.links import Link
from gandy.core.refusal import Refusal
from gandy.errors import ConfigError, LinkError
from gandy.foreman.crew_link import CrewLink, connect
from gandy.foreman.messenger import Messenger
from gandy.reach import Reach

log = logging.getLogger("gandy.foreman")

MOVED = "moved"  # the kind of a failure: the owner of a shard is changing, so the client should ask again

# Requests whose answer is followed by events.
FOLLOWED: Final = ask.WatchJob | ask.WatchResults | ask.WatchCrew | ask.WatchTasks

Key = tuple[Link | None, int]  # a client's link, or None for questions of our own; and a shard


class Forwarder:
    """Has the connections of all client links of one server."""

    def __init__(self, messenger: Messenger, find_shard: Callable[[int], Reach | None]) -> None:
        """`find_shard`: how a shard can be reached; None if it has no owner now."""
        self._messenger = messenger
        self._find_shard = find_shard
        self._links: dict[Key, asyncio.Task[CrewLink]] = {}

    async def forward(self, request: ask.Request, shard: int, link: Link, seq: int) -> ask.Answer:
        """The answer of the shard's owner. Events that follow are sent to the client. Raises: Refusal."""
        try:
            peer = await self._get(link, shard)
            answered: asyncio.Future[ask.Answer] = asyncio.get_running_loop().create_future()
            peer.ask(request, partial(self._pass, answered, (link, seq)))
            await peer.wait_for(answered)
        except (LinkError, ConfigError) as error:
            log.debug("shard %d cannot be reached: %s", shard, error)
            raise _make_refusal(shard) from None
        if isinstance(request, FOLLOWED):
            peer.lost.add_done_callback(lambda _lost: self._end_events(link, seq, shard))
        return answered.result()

    def _pass(
        self, answered: "asyncio.Future[ask.Answer]", token: tuple[Link, int], answer: ask.Answer, is_event: bool
    ) -> None:
        if is_event:
            self._messenger.send_event(*token, answer)
        elif not answered.done():
            answered.set_result(answer)

    def _end_events(self, link: Link, seq: int, shard: int) -> None:
        """No more events come over this connection: the client must ask again."""
        refusal = _make_refusal(shard)
        self._messenger.send_event(link, seq, ask.make_failure(refusal.kind, str(refusal), retryable=True))

    async def ask(self, request: ask.Request, shard: int) -> ask.Answer:
        """The answer of a shard's owner to a question of our own. Raises: LinkError, ConfigError."""
        return await (await self._get(None, shard)).request(request)

    async def _get(self, link: Link | None, shard: int) -> CrewLink:
        """The connection for this client. Raises: LinkError, ConfigError."""
        key = (link, shard)
        opening = self._links.get(key)
        if opening is None or (opening.done() and _is_over(opening)):
            opening = self._links[key] = asyncio.create_task(self._open(shard))
        return await asyncio.shield(opening)

    async def _open(self, shard: int) -> CrewLink:
        reach = self._find_shard(shard)
        if reach is None:
            raise LinkError("it has no owner at the moment")
        return await connect(reach, shard)

    def on_gone(self, link: Link) -> None:
        """A client is gone, and with it all that was asked for it."""
        for key in [key for key in self._links if key[0] is link]:
            _close(self._links.pop(key))

    def close(self) -> None:
        for opening in self._links.values():
            _close(opening)
        self._links.clear()


def _is_over(opening: "asyncio.Task[CrewLink]") -> bool:
    return opening.cancelled() or opening.exception() is not None or opening.result().lost.done()


def _close(opening: "asyncio.Task[CrewLink]") -> None:
    if not opening.done():
        opening.cancel()
    elif not opening.cancelled() and opening.exception() is None:
        opening.result().close()


def _make_refusal(shard: int) -> Refusal:
    return Refusal(MOVED, f"the owner of shard {shard}, which has this job, is changing: try again", retryable=True)
