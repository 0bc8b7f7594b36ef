"""A keyring that is kept somewhere: in a file of one foreman, or in the database that all foremen of a crew share.

A change counts when it is saved, and all peers that it concerns learn of it afterwards. Of a shared ring, we have a
copy that can be old: `look` renews it.
"""

import asyncio
import logging
from collections.abc import Callable
from pathlib import Path
from typing import Final, Protocol, TypeVar

import msgspec

from gandy.clocks import read_monotonic
from gandy.core.keyring import Keyring, RingState
from gandy.errors import ConfigError, StoreError
from gandy.keys.files import read_secret, replace
from gandy.moments import LONG_AGO, Monotonic

log = logging.getLogger("gandy.foreman")

# Seconds after which our copy of a shared ring is old: so a revoked key is refused everywhere within a second.
FRESH_SECONDS: Final = 0.5

T = TypeVar("T")


class RingPlace(Protocol):
    """Where a keyring is kept."""

    is_shared: bool
    version: int  # that we loaded or saved last

    async def load(self) -> RingState | None:
        """The ring, if it is not the one that we loaded or saved last. Raises: StoreError."""

    async def save(self, state: RingState) -> bool:
        """False: another foreman has changed it, so load it first. Raises: StoreError, OSError."""


class RingFile:
    """A file that one foreman has for itself."""

    is_shared = False
    version = 0

    def __init__(self, path: Path) -> None:
        self._path = path

    def read(self) -> RingState | None:
        """Raises: ConfigError, OSError."""
        if not self._path.exists():
            return None
        try:
            return msgspec.json.decode(read_secret(self._path), type=RingState)
        except msgspec.DecodeError as error:
            raise ConfigError(
                f"{self._path} is damaged: {error}. If you remove it, no key is valid any more: invite all peers again."
            ) from None

    def write(self, state: RingState) -> None:
        """Raises: OSError."""
        replace(self._path, msgspec.json.encode(state))

    async def load(self) -> RingState | None:
        return None

    async def save(self, state: RingState) -> bool:
        self.write(state)
        return True


class KeptRing:
    """The ring as we know it, in `ring`, and how it is changed."""

    def __init__(self, ring: Keyring, file: RingFile) -> None:
        self.ring = ring
        self.on_revoked: list[Callable[[str], None]] = []  # with a fingerprint: its links are to be cut
        self.on_change: Callable[[], None] = lambda: None  # we changed it: other foremen of the crew should look
        self._file = file
        self._place: RingPlace = file
        self._changing = asyncio.Lock()
        self._looked = LONG_AGO
        self._next_look: asyncio.Task[None] | None = None

    async def change(self, apply: Callable[[Keyring], T]) -> T:
        """Change the ring by `apply`, which is called again if another foreman was quicker. All or nothing.

        Raises: what `apply` raises; StoreError, OSError, if it cannot be saved.
        """
        async with self._changing:
            while True:
                changed = Keyring(self.ring.state)
                result = apply(changed)
                if await self._place.save(changed.state):
                    break
                await self._load()
            self._adopt(changed)
        self.on_change()
        return result

    async def move(self, place: RingPlace) -> None:
        """Keep the ring there from now on. If there is one already, it becomes ours. Raises: StoreError, OSError."""
        async with self._changing:
            found = await place.load()
            while found is None:
                found = self.ring.state if await place.save(self.ring.state) else await place.load()
            self._place = place
            self._adopt(Keyring(found))

    # Our copy of a shared ring

    def is_fresh(self, now: Monotonic) -> bool:
        """True if our copy is so new that no look is needed."""
        return not self._place.is_shared or now - self._looked < FRESH_SECONDS

    @property
    def is_shared(self) -> bool:
        return self._place.is_shared

    async def look(self, seconds: float | None = None) -> None:
        """Renew our copy of a shared ring, as it is now or later. Wait so long at most: then the copy stays old."""
        if self._place.is_shared:
            await asyncio.wait((self._begin_look(),), timeout=seconds)  # unlike `await`, it does not cancel the look

    def on_version(self, version: int) -> None:
        """The database has this version of the ring now: renew our copy soon, if it is another one."""
        if self._place.is_shared and version != self._place.version:
            self._begin_look()

    def _begin_look(self) -> "asyncio.Task[None]":
        if self._next_look is None:  # else it has not begun, so it is ours as well
            self._next_look = asyncio.create_task(self._look())
        return self._next_look

    async def _look(self) -> None:
        async with self._changing:
            self._next_look = None
            began = read_monotonic()
            try:
                await self._load()
            except StoreError as error:
                log.warning("the keys of the crew cannot be read: %s", error)
            else:
                self._looked = began

    async def _load(self) -> None:
        if (found := await self._place.load()) is not None:
            self._adopt(Keyring(found))

    def _adopt(self, ring: Keyring) -> None:
        before, self.ring = self.ring, ring
        if self._place.is_shared:
            self._save_copy()
        for fingerprint in ring.list_revoked_since(before):
            for cut in list(self.on_revoked):
                cut(fingerprint)

    def _save_copy(self) -> None:
        """So that this home has the keys of today, should it ever be used without the database."""
        try:
            self._file.write(self.ring.state)
        except OSError as error:
            log.warning("the copy of the crew's keys cannot be saved: %s", error)
