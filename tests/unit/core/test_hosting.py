"""Which shards a foreman takes over, hands over and retires, and where shards are."""

from hypothesis import given
from hypothesis import strategies as st

from gandy.core.hosting import (
    BEAT_PERIOD,
    LEASE_SECONDS,
    SILENCE_SECONDS,
    Forget,
    HandOver,
    Retire,
    Seize,
    Silences,
    Step,
    find_foreman,
    find_heir,
    list_ownerless,
    list_present,
    list_shard_places,
    name_shard,
    note_lease,
    plan,
    plan_leaving,
    reach,
)
from gandy.core.shards import CrewView, ForemanPlace, Lease, ShardPlace
from gandy.moments import Monotonic


def a_foreman(name: str, **changes: object) -> ForemanPlace:
    return ForemanPlace(name, name, "1", (f"unix:/{name}/foreman.sock", f"tcp://{name}:1"), "here", **changes)  # type: ignore[arg-type]


def a_view(owners: dict[int, str], foremen: str = "abc", left: float = 5.0) -> CrewView:
    leases = tuple(Lease(shard, 1, owner, left) for shard, owner in owners.items())
    return CrewView(tuple(map(a_foreman, foremen)), leases)


def test_nothing_is_done_while_every_shard_has_its_owner() -> None:
    view = a_view({1: "a", 2: "b", 3: "c"})
    assert plan(view, "a", 1, {1}, ()) == []


def test_the_best_heir_takes_over_what_a_dead_foreman_owned() -> None:
    view = a_view({1: "a", 2: "b", 3: "c"})
    seized = [plan(view, me, own, {own}, {"c"}) for me, own in (("a", 1), ("b", 2))]
    assert sorted(map(len, seized)) == [0, 1]
    assert [Seize(view.leases[2])] in seized


def test_a_dead_foreman_is_forgotten_when_it_owns_nothing_any_more() -> None:
    view = a_view({1: "a", 2: "b"})
    assert plan(view, "a", 1, {1}, {"c"}) == [Forget("c")]


def test_a_silent_foreman_is_gone_when_others_own_what_it_had() -> None:
    silent = a_foreman("c", silent_seconds=LEASE_SECONDS + 1)
    foremen = (a_foreman("a"), a_foreman("b", silent_seconds=LEASE_SECONDS - 1), silent)
    leases = (Lease(1, 1, "a", 5.0), Lease(2, 1, "b", 1.0), Lease(3, 1, "c", -1.0))
    assert list_present(CrewView(foremen, leases)) == {"a", "b", "c"}  # no other one has taken over yet
    assert list_present(CrewView(foremen, leases[:2])) == {"a", "b"}
    assert list_present(CrewView((*foremen[:2], a_foreman("c")), leases[:2])) == {"a", "b", "c"}


def test_of_two_foremen_with_a_name_the_one_that_is_there_is_meant() -> None:
    """The machine died, and started again."""
    before = ForemanPlace("hut-1", "hut", "1", (), silent_seconds=LEASE_SECONDS + 1)
    after = ForemanPlace("hut-2", "hut", "1", ())
    view = CrewView((before, after))
    found = [find_foreman(view, name) for name in ("hut", "hut-1", "hut-2", "barn")]
    assert found == [after, before, after, None]


def test_a_shard_without_an_owner_is_taken_at_once() -> None:
    view = a_view({1: "a", 2: ""}, "a")
    assert plan(view, "a", 1, {1}, ()) == [Seize(view.leases[1])]


def test_a_lease_that_has_expired_is_for_the_best_heir_and_later_for_all() -> None:
    foremen = (a_foreman("a"), a_foreman("b"), a_foreman("c", silent_seconds=LEASE_SECONDS + 1))
    others = (Lease(1, 1, "a", 5.0), Lease(2, 1, "b", 5.0))
    for left, takers in ((-0.5, 1), (-1.5, 2)):
        view = CrewView(foremen, (*others, Lease(3, 1, "c", left)))
        steps = plan(view, "a", 1, {1}, ()) + plan(view, "b", 2, {2}, ())
        assert steps == [Seize(view.leases[2])] * takers


def a_silent_view(silent_seconds: float) -> CrewView:
    """The foreman c has been silent for so long."""
    foremen = (a_foreman("a"), a_foreman("c", silent_seconds=silent_seconds))
    return CrewView(foremen, (Lease(1, 1, "a", 5.0), Lease(3, 1, "c", LEASE_SECONDS - silent_seconds)))


def find_steps(silences: Silences, silent_seconds: float, now: float) -> list[Step]:
    view = a_silent_view(silent_seconds)
    silences.note(view, Monotonic(now))
    return plan(view, "a", 1, {1}, (), silences.find_spared(Monotonic(now)))


def test_a_foreman_that_is_silent_while_others_are_heard_loses_its_shard_when_its_lease_expires() -> None:
    silences = Silences()
    for silent in (0.5, 2.5, 4.5):
        assert find_steps(silences, silent, 100.0 + silent) == []
    assert find_steps(silences, 6.5, 106.5) == [Seize(a_silent_view(6.5).leases[1])]


