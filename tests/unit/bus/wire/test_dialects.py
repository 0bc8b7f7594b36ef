"""The table of dialects says what the facts say."""

import pytest

from gandy.bus.wire import dialects
from gandy.bus.wire.dialects import DIALECTS, LONGEST_DISCOVERY_INTERVAL, Dialect, grow_interval
from gandy.bus.wire.types import parse_types

OLD, NEW, NEWEST = DIALECTS["2016"], DIALECTS["1.0"], DIALECTS["1.1"]
LOW, HIGH = "10.0.0.1:9", "9.0.0.1:1"  # as text


@pytest.mark.parametrize("dialect", DIALECTS.values(), ids=DIALECTS)
def test_each_field_of_a_shape_has_a_type(dialect: Dialect) -> None:
    for shape in (dialect.discovery, dialect.init):
        assert len(parse_types(shape.types)) == len(shape.fields) == len(set(shape.fields))
    assert DIALECTS[dialect.name] is dialect


def test_orders() -> None:
    assert [dialect.order for dialect in DIALECTS.values()] == ["<", ">", ">"]
    assert ["order" in dialect.discovery.fields for dialect in DIALECTS.values()] == [True, False, False]


def test_one_connects_and_the_other_does_not() -> None:
    assert OLD.connects(HIGH, LOW)
    assert not OLD.connects(LOW, HIGH)
    for dialect in (NEW, NEWEST):
        assert dialect.connects(LOW, HIGH)
        assert not dialect.connects(HIGH, LOW)
    assert not any(dialect.connects(LOW, LOW) for dialect in DIALECTS.values())


def test_2016_sends_to_all_five_ports_from_the_second_on() -> None:
    for port in OLD.ports:
        assert OLD.list_targets(port) == (54859, 55764, 60238, 62711, 53472)


def test_later_ones_send_to_16_ports_up_to_their_own() -> None:
    assert len(set(NEW.ports)) == 16
    assert NEW.list_targets(64541) == (64541,)
    assert NEWEST.list_targets(57143) == (64541, 60238, 57143)
    assert NEW.list_targets(54859) == NEW.ports


def test_init_goes_to_the_peer_or_to_the_local_service() -> None:
    assert OLD.get_init_address(LOW) == "!10.0.0.1:9/in"
    assert NEW.get_init_address(LOW) == NEWEST.get_init_address(LOW) == "!_o2/in"


def test_discovery_becomes_rare() -> None:
    interval = dialects.DISCOVERY_INTERVAL
    assert grow_interval(interval) == pytest.approx(0.363)
    for _ in range(40):
        interval = grow_interval(interval)
    assert interval == LONGEST_DISCOVERY_INTERVAL
    assert (
        100 / LONGEST_DISCOVERY_INTERVAL == 25
    )  # docs/protocol/bus.md, rule 3: with 100 processes, a message every 40 ms
