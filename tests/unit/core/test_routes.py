"""Where a worker reaches the shards of its crew, by what foremen say one after another."""

from msgspec.structs import replace

from gandy.core.routes import RouteChanges, Routes
from gandy.core.shards import Directory, ShardPlace
from gandy.moments import Monotonic


def a_place(shard: int, epoch: int = 1, name: str = "a") -> ShardPlace:
    return ShardPlace(shard, epoch, (f"unix:/{name}/shard-{shard}.sock", f"tcp://{name}:1"))


def a_directory(here: int, *shards: ShardPlace, foremen: tuple[str, ...] = ()) -> Directory:
    return Directory(here, shards, tuple((f"unix:/{name}/foreman.sock",) for name in foremen))


def test_a_first_directory_opens_all_shards() -> None:
    routes = Routes()
    assert routes.on_directory(a_directory(1, a_place(1), a_place(2))) == RouteChanges(opened=(1, 2))
    assert list(routes) == [1, 2]
    assert 2 in routes
    assert routes.list_places(2) == ("unix:/a/shard-2.sock", "tcp://a:1")


def test_a_higher_epoch_moves_a_shard_and_a_lower_one_does_not() -> None:
    routes = Routes()
    routes.on_directory(a_directory(1, a_place(1), a_place(2)))
    assert routes.on_directory(a_directory(1, a_place(1), a_place(2, 2, "b"))) == RouteChanges(moved=(2,))
    assert routes.on_directory(a_directory(1, a_place(1), a_place(2))) == RouteChanges()
    assert routes.list_places(2)[0] == "unix:/b/shard-2.sock"


def test_an_owner_may_get_other_addresses() -> None:
    routes = Routes()
    routes.on_directory(a_directory(1, a_place(1)))
    assert routes.on_directory(a_directory(1, a_place(1, 1, "c"))) == RouteChanges()
    assert routes.list_places(1)[0] == "unix:/c/shard-1.sock"


def test_the_link_to_a_new_owner_stays_when_that_says_so_itself() -> None:
    routes = Routes()
    routes.on_directory(a_directory(1, a_place(1)))
    assert routes.on_directory(a_directory(1, a_place(1, 2, "b"))) == RouteChanges()


def test_the_link_to_a_former_owner_is_left() -> None:
    routes = Routes()
    routes.on_directory(a_directory(2, a_place(1, 5, "b"), a_place(2)))
    assert routes.on_directory(a_directory(1, a_place(1, 4), a_place(2))) == RouteChanges(moved=(1,))
    assert routes.list_places(1)[0] == "unix:/b/shard-1.sock"


def test_a_worker_without_links_learns_from_any_foreman_which_shards_are_retired() -> None:
    routes = Routes()
    routes.on_directory(a_directory(1, a_place(1), a_place(2)))
    routes.on_cut(1)
    assert routes.list_retired() == []
    routes.on_directory(a_directory(3, a_place(2), a_place(3)), is_linked=False)
    assert routes.list_retired() == [1]
    routes.on_directory(a_directory(3, a_place(1), a_place(2), a_place(3)))
    assert routes.list_retired() == []
    routes.on_cut(3)
    assert routes.list_retired() == []


def test_a_shard_without_an_owner_is_not_retired() -> None:
    routes = Routes()
    routes.on_directory(a_directory(1, a_place(1), a_place(2)))
    routes.on_directory(replace(a_directory(1, a_place(1)), ownerless=(2,)))
    assert routes.list_retired() == []


def test_a_retired_shard_is_dead_once_every_foreman_must_know_of_it() -> None:
    routes = Routes()
    routes.on_directory(a_directory(1, a_place(1), a_place(2), a_place(3)))
    routes.on_directory(a_directory(1, a_place(1)))
    assert routes.list_dead(Monotonic(100.0)) == []
    routes.on_directory(a_directory(1, a_place(1), a_place(3)))  # by a foreman that knew less before
    assert routes.list_dead(Monotonic(110.0)) == []
    routes.on_directory(a_directory(1, a_place(1)))
    assert routes.list_dead(Monotonic(115.0)) == []
    assert routes.list_dead(Monotonic(120.0)) == [2]
    assert routes.list_dead(Monotonic(135.0)) == [2, 3]
    routes.forget(2)
    assert routes.list_dead(Monotonic(135.0)) == [3]


def test_a_shard_is_retired_when_no_foreman_with_a_link_names_it() -> None:
    routes = Routes()
    routes.on_directory(a_directory(1, a_place(1), a_place(2), a_place(3)))
    routes.on_directory(a_directory(2, a_place(1), a_place(2), a_place(3)))
    routes.on_directory(a_directory(1, a_place(1), a_place(2)))
    assert routes.list_retired() == []  # the foreman of shard 2 may know better
    routes.on_cut(2)
    assert routes.list_retired() == [3]
    routes.forget(3)
    assert list(routes) == [1, 2]
    assert routes.list_retired() == []


def test_nothing_is_retired_while_there_is_no_link() -> None:
    routes = Routes()
    routes.on_directory(a_directory(1, a_place(1), a_place(2)))
    routes.on_cut(1)
    assert routes.list_retired() == []


def test_a_foreman_need_not_name_its_own_shard() -> None:
    """It may have got it a moment ago."""
    routes = Routes()
    assert routes.on_directory(a_directory(3, a_place(1))) == RouteChanges(opened=(1, 3))
    assert routes.list_places(3) == ()
    assert routes.list_retired() == []


def test_without_any_link_a_shard_may_be_at_any_foreman() -> None:
    routes = Routes()
    routes.on_directory(a_directory(1, a_place(1), foremen=("a", "b")))
    routes.on_cut(1)
    assert routes.list_places(1, is_alone=True) == ("unix:/a/shard-1.sock", "tcp://a:1", "unix:/b/shard-1.sock")


def test_a_lookout_has_no_link_that_would_keep_a_shard() -> None:
    routes = Routes()
    assert routes.on_directory(a_directory(1, a_place(1)), is_linked=False) == RouteChanges(opened=(1,))
    assert routes.on_directory(a_directory(1, a_place(1, 2, "b")), is_linked=False) == RouteChanges(moved=(1,))
    assert routes.list_retired() == []
