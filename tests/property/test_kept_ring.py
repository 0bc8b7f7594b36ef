"""The ring of a crew, changed by many foremen at once: no change is lost, and no use of an invitation counts twice."""

import asyncio
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st
from tests.rings import SharedRing

from gandy.core.keyring import Invitation, Key, Keyring, RingState, hash_secret, make_proof
from gandy.core.roles import CrewRole
from gandy.errors import Rejected
from gandy.foreman.ring_table import RingTable
from gandy.keys.kept_ring import KeptRing, RingFile
from gandy.store.crew import StoredRing

CHECK = hash_secret(b"secret")
PROOF = make_proof(CHECK, b"bound")
NOW = 100.0


class NoFile(RingFile):
    """A copy that is not kept."""

    def __init__(self) -> None:
        super().__init__(Path())

    def write(self, _state: RingState) -> None:
        return


class SlowRing(SharedRing):
    """Lets other foremen go first, as often as it is told, before it reads or writes."""

    def __init__(self, pauses: list[int]) -> None:
        super().__init__()
        self._pauses = pauses

    async def _pause(self) -> None:
        for _ in range(self._pauses.pop() if self._pauses else 0):
            await asyncio.sleep(0)

    async def load_ring(self) -> StoredRing:
        await self._pause()
        return await super().load_ring()

    async def save_ring(self, ring: StoredRing) -> bool:
        await self._pause()
        return await super().save_ring(ring)


async def join(foreman: KeptRing, name: str) -> bool:
    def apply(ring: Keyring) -> None:
        ring.redeem("open", PROOF, b"bound", NOW)
        ring.add(Key(name, name, CrewRole.CLIENT, NOW, "test"))

    try:
        await foreman.change(apply)
    except Rejected:
        return False
    return True


@given(
    foremen=st.integers(1, 4),
    uses=st.integers(1, 5),
    tries=st.lists(st.integers(0, 3), min_size=1, max_size=8),
    pauses=st.lists(st.integers(0, 5), max_size=60),
)
def test_as_many_join_as_the_invitation_has_uses(foremen: int, uses: int, tries: list[int], pauses: list[int]) -> None:
    async def test() -> None:
        shared = SlowRing(pauses)
        invitation = Invitation("open", CHECK, CrewRole.CLIENT, NOW + 60.0, uses)
        rings = [KeptRing(Keyring(RingState((), (invitation,))), NoFile()) for _ in range(foremen)]
        await asyncio.gather(*(ring.move(RingTable(shared.as_store(), "identity")) for ring in rings))
        joins = [join(rings[number % foremen], str(at)) for at, number in enumerate(tries)]
        joined = await asyncio.gather(*joins)
        assert sum(joined) == min(uses, len(tries))
        await asyncio.gather(*(ring.look() for ring in rings))
        names = {str(at) for at, has_joined in enumerate(joined) if has_joined}
        for ring in rings:
            assert {key.name for key in ring.ring.list_keys()} == names
            assert ring.ring.state == rings[0].ring.state

    asyncio.run(test())
