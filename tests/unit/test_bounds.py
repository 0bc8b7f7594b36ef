"""Bounds are checked where bytes become values."""

from math import inf, nan
from typing import Any

import msgspec
import pytest

from gandy import bounds
from gandy.bounds import BROKEN, describe, escape_controls
from gandy.limits import LAST_INTEGER, MAX_NAME, MAX_SECONDS, MAX_SLOTS, MAX_TASKS


def decode(kind: Any, value: Any) -> Any:
    return msgspec.msgpack.decode(msgspec.msgpack.encode(value), type=kind)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (bounds.JobNumber, LAST_INTEGER),
        (bounds.TaskIndex, MAX_TASKS),
        (bounds.Slots, MAX_SLOTS),
        (bounds.Seconds, 0),
        (bounds.Moment, -MAX_SECONDS),
        (bounds.Name, "hut-7 é ✓"),
        (bounds.OptionalName, ""),
        (bounds.Word, "two\nlines\t\x1b"),
        (bounds.Environment, {"A": "b"}),
    ],
)
def test_what_is_within_bounds_comes_back(kind: Any, value: object) -> None:
    assert decode(kind, value) == value


@pytest.mark.parametrize("value", [nan, inf, -inf, 1e300, -1e300, 2**63])
@pytest.mark.parametrize("kind", [bounds.Seconds, bounds.Moment])
def test_floats_are_finite(kind: Any, value: float) -> None:
    with pytest.raises(BROKEN):
        decode(kind, value)


@pytest.mark.parametrize("value", [-1, 2**63, 2**64 - 1])
@pytest.mark.parametrize(
    "kind", [bounds.JobNumber, bounds.TaskIndex, bounds.AttemptNumber, bounds.Count, bounds.Positive, bounds.Slots]
)
def test_numbers_fit_a_store(kind: Any, value: int) -> None:
    with pytest.raises(BROKEN):
        decode(kind, value)


@pytest.mark.parametrize("text", ["", "a\n", "\na", "a\rb", "\x00", "\x1b[2J", "a\x7f", "\x9b", "\u2028", "\u202e"])
def test_names_are_printable_and_not_empty(text: str) -> None:
    with pytest.raises(BROKEN):
        decode(bounds.Name, text)


def test_names_have_a_length() -> None:
    assert decode(bounds.Name, "é" * MAX_NAME)
    with pytest.raises(BROKEN):
        decode(bounds.Name, "e" * (MAX_NAME + 1))


def test_a_surrogate_is_no_text() -> None:
    with pytest.raises(BROKEN):
        msgspec.msgpack.decode(b"\xa3\xed\xa0\x80", type=bounds.Name)


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (bounds.Name, "a\n", "Expected `str` of printable characters"),
        (bounds.Word, "\x00", "Expected `str` without a NUL"),
        (bounds.Slots, -1, "Expected `int` >= 0"),
    ],
)
def test_what_is_wrong_is_told_in_words(kind: Any, value: object, text: str) -> None:
    with pytest.raises(BROKEN) as caught:
        decode(kind, value)
    assert describe(caught.value) == text


def test_names_are_spelled_out() -> None:
    assert escape_controls("a\nb\x1b[2J\u202eé") == "a\\nb\\x1b[2J\\u202eé"
