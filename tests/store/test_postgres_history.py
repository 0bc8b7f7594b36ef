"""What only a history in PostgreSQL does: a fence, parts that are dropped whole, and tables that came later."""

import asyncio
from collections.abc import Iterator

import pytest
from tests.samples import a_sample, numbers
from tests.store.builders import added, claimed, ended
from tests.store.histories import BlockingHistory, chain
from tests.store.parted import GAPS, Parted, open_parted

from gandy.core.samples import ALWAYS, Level
from gandy.errors import ShardLost, StoreError
from gandy.store.postgres import parts as parts_module
from gandy.store.postgres.history import TABLES
from gandy.store.postgres.schema import HISTORY_FAMILIES, MIGRATIONS

SAMPLE, KEYFRAME, HOURLY = Level


@pytest.fixture
def parted() -> Iterator[Parted]:
    with open_parted() as made:
        yield made


# Fences


def test_an_owner_that_lost_its_shard_adds_no_sample(parted: Parted) -> None:
    history, store = BlockingHistory(parted.face), parted.store
    history.add(*chain(shard=1))
    assert parted.face.runner.run(store.crew.hand_over(store.lease, "another"))
    for level in Level:
        with pytest.raises(ShardLost):
            history.add(a_sample(9, 900.0, level, shard=1))
    counts = [parted.query(f"SELECT count(*) FROM {{schema}}.{table}") for table in TABLES.values()]
    assert counts == [[(4,)], [(0,)], [(1,)]]
    assert numbers(history.find(1e9)) == [1, 2, 3, 4, 5]  # any foreman may read


def test_a_sample_that_cannot_be_written_keeps_no_commit_from_being_done(parted: Parted) -> None:
    history = BlockingHistory(parted.face)
    parted.face.commit(added())
    parted.query("DROP TABLE {schema}.samples_1")
    with pytest.raises(StoreError):
        history.add(a_sample(1, 10.0))
    parted.face.commit(claimed(), ended())
    assert parted.face.get_counts().finished == 1
    history.add(*chain()[:1])
    assert numbers(history.find(1e9)) == [1]


# Parts


def test_samples_go_to_the_last_part_and_are_found_in_all(parted: Parted) -> None:
    history = BlockingHistory(parted.face)
    for first, begin in ((1, 100.0), (6, 900.0), (11, 1_700.0)):
        history.add(*chain(first, begin=begin), a_sample(first + 99, begin + 60.0, KEYFRAME))
        parted.age()
        parted.query("UPDATE {schema}.parts SET made = now() - interval '1 day' WHERE family = 'samples'")
        parted.keep()
    assert parted.list_parts("samples") == [1, 2, 3, 4]
    assert numbers(history.find(940.0)) == [6, 7, 8, 9, 10]
    assert numbers(history.read(SAMPLE)) == [*range(2, 6), *range(7, 11), *range(12, 16)]
    assert numbers(history.read(KEYFRAME)) == [100, 105, 110]
    assert history.get_extent().since == (ALWAYS, ALWAYS, ALWAYS)


def test_a_part_is_dropped_when_all_in_it_is_too_old(parted: Parted) -> None:
    history = BlockingHistory(parted.face)
    keep = {"samples": 2, "keyframes": 30, "hourly": 730}
    for family, days in keep.items():
        level = next(level for level, table in TABLES.items() if table == family)
        history.add(a_sample(1, 100.0, HOURLY), a_sample(2, 200.0, level))
        made = f"UPDATE {{schema}}.parts SET made = now() - interval '{days * 2} days' WHERE family = '{family}'"
        parted.query(made)
        parted.keep()
        assert parted.list_parts(family) == [1, 2]
        history.add(a_sample(3, 300.0, level))
        for age, expected in ((days - 0.1, [1, 2, 3]), (days + 0.1, [2, 3])):
            made = f"UPDATE {{schema}}.parts SET made = now() - interval '{age} days'"
            parted.query(f"{made} WHERE family = '{family}' AND part = 2")
            parted.keep()
            assert parted.list_parts(family) == expected
        assert history.get_extent().since[level] == 300.0


def test_parts_that_fill_faster_than_they_age_are_bounded(parted: Parted, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(parts_module.RULES, "samples", parts_module._Rule(1, 1e9, 1e9))
    monkeypatch.setattr(parts_module, "CLOSED_SECONDS", -1.0)
    history = BlockingHistory(parted.face)
    for number in range(1, 20):
        history.add(a_sample(number, 10.0 * number))
        parted.keep()
    parts = parted.list_parts("samples")
    assert len(parts) <= parts_module.HISTORY_PARTS + 1
    assert parts[-1] == 20


def test_a_history_leaves_no_gaps(parted: Parted) -> None:
    """Nothing is updated or deleted, so there is nothing that vacuum would have to remove."""
    history = BlockingHistory(parted.face)
    for number in range(1, 100):
        history.add(a_sample(number, 10.0 * number, Level(number % 3)))
    parted.keep()
    tables = [f"{family}_1" for family in HISTORY_FAMILIES]
    assert [parted.query(GAPS.replace("{table}", table)) for table in tables] == [[(0,)]] * 3


# Tables that came later


def forget_history(parted: Parted) -> None:
    """As an older gandy left the database."""
    for family in HISTORY_FAMILIES:
        parted.query(f"DROP TABLE {{schema}}.{family}")
        parted.query(f"DELETE FROM {{schema}}.parts WHERE family = '{family}'")


def test_a_database_of_an_older_gandy_gets_a_history_and_keeps_its_version(parted: Parted) -> None:
    """An older gandy that starts meanwhile is not refused."""
    parted.face.commit(added())
    forget_history(parted)
    parted.face.reopen()
    assert [parted.list_parts(family) for family in HISTORY_FAMILIES] == [[1]] * 3
    assert parted.query("SELECT number FROM {schema}.version") == [(len(MIGRATIONS),)] == [(1,)]
    history = BlockingHistory(parted.face)
    history.add(*chain(shard=1))
    assert numbers(history.find(1e9)) == [1, 2, 3, 4, 5]
    assert parted.face.get_counts().waiting == 3


def test_a_commit_of_an_older_foreman_does_not_wait_while_the_tables_are_made(parted: Parted) -> None:
    """Foremen of both run side by side while a crew is brought up to date."""
    parted.face.commit(added())
    forget_history(parted)
    statements = parted.store.crew._sql["history_1"]
    with parted.connect() as db, db.transaction():
        db.execute(statements)
        parted.face.runner.run(asyncio.wait_for(parted.face.store.commit([claimed()]), 5.0))
    assert parted.face.get_counts().assigned == 1


def test_foremen_that_start_at_once_make_the_tables_once(parted: Parted) -> None:
    forget_history(parted)
    crew = parted.store.crew

    async def update_twice() -> None:
        await asyncio.gather(crew._schema.update(), crew._schema.update())

    parted.face.runner.run(update_twice())
    assert [parted.list_parts(family) for family in HISTORY_FAMILIES] == [[1]] * 3
    assert parted.query("SELECT count(*) FROM {schema}.parts") == [(7,)]
