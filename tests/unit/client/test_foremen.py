"""How users name foremen, and where clients find those of their crew."""

import pytest
from msgspec.structs import replace

from gandy.client.foremen import choose_foreman, describe_owners
from gandy.client.learning import find_places
from gandy.core.requests import ForemanRow
from gandy.errors import Rejected


def a_foreman(number: int, name: str, *places: str, is_here: bool = False, is_leaving: bool = False) -> ForemanRow:
    return ForemanRow(f"{name}-{number}f9a", name, "1", places, (number,), 0, 5.0, 1.0, is_leaving, is_here)


CREW = (a_foreman(1, "hut"), a_foreman(2, "barn"), a_foreman(3, "hut", is_here=True))


@pytest.mark.parametrize(("name", "number"), [("", 3), ("barn", 2), ("1f9a", 1), ("hut-3f9a", 3)])
def test_a_foreman_is_found_by_name_or_id(name: str, number: int) -> None:
    assert choose_foreman(CREW, name) is CREW[number - 1]


@pytest.mark.parametrize(
    ("name", "text"),
    [("nobody", "no foreman is called nobody"), ("hut", "2 foremen are called hut: use the id, 1f9a or 3f9a")],
)
def test_a_name_must_be_clear(name: str, text: str) -> None:
    with pytest.raises(Rejected, match=text):
        choose_foreman(CREW, name)


def test_a_foreman_that_is_gone_leaves_its_name_to_the_next_one() -> None:
    before, after = replace(a_foreman(1, "hut"), is_gone=True), a_foreman(2, "hut")
    assert [choose_foreman((before, after), name) for name in ("hut", "1f9a")] == [after, before]
    assert choose_foreman((before,), "hut") is before


def test_owners_in_words() -> None:
    rows = (
        replace(a_foreman(1, "hut"), shards=(1, 2, 5)),
        replace(a_foreman(2, "den"), shards=()),
        a_foreman(3, "barn"),
    )
    assert describe_owners(rows) == "hut (1f9a) owns shards 1, 2 and 5, barn (3f9a) owns shard 3"


def test_a_foreman_that_is_not_listed_is_told() -> None:
    with pytest.raises(Rejected, match="does not know itself"):
        choose_foreman(CREW[:2], "")


def find(*rows: ForemanRow) -> list[str]:
    return [str(place) for place in find_places(rows)]


def test_the_first_place_of_each_foreman_comes_before_the_second_of_any() -> None:
    first = a_foreman(1, "a", "tcp://a:1", "tcp://a:2", is_here=True)
    assert find(first, a_foreman(2, "b", "tcp://b:1")) == ["tcp://a:1", "tcp://b:1", "tcp://a:2"]


def test_a_foreman_without_others_has_no_places_to_learn() -> None:
    assert find(a_foreman(1, "a", "tcp://a:1", is_here=True)) == []


def test_unix_sockets_are_places_on_the_machine_of_the_foreman_that_was_asked() -> None:
    rows = (a_foreman(1, "a", "unix:/1", is_here=True), a_foreman(2, "a", "unix:/2"), a_foreman(3, "b", "unix:/3"))
    assert find(*rows) == ["unix:/1", "unix:/2"]


def test_what_is_no_place_to_go_to_is_left_out() -> None:
    rows = (
        a_foreman(1, "a", "tcp://0.0.0.0:5429", "http://x/y", "tcp://[::]:1", "tcp://a:1", is_here=True),
        a_foreman(2, "b", "tcp://b:1", is_leaving=True),
    )
    assert find(*rows) == ["tcp://a:1"]
