"""The database that foremen share: leases, takeovers, shards, the keyring, the audit and arguments."""

import asyncio
from collections.abc import Awaitable, Iterator
from random import Random
from typing import TypeVar

import psycopg
import pytest
from msgspec.structs import replace
from tests.postgres import Postgres
from tests.postgres_stores import make_crew, make_foreman, make_schema, shared_postgres
from tests.store.builders import added, claimed, ended, forgotten, job_set, tasks_set

from gandy.core.model import Counts, JobState, TaskState
from gandy.core.refusal import Refusal
from gandy.core.shards import NO_SHARD, ForemanPlace, Lease
from gandy.errors import ShardLost, SubmittedBefore
from gandy.ids import JobId
from gandy.limits import MAX_PICKLE_BYTES
from gandy.store.crew import StoredRing
from gandy.store.postgres.crew import LEASE_SECONDS

T = TypeVar("T")
NAME = "0123456789abcdef" * 2


class Crew:
    """A crew's database without `await`, and what it has on the server."""

    def __init__(self) -> None:
        self.server: Postgres = shared_postgres()
        self.schema = make_schema()
        self.runner = asyncio.Runner()
        self.database = make_crew(self.server.url(self.schema))
        self.me, self.other = make_foreman(), make_foreman()

    def run(self, do: Awaitable[T]) -> T:
        async def work() -> T:
            return await do

        return self.runner.run(work())

    def beat(self, foreman: ForemanPlace) -> dict[int, Lease]:
        """The leases as this foreman sees them."""
        return {lease.shard: lease for lease in self.run(self.database.beat(foreman, ())).leases}

    def execute(self, statement: str) -> None:
        with psycopg.connect(self.server.url().partition("&schema")[0], autocommit=True) as db:
            db.execute(statement.replace("{schema}", self.schema))  # type: ignore[arg-type,unused-ignore]

    def age(self, foreman: ForemanPlace, seconds: float) -> None:
        """As if that foreman had not been heard of for so long."""
        seen = f"clock_timestamp() - interval '{seconds} seconds'"
        self.execute(f"UPDATE {{schema}}.foremen SET seen = {seen} WHERE id = '{foreman.id}'")
        self.execute(f"UPDATE {{schema}}.shards SET taken = least(taken, {seen}) WHERE owner = '{foreman.id}'")


@pytest.fixture
def crew() -> Iterator[Crew]:
    made = Crew()
    with made.runner:
        made.run(made.database.open())
        yield made
        made.run(made.database.close())


# Foremen


def test_foremen_see_each_other(crew: Crew) -> None:
    crew.beat(crew.me)
    view = crew.run(crew.database.beat(crew.other, ()))
    assert [foreman.id for foreman in view.foremen] == sorted([crew.me.id, crew.other.id])
    seen = next(foreman for foreman in view.foremen if foreman.id == crew.me.id)
    assert replace(seen, silent_seconds=0.0) == crew.me
    assert 0 <= seen.silent_seconds < 60
    crew.beat(replace(crew.me, is_leaving=True, places=("tcp://127.0.0.1:9",)))
    view = crew.run(crew.database.beat(crew.other, ()))
    seen = next(foreman for foreman in view.foremen if foreman.id == crew.me.id)
    assert (seen.is_leaving, seen.places) == (True, ("tcp://127.0.0.1:9",))


def test_a_silent_foreman_loses_its_lease_and_a_beat_renews_it(crew: Crew) -> None:
    crew.beat(crew.me)
    lease = crew.run(crew.database.take_new(crew.me.id))
    assert 0 < crew.beat(crew.other)[lease.shard].seconds_left <= LEASE_SECONDS
    crew.age(crew.me, 60.0)
    found = crew.beat(crew.other)[lease.shard]
    assert (found.owner, found.epoch) == (crew.me.id, lease.epoch)
    assert found.seconds_left < -50
    crew.beat(crew.me)
    assert 0 < crew.beat(crew.other)[lease.shard].seconds_left <= LEASE_SECONDS


def test_a_beat_does_not_win_back_what_was_lost(crew: Crew) -> None:
    crew.beat(crew.me)
    lease = crew.run(crew.database.take_new(crew.me.id))
    crew.run(crew.database.seize(crew.other.id, lease))
    found = crew.beat(crew.me)[lease.shard]
    assert (found.owner, found.epoch) == (crew.other.id, lease.epoch + 1)


