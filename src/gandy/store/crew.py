"""The interface of a database that all foremen of a crew share: who is there, which shards exist, and who owns each.

Times are by the clock of the database. Every method may raise StoreError.
"""

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from gandy.core.shards import CrewView, ForemanPlace, Lease
from gandy.store.base import Store


class StoredRing(NamedTuple):
    """The keyring of the crew, as bytes, and how often it was changed. Version 0: there is none yet."""

    version: int
    content: bytes


class CrewStore(Protocol):
    """A shard's store is fenced: a commit with an epoch that is not the shard's last raises ShardLost, and changes
    nothing."""

    async def open(self) -> None:
        """Connect, and bring the schema up to date, whole or not at all."""

    async def close(self) -> None: ...

    async def beat(self, me: ForemanPlace, leases: Sequence[Lease]) -> CrewView:
        """Say that we are there, renew our leases, and read all the rest: one statement. What was lost stays lost."""

    async def leave(self, me: str) -> None:
        """Forget this foreman. What it owned has no owner any more."""

    async def take_new(self, me: str) -> Lease:
        """Take a shard that has no owner and no jobs, or make one."""

    async def seize(self, me: str, seen: Lease) -> Lease | None:
        """Take over a shard from the owner that a view showed. None: another foreman was quicker, or a lease that had
        expired was renewed since."""

    async def hand_over(self, mine: Lease, heir: str) -> bool:
        """Make another foreman the owner of our shard. False: it was ours no longer."""

    async def retire(self, mine: Lease) -> bool:
        """Forget our shard, if all its jobs are final: those belong to no shard then. False: it has others."""

    def open_shard(self, mine: Lease) -> Store:
        """The store of our shard. Its `open` loads the shard's jobs."""

    async def load_ring(self) -> StoredRing: ...

    async def save_ring(self, ring: StoredRing) -> bool:
        """Replace the keyring of the version before `ring.version`. False: another foreman has changed it first."""

    async def note_audit(self, lines: Sequence[str]) -> None:
        """Add lines to the audit of the crew."""

    async def list_audit(self, limit: int) -> list[str]:
        """The last lines, the oldest first."""

    async def put_arguments(self, name: str, offset: int, data: bytes, is_last: bool) -> None:
        """As `foreman.arguments.ArgumentStore.put`."""

    async def read_arguments(self, name: str, offset: int, limit: int) -> bytes | None:
        """As `foreman.arguments.ArgumentStore.read`; None: there are none of that name."""

    async def drop_arguments(self, seconds: float) -> None:
        """Remove what has not been put or read for so long."""