def test_nobody_is_given_up_because_the_database_was_away() -> None:
    silences = Silences()
    assert find_steps(silences, 0.5, 100.0) == []
    # Nothing is seen for a while. Then all leases have expired, and their owners need time to renew them.
    assert find_steps(silences, 30.5, 130.0) == []
    assert find_steps(silences, 32.5, 132.0) == []
    assert find_steps(silences, 0.5, 134.0) == []
    assert find_steps(silences, 9.0, 142.5) == [], "it was heard of in between"
    assert find_steps(silences, 9.0 + SILENCE_SECONDS, 142.5 + SILENCE_SECONDS) != []


def test_the_dead_are_not_spared() -> None:
    silences = Silences()
    view = a_silent_view(30.0)
    silences.note(view, Monotonic(100.0))
    assert silences.find_spared(Monotonic(100.0)) == {"c"}
    assert plan(view, "a", 1, {1}, {"c"}, {"c"}) == [Seize(view.leases[1])]


def test_a_foreman_that_beats_in_time_is_not_silent() -> None:
    silences = Silences()
    silences.note(a_silent_view(BEAT_PERIOD), Monotonic(100.0))
    assert silences.find_spared(Monotonic(100.0)) == set()


def test_the_foreman_with_fewer_shards_is_the_better_heir() -> None:
    view = a_view({1: "a", 2: "b", 3: "a", 4: ""}, "ab")
    assert plan(view, "a", 1, {1, 3}, ()) == [Retire(3)]
    assert plan(view, "b", 2, {2}, ()) == [Seize(view.leases[3])]


def test_one_shard_goes_to_a_foreman_with_two_fewer() -> None:
    view = a_view({1: "a", 2: "a", 3: "a", 4: "b"}, "ab")
    assert plan(view, "a", 1, {1, 2, 3}, ()) == [HandOver(2, "b")]


def test_the_shard_of_our_clients_is_neither_handed_over_nor_retired() -> None:
    view = a_view({1: "a"}, "ab")
    assert plan(view, "a", 1, {1}, ()) == []
    assert plan(a_view({1: "a", 2: "a"}, "a"), "a", 1, {1, 2}, ()) == [Retire(2)]


def test_a_foreman_that_leaves_gives_all_to_those_that_stay() -> None:
    staying = (a_foreman("a"), a_foreman("b"), a_foreman("c", is_leaving=True), a_foreman("d"))
    view = CrewView(staying, (Lease(1, 1, "a", 5.0), Lease(2, 1, "a", 5.0), Lease(3, 1, "b", 5.0)))
    steps = plan_leaving(view, "a", {1, 2}, {"d"})
    assert [(step.shard, step.heir) for step in steps] == [(1, "b"), (2, "b")]
    assert plan_leaving(a_view({1: "a"}, "a"), "a", {1}, ()) == []


@given(
    st.dictionaries(st.integers(1, 20), st.sampled_from(["a", "b", "c", "d", ""]), min_size=1),
    st.sets(st.sampled_from("bcd")),
)
def test_every_shard_of_the_dead_gets_exactly_one_best_heir(owners: dict[int, str], dead: set[str]) -> None:
    view = a_view(owners, "abcd")
    taken: dict[int, list[str]] = {}
    for me in {"a", "b", "c", "d"} - dead:
        mine = {shard for shard, owner in owners.items() if owner == me}
        for step in plan(view, me, min(mine, default=99), mine, dead):
            if isinstance(step, Seize):
                taken.setdefault(step.seen.shard, []).append(me)
    assert {shard for shard, owner in owners.items() if owner in dead or not owner} == set(taken)
    assert all(len(takers) == 1 for takers in taken.values())


def test_all_foremen_find_the_same_heir() -> None:
    assert find_heir(5, {}) is None
    assert find_heir(5, {"a": 1, "b": 0}) == "b"
    assert {find_heir(shard, {"a": 1, "b": 1}) for shard in range(20)} == {"a", "b"}


def test_a_lease_that_was_taken_since_is_in_the_view() -> None:
    view = note_lease(a_view({1: "a", 2: "b"}), Lease(2, 7, "a"))
    assert {place.shard: place.epoch for place in list_shard_places(view, "")} == {1: 1, 2: 7}
    assert [lease.owner for lease in note_lease(view, Lease(3, 1, "c")).leases] == ["a", "a", "c"]


def test_sockets_are_named_only_to_peers_on_the_same_machine() -> None:
    view = a_view({1: "a", 2: "gone"}, "a")
    near, far = list_shard_places(view, "here"), list_shard_places(view, "")
    assert list_ownerless(view) == (2,)
    assert near == (ShardPlace(1, 1, ("unix:/a/shard-1.sock", "tcp://a:1")),)
    assert far == list_shard_places(view, "elsewhere") == (ShardPlace(1, 1, ("tcp://a:1",)),)
    assert reach(a_foreman("a"), "") == ("tcp://a:1",)
    assert name_shard("tcp://a:1", 7) == "tcp://a:1"