def test_a_foreman_that_leaves_owns_nothing(crew: Crew) -> None:
    crew.beat(crew.me)
    lease = crew.run(crew.database.take_new(crew.me.id))
    crew.run(crew.database.leave(crew.me.id))
    view = crew.run(crew.database.beat(crew.other, ()))
    assert [foreman.id for foreman in view.foremen] == [crew.other.id]
    assert [(found.owner, found.epoch > lease.epoch) for found in view.leases] == [("", True)]


def test_foremen_that_are_long_gone_are_forgotten(crew: Crew) -> None:
    crew.beat(crew.me)
    crew.run(crew.database.take_new(crew.me.id))
    crew.beat(crew.other)
    crew.age(crew.me, 7_200.0)
    crew.age(crew.other, 7_200.0)
    crew.run(crew.database.parts.keep())
    view = crew.run(crew.database.beat(make_foreman(), ()))
    assert crew.me.id in {foreman.id for foreman in view.foremen}  # it still owns a shard
    assert crew.other.id not in {foreman.id for foreman in view.foremen}


# Shards


def test_a_lease_that_was_renewed_in_time_is_not_seized_unless_its_owner_is_known_to_be_dead(crew: Crew) -> None:
    crew.beat(crew.me)
    lease = crew.run(crew.database.take_new(crew.me.id))
    crew.age(crew.me, 60.0)
    seen = crew.beat(crew.other)[lease.shard]
    crew.beat(crew.me)
    assert crew.run(crew.database.seize(crew.other.id, seen)) is None
    assert crew.run(crew.database.seize(crew.other.id, crew.beat(crew.other)[lease.shard])) is not None


def test_only_one_of_many_foremen_seizes_a_shard(crew: Crew) -> None:
    lease = crew.run(crew.database.take_new(crew.me.id))

    async def race() -> list[Lease | None]:
        crews = [make_crew(crew.server.url(crew.schema)) for _ in range(4)]
        for one in crews:
            await one.open()
        found = await asyncio.gather(*(one.seize(f"f{place}", lease) for place, one in enumerate(crews)))
        for one in crews:
            await one.close()
        return list(found)

    winners = [found for found in crew.run(race()) if found is not None]
    assert [(found.shard, found.epoch) for found in winners] == [(lease.shard, lease.epoch + 1)]
    assert crew.beat(crew.me)[lease.shard].owner == winners[0].owner


def test_an_heir_goes_on_with_what_it_was_given(crew: Crew) -> None:
    lease = crew.run(crew.database.take_new(crew.me.id))
    store = crew.database.open_shard(lease)
    crew.run(store.open())
    crew.run(store.commit([added(), claimed()]))
    assert crew.run(crew.database.hand_over(lease, crew.other.id))
    assert not crew.run(crew.database.hand_over(lease, crew.me.id))  # it was ours no longer
    with pytest.raises(ShardLost):
        crew.run(store.commit([ended()]))
    heir = crew.database.open_shard(crew.beat(crew.other)[lease.shard])
    (job,) = crew.run(heir.open()).jobs
    assert job.row.counts == Counts(waiting=2, assigned=1)
    crew.run(heir.commit([ended()]))


def test_a_shard_with_unfinished_jobs_is_not_retired(crew: Crew) -> None:
    lease = crew.run(crew.database.take_new(crew.me.id))
    store = crew.database.open_shard(lease)
    crew.run(store.open())
    crew.run(store.commit([added(tasks=1), claimed(), added(2), job_set(JobState.CANCELLED, 2)]))
    assert not crew.run(crew.database.retire(lease))
    crew.run(store.commit([job_set(JobState.CANCELLED)]))
    assert not crew.run(crew.database.retire(lease))  # a worker still has a task
    crew.run(store.commit([ended()]))
    assert crew.run(crew.database.retire(lease))
    assert crew.beat(crew.me) == {}
    with pytest.raises(ShardLost):
        crew.run(store.commit([added(3)]))


def make_retired(crew: Crew) -> int:
    """A shard that is retired, with one final job, of which a task failed."""
    lease = crew.run(crew.database.take_new(crew.me.id))
    store = crew.database.open_shard(lease)
    crew.run(store.open())
    failed = ended(TaskState.FAILED), job_set(JobState.FAILED)
    crew.run(store.commit([added(tasks=1), claimed(), *failed]))
    keeper = crew.run(crew.database.take_new(crew.me.id))  # so that the next one is not the same
    assert crew.run(crew.database.retire(lease))
    return keeper.shard


