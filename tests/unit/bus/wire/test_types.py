"""Type strings: what they mean, and which one values have."""

import math
from enum import IntEnum
from typing import Any

import pytest

from gandy.bus.limits import MAX_NESTING, MAX_TYPES
from gandy.bus.wire.types import INFINITUM, Item, format_items, infer_types, parse_types


class Color(IntEnum):
    RED = 7


@pytest.mark.parametrize(
    ("types", "items"),
    [
        ("", ()),
        ("ihfdtsScmbBTFNI", tuple("ihfdtsScmbBTFNI")),
        ("i[]s", ("i", (), "s")),
        ("[ii]vivd", (("i", "i"), "vi", "vd")),
        ("[i[s[vf]]]d", (("i", ("s", ("vf",))), "d")),
        ("vh", ("vh",)),
    ],
)
def test_each_argument_is_one_item(types: str, items: tuple[Item, ...]) -> None:
    assert parse_types(types) == items
    assert format_items(items) == types


@pytest.mark.parametrize("types", ["x", "i,i", "r", "[", "i[", "]", "[i]]", "v", "vs", "v[", "vv", "iv", "é", "i\0"])
def test_bad_type_strings_are_refused(types: str) -> None:
    with pytest.raises(ValueError):
        parse_types(types)


def test_type_strings_and_arrays_have_limits() -> None:
    assert len(parse_types("i" * MAX_TYPES)) == MAX_TYPES
    assert parse_types("[" * MAX_NESTING + "]" * MAX_NESTING)
    with pytest.raises(ValueError, match="10,001 characters"):
        parse_types("i" * (MAX_TYPES + 1))
    with pytest.raises(ValueError, match="more than 16 arrays"):
        parse_types("[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1))


@pytest.mark.parametrize(
    ("value", "types"),
    [
        (0, "i"),
        (2**31 - 1, "i"),
        (-(2**31), "i"),
        (2**31, "h"),
        (-(2**31) - 1, "h"),
        (2**63 - 1, "h"),
        (-(2**63), "h"),
        (Color.RED, "i"),
        (True, "T"),
        (False, "F"),
        (None, "N"),
        (INFINITUM, "I"),
        (1.5, "d"),
        (math.nan, "d"),
        ("text", "s"),
        (b"blob", "b"),
        (bytearray(b"blob"), "b"),
        (memoryview(b"blob"), "b"),
        ([], "[]"),
        ([1, "a", [2.0, None]], "[is[dN]]"),
        ((), "vi"),
        ((1, 2), "vi"),
        ((1, 2**31), "vh"),
        ((1, 2.5), "vd"),
        ([(1.0,)], "[vd]"),
    ],
)
def test_values_have_types(value: Any, types: str) -> None:
    assert infer_types([value]) == types
    assert infer_types(["before", value]) == "s" + types


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (2**63, "an int of 64 bits"),
        (-(2**63) - 1, "an int of 64 bits"),
        ((1, 2**63), "an int of 64 bits"),
        ((1, "a"), "a tuple is a vector of numbers"),
        ((True,), "a tuple is a vector of numbers"),
        ({}, "dict has no type"),
        (object(), "object has no type"),
        (1j, "complex has no type"),
        ([1, [{}]], "dict has no type"),
    ],
)
def test_value_without_a_type_is_named_by_its_position(value: Any, why: str) -> None:
    with pytest.raises(ValueError, match=f"argument 2: {why}"):
        infer_types([1, value])


def test_list_that_holds_itself_is_refused() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(ValueError, match="argument 1: more than 16 lists"):
        infer_types([endless])
