"""All conversations of a worker: opens one for each shard of the crew, moves it to the shard's owner, and closes it.

Decisions are those of `core.routes`. With a foreman that knows no shards there is one conversation, for ever.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Final

from gandy.clocks import read_monotonic, read_wall
from gandy.config import Address, parse_address
from gandy.core.reports import read_shard
from gandy.core.routes import Changes, Routes
from gandy.core.shards import NO_SHARD, Directory
from gandy.errors import ConfigError, LinkError
from gandy.net.links import SocketLink
from gandy.reach import Reach
from gandy.worker.conversation import ShardConversation
from gandy.worker.foreman_link import SHARD_PAUSE, Dial
from gandy.worker.lookout import look
from gandy.worker.task_service import TaskService

log = logging.getLogger("gandy.worker")

WATCH_PERIOD: Final = 1.0  # seconds between two looks at conversations that may be closed, or have no links
LONELY_SECONDS: Final = 2.0  # without any link, after which the worker asks any foreman where the shards are now


class Conversations:
    """One per worker, on the current loop."""

    def __init__(
        self,
        reach: Reach,
        tasks: TaskService,
        make: Callable[[Callable[[ShardConversation], Dial]], ShardConversation],
        on_closed: Callable[[ShardConversation], None],
    ) -> None:
        """`make` makes a conversation that connects with what it is given. `on_closed`: one has ended for good."""
        self._reach = reach
        self._tasks = tasks
        self._make = make
        self._on_closed = on_closed
        self.all: list[ShardConversation] = []
        self._by_shard: dict[int, ShardConversation] = {}
        self._routes = Routes()
        self._work: dict[ShardConversation, list[asyncio.Task[None]]] = {}
        self._failed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._lonely_seconds = 0.0  # since there was a link
        self.is_closing = False  # the worker stops: no conversation is opened any more

    @property
    def has_link(self) -> bool:
        return any(each.link.link is not None for each in self.all)

    async def keep(self) -> None:
        """Keep the links up, until cancelled. Raises: NotAllowed, ConfigError."""
        await self._begin()
        while True:
            await asyncio.wait({self._failed}, timeout=WATCH_PERIOD)
            if self._failed.done():
                self._failed.result()
            self._close_retired()
            await self._watch_links()

    async def _begin(self) -> None:
        """Open the first conversation; or, if former workers left results for shards, those of these shards."""
        if not any(map(read_shard, self._tasks.results.left)):
            self._open(NO_SHARD)
            return
        while True:
            try:
                directory = await look(self._reach)
                break
            except LinkError as error:
                log.info("%s; trying again", error)
                await asyncio.sleep(SHARD_PAUSE)
        if directory is None:
            self._open(NO_SHARD, with_all_results=True)
        else:
            self._apply(self._routes.on_directory(directory, is_linked=False))

    async def close(self) -> None:
        """Cut all links, after what was written has gone out."""
        self.is_closing = True
        for each in self.all:
            self._stop_work(each)
        for each in self.all:
            await each.link.close()

    # Directories

    def on_directory(self, conversation: ShardConversation, directory: Directory) -> None:
        """A foreman says where all shards are."""
        here = directory.here
        if conversation.shard == NO_SHARD and here not in self._by_shard:
            self._adopt(conversation, here)
        if conversation.shard != here:
            log.warning("a foreman at a place of shard %d has shard %d; trying again", conversation.shard, here)
            conversation.link.leave()
            return
        if directory.foremen != self._routes.foremen:  # each foreman says so, again and again
            self._reach.remember_foremen(directory.foremen, read_wall())
        self._apply(self._routes.on_directory(directory))
        self._close_retired()

    def on_cut(self, conversation: ShardConversation) -> None:
        self._routes.on_cut(conversation.shard)

    def _apply(self, changes: Changes) -> None:
        for shard in changes.opened:
            if shard not in self._by_shard and not self.is_closing:
                self._open(shard)
        for shard in changes.moved:
            if shard in self._by_shard:
                log.info("shard %d has moved to another foreman", shard)
                self._relink(self._by_shard[shard])

    def _close_retired(self) -> None:
        for shard in self._routes.list_dead(read_monotonic()):
            conversation = self._by_shard.get(shard)
            if conversation is not None and not conversation.is_empty:
                log.info("shard %d is retired: what is held for it counts no more", shard)
                conversation.abandon()
        for shard in self._routes.list_retired():
            conversation = self._by_shard.get(shard)
            if conversation is not None and conversation.is_empty:
                self._close(conversation)
                self._routes.forget(shard)

    # Conversations

    def _open(self, shard: int, with_all_results: bool = False) -> None:
        conversation = self._make(self._make_dial)
        results = self._tasks.results
        others = () if with_all_results else [result for result in results.left if read_shard(result) != shard]
        conversation.side.inherit(result for result in results.left if with_all_results or read_shard(result) == shard)
        results.left = list(others)
        self.all.append(conversation)
        self._tasks.add_queue(conversation.queue, conversation.link)
        if shard != NO_SHARD:
            self._adopt(conversation, shard)
        self._work[conversation] = [asyncio.create_task(conversation.link.send_heartbeats())]
        self._relink(conversation)

    def _adopt(self, conversation: ShardConversation, shard: int) -> None:
        """The conversation is that of this shard from now on."""
        conversation.queue.shard = shard
        conversation.link.longest_pause = SHARD_PAUSE
        self._by_shard[shard] = conversation

    def _relink(self, conversation: ShardConversation) -> None:
        """Leave the place where the foreman was, and dial at once where it is now."""
        if conversation.linking is not None:
            conversation.linking.cancel()
        conversation.link.leave()
        conversation.linking = asyncio.create_task(conversation.link.keep())
        conversation.linking.add_done_callback(self._on_linking_done)

    def _on_linking_done(self, linking: asyncio.Task[None]) -> None:
        if not linking.cancelled() and (error := linking.exception()) is not None and not self._failed.done():
            self._failed.set_exception(error)

    def _stop_work(self, conversation: ShardConversation) -> None:
        for task in self._work.pop(conversation, ()):
            task.cancel()
        if conversation.linking is not None:
            conversation.linking.cancel()

    def _close(self, conversation: ShardConversation) -> None:
        self._stop_work(conversation)
        conversation.link.leave()
        self.all.remove(conversation)
        del self._by_shard[conversation.shard]
        self._tasks.remove_queue(conversation.queue)
        self._on_closed(conversation)

    # Links

    def _make_dial(self, conversation: ShardConversation) -> Dial:
        async def dial(make: Callable[[Address], SocketLink]) -> SocketLink:
            if conversation.shard == NO_SHARD:
                return await self._reach.dial(make)
            places = self._routes.list_places(conversation.shard, is_alone=not self.has_link)
            return await self._reach.dial_shard(conversation.shard, self._parse(places), make)

        return dial

    def _parse(self, places: tuple[str, ...]) -> tuple[Address, ...]:
        """The places that we have the keys for."""
        found = []
        for place in places:
            try:
                found.append(parse_address(place))
            except ConfigError as error:
                log.warning("a foreman names a place that is none: %s", error)
        return tuple(place for place in found if place.scheme != "tcp" or self._reach.keys is not None)

    async def _watch_links(self) -> None:
        """Ask any foreman where the shards are, if there has been no link for a while: all may have moved."""
        if self.has_link or not self._by_shard:
            self._lonely_seconds = 0.0
            return
        self._lonely_seconds += WATCH_PERIOD
        if self._lonely_seconds < LONELY_SECONDS:
            return
        addresses = [place for foreman in self._routes.foremen for place in foreman]
        try:
            directory = await look(self._reach.add_places(map(str, self._parse(tuple(addresses)))))
        except LinkError as error:
            log.info("%s; trying again", error)
            return
        if directory is not None:
            self._apply(self._routes.on_directory(directory, is_linked=False))
