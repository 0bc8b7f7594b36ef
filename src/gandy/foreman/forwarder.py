"""Passes requests about jobs of other shards to their owners, and the answers back. It decides nothing.

Each client link has a connection of its own to each shard that it asks about. So the owner forgets what belongs to the
client (open jobs, watches) when the client hangs up, as if the client had been connected there. And if the client does
not read, the connection is not read either: the owner sees a viewer that lags, and leaves updates out.
"""

import asyncio
import logging
from collections.abc import Callable
from functools import partial

from gandy.core import requests as ask
from gandy.core.links import Link
from gandy.core.refusal import Refusal
from gandy.errors import ConfigError, LinkError
from gandy.foreman.crew_link import CrewLink, connect
from gandy.foreman.forwarded import FOLLOWED, ForwardedRequest, is_last, make_refusal
from gandy.foreman.messenger import Messenger
from gandy.foreman.subscriptions import Token
from gandy.limits import MAX_VIEWER_BYTES
from gandy.net.links import get_port
from gandy.reach import Reach

log = logging.getLogger("gandy.foreman")

Key = tuple[Link | None, int]  # a client's link, or None for questions of our own; and a shard


class Forwarder:
    """Has the connections of all client links of one server."""

    def __init__(self, messenger: Messenger, find_shard: Callable[[int], Reach | None]) -> None:
        """`find_shard`: how a shard can be reached; None if it has no owner now."""
        self._messenger = messenger
        self._find_shard = find_shard
        self._links: dict[Key, asyncio.Task[CrewLink]] = {}
        self._followed: dict[Token, ForwardedRequest] = {}  # those that events may follow

    async def forward(self, request: ask.Request, shard: int, link: Link, seq: int) -> ask.Answer:
        """The answer of the shard's owner. Events that follow are sent to the client. Raises: Refusal."""
        token = link, seq
        forwarded = ForwardedRequest(token, shard, self._send_event)
        if isinstance(request, FOLLOWED):
            if token in self._followed:
                raise Refusal("bad_request", "a request with this number has no answer yet, or gets events")
            self._followed[token] = forwarded
        try:
            peer = await self._get(link, shard)
            if not forwarded.is_over:
                forwarded.send(peer, request)
                await peer.wait_for(forwarded.answered)
        except (LinkError, ConfigError) as error:
            log.debug("shard %d cannot be reached: %s", shard, error)
            self._end(forwarded)
            raise make_refusal(shard) from None
        answer = forwarded.answered.result()
        if isinstance(request, FOLLOWED) and not forwarded.is_over and not is_last(answer):
            forwarded.follow()
        else:
            self._end(forwarded)
        return answer

    def unfollow(self, token: Token) -> None:
        """The client wants no more events for this request."""
        forwarded = self._followed.get(token)
        if forwarded is not None:
            self._end(forwarded, must_unwatch=True)

    def _end(self, forwarded: ForwardedRequest, must_unwatch: bool = False) -> None:
        if self._followed.get(forwarded.token) is forwarded:
            del self._followed[forwarded.token]
        forwarded.end(must_unwatch)

    def _send_event(self, forwarded: ForwardedRequest, event: ask.Answer) -> None:
        if forwarded.is_over:
            return
        link, seq = forwarded.token
        self._messenger.send_event(link, seq, event)
        link.flush()  # only what is written counts as unsent
        port = get_port(link)
        if port.unsent_bytes > MAX_VIEWER_BYTES:
            port.on_drained = partial(self._read_again, link)
            for peer in self._list_peers(link):
                peer.pause_reading()
        if is_last(event):
            self._end(forwarded)

    def _read_again(self, link: Link) -> None:
        """The client has read what waited for it."""
        for peer in self._list_peers(link):
            peer.resume_reading()

    def _list_peers(self, link: Link) -> list[CrewLink]:
        """The connections of this client that are open."""
        return [each.result() for key, each in self._links.items() if key[0] is link and _has_opened(each)]

    async def ask(self, request: ask.Request, shard: int) -> ask.Answer:
        """The answer of a shard's owner to a question of our own. Raises: LinkError, ConfigError."""
        return await (await self._get(None, shard)).request(request)

    async def _get(self, link: Link | None, shard: int) -> CrewLink:
        """The connection for this client. Raises: LinkError, ConfigError."""
        key = (link, shard)
        opening = self._links.get(key)
        if opening is None or _is_over(opening):
            opening = self._links[key] = asyncio.create_task(self._open(shard))
        return await asyncio.shield(opening)

    async def _open(self, shard: int) -> CrewLink:
        reach = self._find_shard(shard)
        if reach is None:
            raise LinkError("it has no owner at the moment")
        return await connect(reach, shard)

    def on_gone(self, link: Link) -> None:
        """A client is gone, and with it all that was asked for it."""
        for forwarded in [each for token, each in self._followed.items() if token[0] is link]:
            self._end(forwarded)
        for key in [key for key in self._links if key[0] is link]:
            _close(self._links.pop(key))

    def close(self) -> None:
        for opening in self._links.values():
            _close(opening)
        self._links.clear()


def _has_opened(opening: "asyncio.Task[CrewLink]") -> bool:
    return opening.done() and not opening.cancelled() and opening.exception() is None


def _is_over(opening: "asyncio.Task[CrewLink]") -> bool:
    """True if there is no connection, and will be none."""
    return opening.done() and (not _has_opened(opening) or opening.result().lost.done())


def _close(opening: "asyncio.Task[CrewLink]") -> None:
    if _has_opened(opening):
        opening.result().close()
    else:
        opening.cancel()
