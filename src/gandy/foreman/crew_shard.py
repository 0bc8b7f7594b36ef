"""A shard of a crew with many foremen, as its server sees it: the lease, the other shards, the other foremen."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Final, Protocol

from gandy.core import requests as ask
from gandy.core.hosting import list_present
from gandy.core.links import Link
from gandy.core.model import JobState
from gandy.core.shards import CrewView, ForemanPlace, Lease
from gandy.errors import GandyError
from gandy.foreman.forwarder import Forwarder
from gandy.foreman.lease_guard import LeaseGuard
from gandy.foreman.messenger import Messenger
from gandy.foreman.shard import CrewRequest
from gandy.foreman.subscriptions import Token
from gandy.ids import JobId
from gandy.reach import Reach

ANSWER_SECONDS: Final = 1.0  # that another shard has to answer a question about the whole crew


class ShardHost(Protocol):
    """What a shard needs of the process that runs it."""

    me: ForemanPlace
    view: CrewView  # what the database showed last

    def reach_shard(self, shard: int) -> Reach | None:
        """How a shard can be reached; None if it has no owner now."""

    def on_shard_lost(self, shard: int) -> None: ...

    async def refresh(self) -> None:
        """Read `view` again. Raises: StoreError."""

    def nudge(self) -> None:
        """Look at the database soon."""

    async def drain(self, foreman: str) -> None:
        """Have a foreman, or this one, hand over all that it owns. Raises: Refusal, StoreError."""


class CrewShard:
    """Implements `foreman.shard.ServedShard`."""

    def __init__(self, host: ShardHost, lease: Lease, guard: LeaseGuard, elsewhere: Mapping[JobId, JobState]) -> None:
        self.number = lease.shard
        self.elsewhere = elsewhere
        self._host = host
        self._guard = guard
        self._forwarder: Forwarder
        self.count_jobs: Callable[[], int]  # that are not final

    def connect(self, messenger: Messenger) -> None:
        self._forwarder = Forwarder(messenger, self._host.reach_shard)

    async def hold(self) -> None:
        await self._guard.hold()

    def on_lost(self) -> None:
        self._guard.lose()
        self._host.on_shard_lost(self.number)

    async def forward(self, request: ask.Request, shard: int, link: Link, seq: int) -> ask.Answer:
        return await self._forwarder.forward(request, shard, link, seq)

    def unfollow(self, token: Token) -> None:
        self._forwarder.unfollow(token)

    def on_gone(self, link: Link) -> None:
        self._forwarder.on_gone(link)

    def close(self) -> None:
        self._forwarder.close()

    async def ask_all(self, request: ask.Request) -> Sequence[ask.Answer]:
        others = [lease.shard for lease in self._host.view.leases if lease.owner and lease.shard != self.number]
        answers = await asyncio.gather(*(self._ask(request, shard) for shard in others))
        return [answer for answer in answers if answer is not None]

    async def _ask(self, request: ask.Request, shard: int) -> ask.Answer | None:
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._forwarder.ask(request, shard)
        except (GandyError, TimeoutError):
            return None

    async def manage(self, request: CrewRequest) -> ask.Answer:
        match request:
            case ask.ListForemen():
                return await self._list_foremen()
            case ask.DrainForeman(foreman):
                if not (request.again and await self._has_left(foreman)):
                    await self._host.drain(foreman)
            case ask.LookAtShards():
                self._host.nudge()
        return ask.Done()

    async def _has_left(self, foreman: str) -> bool:
        """True if no foreman has this id or name any more: if it was asked to leave before, it has."""
        await self._host.refresh()
        return all(foreman not in (each.id, each.name) for each in self._host.view.foremen)

    async def _list_foremen(self) -> ask.ForemanList:
        await self._host.refresh()
        view = self._host.view
        found = await self.ask_all(ask.GetStatus(is_local=True))
        jobs = {each.shard: each.jobs for each in found if isinstance(each, ask.ForemanStatus)}
        jobs[self.number] = self.count_jobs()
        return ask.ForemanList(tuple(describe(each, view, jobs, self._host.me.id) for each in view.foremen))


def describe(foreman: ForemanPlace, view: CrewView, jobs: Mapping[int, int], me: str) -> ask.ForemanRow:
    """A foreman as it is listed."""
    owned = [lease for lease in view.leases if lease.owner == foreman.id]
    return ask.ForemanRow(
        foreman.id,
        foreman.name,
        foreman.version,
        foreman.places,
        tuple(sorted(lease.shard for lease in owned)),
        sum(jobs.get(lease.shard, 0) for lease in owned),
        min((lease.seconds_left for lease in owned), default=0.0),
        foreman.silent_seconds,
        foreman.is_leaving,
        foreman.id == me,
        foreman.id not in list_present(view),
    )