def test_any_foreman_may_retry_a_job_of_a_retired_shard(crew: Crew) -> None:
    ours = make_retired(crew)
    store = crew.database.open_shard(crew.beat(crew.me)[ours])
    assert crew.run(store.open()).jobs == ()
    assert crew.run(store.find_shard(JobId(1))) == NO_SHARD
    crew.run(store.commit([tasks_set(TaskState.WAITING), job_set(JobState.WAITING)]))
    assert crew.run(store.find_shard(JobId(1))) == ours
    crew.run(store.commit([claimed(1, 2)]))
    (job,) = crew.run(store.open()).jobs
    assert job.row.counts == Counts(assigned=1)
    crew.run(store.commit([ended(attempt=2), job_set(JobState.FINISHED)]))
    assert crew.run(store.open()).jobs == ()


def test_any_foreman_may_forget_a_job_of_a_retired_shard(crew: Crew) -> None:
    ours = make_retired(crew)
    store = crew.database.open_shard(crew.beat(crew.me)[ours])
    crew.run(store.open())
    crew.run(store.commit([forgotten()]))
    assert crew.run(store.find_job(JobId(1))) is None


def test_a_job_of_another_shard_cannot_be_changed(crew: Crew) -> None:
    stores = [crew.database.open_shard(crew.run(crew.database.take_new(crew.me.id))) for _ in range(2)]
    for store in stores:
        crew.run(store.open())
    crew.run(stores[0].commit([added(), job_set(JobState.CANCELLED)]))
    lost = crew.run(stores[1].commit([claimed(), tasks_set(TaskState.CANCELLED), forgotten()]))
    assert len(lost) == 1
    row = crew.run(stores[1].find_job(JobId(1)))
    assert row is not None
    assert (row.state, row.counts) == (JobState.CANCELLED, Counts(waiting=3))


def test_a_job_that_another_shard_commits_at_the_same_time_is_named(crew: Crew) -> None:
    """The second commit waits for the first, and fails: its foreman learns which job has the key."""
    stores = [crew.database.open_shard(crew.run(crew.database.take_new(crew.me.id))) for _ in range(2)]
    for store in stores:
        crew.run(store.open())

    async def commit_both() -> list[object]:
        commits = (store.commit([added(number, key=77)]) for number, store in enumerate(stores, 1))
        return list(await asyncio.gather(*commits, return_exceptions=True))

    results = crew.run(commit_both())
    (winner,) = [number for number, result in enumerate(results, 1) if result == frozenset()]
    (refused,) = [result for result in results if isinstance(result, SubmittedBefore)]
    loser = 3 - winner
    assert refused.jobs == {loser: winner}
    crew.run(stores[loser - 1].commit([added(3, key=78), claimed(1, job=3)]))  # what was decided for it was taken back
    (job,) = crew.run(stores[loser - 1].open()).jobs
    assert (job.row.job, job.row.counts.assigned) == (3, 1)


def test_an_empty_shard_without_an_owner_is_taken_again(crew: Crew) -> None:
    first, second = (crew.run(crew.database.take_new(crew.me.id)) for _ in range(2))
    store = crew.database.open_shard(first)
    crew.run(store.open())
    crew.run(store.commit([added()]))
    crew.run(crew.database.leave(crew.me.id))
    taken = [crew.run(crew.database.take_new(crew.other.id)) for _ in range(2)]
    assert [lease.shard for lease in taken] == [second.shard, second.shard + 1]
    assert taken[0].epoch > second.epoch


def test_the_number_of_a_retired_shard_is_given_again_with_a_higher_epoch(crew: Crew) -> None:
    lease = crew.run(crew.database.take_new(crew.me.id))
    assert crew.run(crew.database.retire(lease))
    again = crew.run(crew.database.take_new(crew.other.id))
    assert again.shard == lease.shard
    assert again.epoch > lease.epoch + 1


def test_numbers_of_jobs_are_drawn_once(crew: Crew) -> None:
    stores = [crew.database.open_shard(crew.run(crew.database.take_new(crew.me.id))) for _ in range(3)]

    async def draw() -> list[int | None]:
        return list(await asyncio.gather(*(store.draw_number() for store in stores * 5)))

    drawn = crew.run(draw())
    assert sorted(number or 0 for number in drawn) == list(range(1, 16))


# The keyring and the audit


