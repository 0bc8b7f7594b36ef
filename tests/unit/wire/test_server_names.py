"""Whom a peer asks for."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gandy.limits import MAX_SHARDS
from gandy.wire.server_names import FOREMAN, JOIN, format_shard_name, parse_shard_name


@given(st.integers(1, MAX_SHARDS))
def test_a_shard_is_asked_for_by_its_number(shard: int) -> None:
    assert parse_shard_name(format_shard_name(shard)) == shard


@pytest.mark.parametrize(
    "name", [None, "", FOREMAN, JOIN, "shard-", "shard-0", "shard-01", "shard--1", "shard-1x", "x"]
)
def test_any_other_name_asks_for_no_shard(name: str | None) -> None:
    assert parse_shard_name(name) is None


def test_a_number_of_any_length_is_no_shard() -> None:
    assert parse_shard_name("shard-" + "9" * 10_000) is None
