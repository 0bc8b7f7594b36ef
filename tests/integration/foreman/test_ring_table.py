"""The keyring of a crew in a real PostgreSQL: changes of many foremen at once are made one after the other."""

import asyncio
from pathlib import Path

from tests.postgres import Postgres

from gandy.core.keyring import Key, Keyring
from gandy.core.roles import CrewRole
from gandy.foreman.ring_table import RingTable
from gandy.keys.foreman import ForemanKeys
from gandy.store import make_crew_store


def test_no_change_is_lost(tmp_path: Path) -> None:
    tmp_path.chmod(0o700)
    postgres = Postgres.start()
    keys = [ForemanKeys(tmp_path / "keys") for _ in range(3)]  # of one identity

    async def test() -> None:
        stores = [make_crew_store(postgres.url("rings")) for _ in keys]
        for store, each in zip(stores, keys, strict=True):
            assert store is not None
            await store.open()
            await each.share_ring(RingTable(store, each.fingerprint))
        before = len(keys[0].ring.list_keys())
        await asyncio.gather(*(add(each, f"{at}-{number}") for at, each in enumerate(keys) for number in range(10)))
        await asyncio.gather(*(each.kept.look() for each in keys))
        assert [each.ring.state for each in keys] == [keys[0].ring.state] * 3
        assert len(keys[0].ring.list_keys()) >= before + 30
        for store in stores:
            assert store is not None
            await store.close()

    try:
        asyncio.run(asyncio.wait_for(test(), 60))
    finally:
        postgres.stop()


async def add(keys: ForemanKeys, name: str) -> None:
    def apply(ring: Keyring) -> None:
        ring.add(Key(name, name, CrewRole.CLIENT, 1.0, "test"))

    await keys.kept.change(apply)
