"""The keyring of a crew, in the database that its foremen share, beside the identity that it belongs to.

Each save replaces exactly the version that was loaded: of two foremen that change it at once, one loads it again.
"""

import msgspec
from msgspec import Struct

from gandy.core.keyring import RingState
from gandy.errors import ConfigError, StoreError
from gandy.store.crew import CrewStore, StoredRing


class OtherIdentity(ConfigError):
    """The crew of the database has another identity than this home."""

    def __init__(self) -> None:
        super().__init__(
            "this database belongs to a crew with another identity: "
            "run 'gandy invite --foreman' there and 'gandy join' here"
        )


class CrewRing(Struct, frozen=True):
    """The row's content."""

    identity: str  # fingerprint
    ring: RingState


class RingTable:
    """A `keys.kept_ring.RingPlace`."""

    is_shared = True

    def __init__(self, store: CrewStore, identity: str) -> None:
        self._store = store
        self._identity = identity
        self.version = 0  # that we loaded or saved last

    async def load(self) -> RingState | None:
        """Raises: StoreError, OtherIdentity."""
        stored = await self._store.load_ring()
        if stored.version == self.version:
            return None
        try:
            found = msgspec.json.decode(stored.content, type=CrewRing)
        except msgspec.DecodeError as error:
            raise StoreError(f"the keys of the crew, in the database, are damaged: {error}") from None
        if found.identity != self._identity:
            raise OtherIdentity
        self.version = stored.version
        return found.ring

    async def save(self, state: RingState) -> bool:
        """Raises: StoreError."""
        content = msgspec.json.encode(CrewRing(self._identity, state))
        if not await self._store.save_ring(StoredRing(self.version + 1, content)):
            return False
        self.version += 1
        return True