def test_a_keyring_is_replaced_by_the_foreman_that_saw_the_last_one(crew: Crew) -> None:
    assert crew.run(crew.database.load_ring()) == (0, b"")
    assert crew.run(crew.database.save_ring(StoredRing(1, b"one")))
    assert not crew.run(crew.database.save_ring(StoredRing(1, b"another")))
    assert not crew.run(crew.database.save_ring(StoredRing(3, b"too far")))
    assert crew.run(crew.database.save_ring(StoredRing(2, b"two\0")))
    assert crew.run(crew.database.load_ring()) == (2, b"two\0")
    assert crew.run(crew.database.beat(crew.me, ())).ring_version == 2


def test_old_keyrings_are_forgotten(crew: Crew) -> None:
    for version in range(1, 30):
        assert crew.run(crew.database.save_ring(StoredRing(version, b"%d" % version)))
    crew.run(crew.database.parts.keep())
    assert crew.run(crew.database.load_ring()) == (29, b"29")


def test_the_audit_keeps_the_order_and_any_text(crew: Crew) -> None:
    crew.run(crew.database.note_audit([]))
    crew.run(crew.database.note_audit(['{"a": 1}']))
    crew.run(crew.database.note_audit(["\0 and \udc80 ä"]))
    assert crew.run(crew.database.list_audit(9)) == ['{"a": 1}', "\ufffd and \ufffd ä"]


# Arguments


def put(crew: Crew, offset: int, data: bytes, is_last: bool = False, name: str = NAME) -> None:
    crew.run(crew.database.put_arguments(name, offset, data, is_last))


def read(crew: Crew, offset: int = 0, limit: int = 1 << 30, name: str = NAME) -> bytes | None:
    return crew.run(crew.database.read_arguments(name, offset, limit))


def test_arguments_are_read_when_all_of_them_are_there(crew: Crew) -> None:
    put(crew, 0, b"abc")
    assert read(crew) is None
    put(crew, 3, b"def", is_last=True)
    assert read(crew) == b"abcdef"
    assert (read(crew, 2, 3), read(crew, 4), read(crew, 6), read(crew, 99)) == (b"cde", b"ef", b"", b"")
    assert read(crew, name="f" * 32) is None


def test_large_arguments_come_back_from_anywhere(crew: Crew) -> None:
    data = Random(1).randbytes(3_500_000)
    for offset in range(0, len(data), 1_300_000):
        put(crew, offset, data[offset : offset + 1_300_000], is_last=offset + 1_300_000 >= len(data))
    for offset, limit in [
        (0, 10),
        (1 << 20, 5),
        ((1 << 20) - 3, 9),
        (1_299_999, 1_300_002),
        (3_400_000, 1 << 22),
        (0, 1 << 22),
    ]:
        assert read(crew, offset, limit) == data[offset : offset + limit]


def test_a_piece_may_be_sent_again(crew: Crew) -> None:
    put(crew, 0, b"abcdef")
    put(crew, 3, b"DEF")
    put(crew, 2, b"xyz", is_last=True)
    assert read(crew) == b"abxyz"
    put(crew, 0, b"new", is_last=True)
    assert read(crew) == b"new"
    put(crew, 0, b"", is_last=True)
    assert read(crew) == b""


@pytest.mark.parametrize(("name", "offset"), [("x", 0), (NAME, 5), (NAME, MAX_PICKLE_BYTES), (NAME, -1)])
def test_bad_pieces_are_refused(crew: Crew, name: str, offset: int) -> None:
    with pytest.raises(Refusal):
        put(crew, offset, b"abc", name=name)


def test_arguments_that_are_not_used_are_dropped(crew: Crew) -> None:
    put(crew, 0, b"old", is_last=True)
    put(crew, 0, b"part", name="a" * 32)
    put(crew, 0, b"new", is_last=True, name="b" * 32)
    crew.execute(f"UPDATE {{schema}}.arguments SET used = now() - interval '2 hours' WHERE name <> '{'b' * 32}'")
    crew.run(crew.database.drop_arguments(86_400.0))
    with pytest.raises(Refusal):
        put(crew, 4, b"more", name="a" * 32)
    assert read(crew) == b"old"
    crew.run(crew.database.drop_arguments(3_600.0))  # reading counts
    assert read(crew) == b"old"
    crew.execute(f"UPDATE {{schema}}.arguments SET used = now() - interval '2 hours' WHERE name <> '{'b' * 32}'")
    crew.run(crew.database.drop_arguments(3_600.0))
    assert (read(crew), read(crew, name="b" * 32)) == (None, b"new")
