"""What a server needs to know of the shard that it runs, and of the other shards of the crew."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from gandy.core import requests as ask
from gandy.core.links import Link
from gandy.core.model import JobState
from gandy.core.shards import NO_SHARD
from gandy.core.snapshot import NO_STATES
from gandy.foreman.messenger import Messenger
from gandy.foreman.subscriptions import Token
from gandy.ids import JobId

CrewRequest = ask.ListForemen | ask.DrainForeman | ask.LookAtShards


class ServedShard(Protocol):
    """One for each server."""

    number: int
    elsewhere: Mapping[JobId, JobState]  # states of jobs of other shards that jobs here were to run after

    async def hold(self) -> None:
        """Return if the shard is ours, so that peers may be sent what was committed. Raises: ShardLost."""

    def on_lost(self) -> None:
        """A commit was refused: another foreman owns the shard."""

    def connect(self, messenger: Messenger, /) -> None:
        """Answers and events of other shards go to clients by this."""

    async def forward(self, request: ask.Request, shard: int, link: Link, seq: int, /) -> ask.Answer:
        """Raises: Refusal."""

    async def ask_all(self, request: ask.Request, /) -> Sequence[ask.Answer]:
        """The answers of all other shards that answer in time."""

    async def manage(self, request: CrewRequest, /) -> ask.Answer:
        """Raises: Refusal, StoreError."""

    def unfollow(self, token: Token, /) -> None:
        """The client wants no more events of another shard."""

    def on_gone(self, link: Link, /) -> None: ...

    def close(self) -> None: ...


class WholeCrew:
    """The shard of a foreman whose store is its own: there are no others."""

    number = NO_SHARD
    elsewhere = NO_STATES

    async def hold(self) -> None:
        return

    def on_lost(self) -> None:
        raise AssertionError("no other foreman can own this store")

    def connect(self, _messenger: Messenger) -> None:
        return

    async def forward(self, _request: ask.Request, _shard: int, _link: Link, _seq: int) -> ask.Answer:
        raise AssertionError("there is no other shard")

    async def ask_all(self, _request: ask.Request) -> Sequence[ask.Answer]:
        return ()

    async def manage(self, _request: CrewRequest) -> ask.Answer:
        raise AssertionError("`core.lone_foreman` answers")

    def unfollow(self, _token: Token) -> None:
        return

    def on_gone(self, _link: Link) -> None:
        return

    def close(self) -> None:
        return
