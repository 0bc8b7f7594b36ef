"""However directories of foremen cross one another, a worker ends up where the shards are."""

from hypothesis import given
from hypothesis import strategies as st

from gandy.core.routes import Routes
from gandy.core.shards import Directory, ShardPlace

EPOCHS = 4
SHARDS = 3


def a_place(shard: int, epoch: int) -> ShardPlace:
    return ShardPlace(shard, epoch, (f"tcp://{shard}-{epoch}:1",))


# The epoch of each shard that the foreman of the first number knows; 0: it does not know the shard.
views = st.tuples(st.integers(1, SHARDS), st.lists(st.integers(0, EPOCHS), min_size=SHARDS, max_size=SHARDS))


def make(here: int, epochs: list[int]) -> Directory:
    return Directory(here, tuple(a_place(shard, epoch) for shard, epoch in enumerate(epochs, 1) if epoch))


@given(st.lists(views))
def test_the_highest_epoch_that_was_ever_told_is_true(told: list[tuple[int, list[int]]]) -> None:
    routes = Routes()
    conversations: dict[int, int] = {}  # shard: the epoch of the place that its link was opened to
    highest: dict[int, int] = {}
    for here, epochs in told:
        directory = make(here, epochs)
        changes = routes.on_directory(directory)
        for place in directory.shards:
            highest[place.shard] = max(place.epoch, highest.get(place.shard, 0))
        assert set(changes.opened).isdisjoint(conversations)
        assert set(changes.moved) <= set(conversations)
        conversations.update({shard: highest.get(shard, 0) for shard in (*changes.opened, *changes.moved)})
        own = next((place.epoch for place in directory.shards if place.shard == here), None)
        if own is not None and here not in changes.moved:
            conversations[here] = own  # this link is where it belongs
        assert set(routes) == set(conversations)
        for shard, epoch in highest.items():
            assert routes.list_places(shard) == a_place(shard, epoch).places
            assert conversations[shard] == epoch


@given(st.lists(views, min_size=1), st.sets(st.integers(1, SHARDS)))
def test_only_what_no_link_names_is_retired(told: list[tuple[int, list[int]]], cut: set[int]) -> None:
    routes = Routes()
    last: dict[int, set[int]] = {}
    for here, epochs in told:
        directory = make(here, epochs)
        routes.on_directory(directory)
        last[here] = {here, *(place.shard for place in directory.shards)}
    for shard in cut:
        routes.on_cut(shard)
        last.pop(shard, None)
    named = set[int]().union(*last.values())
    assert set(routes.list_retired()) == (set(routes) - named if last else set())
    for shard in routes.list_retired():
        routes.forget(shard)
    assert routes.list_retired() == []
