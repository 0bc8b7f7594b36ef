"""Durations and sizes as people write them."""

import pytest

from gandy.amounts import parse_bytes, parse_seconds


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("90", 90), ("1.5s", 1.5), (".5", 0.5), ("5min", 300), ("5 m", 300), ("2H", 7_200), ("1d", 86_400), ("0", 0)],
)
def test_time_has_units(text: str, seconds: float) -> None:
    assert parse_seconds(text) == seconds


@pytest.mark.parametrize(
    ("text", "size"),
    [("4096", 4096), ("1.5k", 1500), ("20M", 20_000_000), ("10 GB", 10_000_000_000), ("1T", 10**12), ("0", 0)],
)
def test_size_has_units(text: str, size: int) -> None:
    assert parse_bytes(text) == size


@pytest.mark.parametrize("text", ["", "much", "-1", "1E", "1e3", "1GiB"])
def test_what_is_no_size_is_none(text: str) -> None:
    assert parse_bytes(text) is None


@pytest.mark.parametrize("text", ["", "soon", "-1", "1 year", "1e3", "5min3", "nan", "inf"])
def test_what_is_no_time_is_none(text: str) -> None:
    assert parse_seconds(text) is None
