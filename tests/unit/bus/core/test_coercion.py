"""Values become what a handler wants, or the message is not for it."""

from math import inf, nan
from typing import Any

import pytest

from gandy.bus.core import coercion
from gandy.bus.core.coercion import Handler, coerce
from gandy.bus.limits import MAX_NESTING, MAX_PLAN_TYPES, MAX_PLANS, MAX_TYPES
from gandy.bus.wire.types import INFINITUM
from gandy.errors import ConfigError

SAMPLES: dict[str, Any] = {
    "i": 1,
    "h": 1,
    "f": 1.0,
    "d": 1.0,
    "t": 1.0,
    "B": True,
    "T": True,
    "F": False,
    "s": "x",
    "S": "x",
    "c": "x",
    "m": b"abcd",
    "b": b"abcd",
    "N": None,
    "I": INFINITUM,
    "[i]": [1],
    "vi": (1,),
}
FAMILIES = ["ihfdtBTF", "sS", "c", "m", "b", "N", "I"]


def convert(value: Any, given: str, wanted: str) -> Any:
    """One value."""
    result = coerce((value,), given, wanted)
    assert result is None or len(result) == 1
    return "no match" if result is None else result[0]


def test_each_type_becomes_those_of_its_family_and_no_other() -> None:
    for given, value in SAMPLES.items():
        for wanted in "ihfdtBTFsScmbNI":
            together = any(given in family and wanted in family for family in FAMILIES)
            fits = together and not (wanted == "T" and given == "F") and not (wanted == "F" and given != "F")
            assert (coerce((value,), given, wanted) is not None) == fits, (given, wanted)


@pytest.mark.parametrize(
    ("given", "value", "wanted", "result"),
    [
        ("f", 2.9, "i", 2),
        ("d", -2.9, "h", -2),
        ("t", 0.5, "B", True),
        ("d", 0.0, "B", False),
        ("d", nan, "B", True),
        ("i", 7, "f", 7.0),
        ("h", -7, "t", -7.0),
        ("T", True, "i", 1),
        ("F", False, "d", 0.0),
        ("B", True, "h", 1),
        ("i", 5, "B", True),
        ("i", 5, "T", True),
        ("d", 0.0, "F", False),
        ("B", False, "F", False),
        ("d", inf, "t", inf),
        ("h", 2**31 - 1, "i", 2**31 - 1),
        ("h", -(2**31), "i", -(2**31)),
        ("d", 2.0**31 - 0.5, "i", 2**31 - 1),
        ("d", -(2.0**63), "h", -(2**63)),
        ("s", "x", "S", "x"),
        ("S", "x", "s", "x"),
    ],
)
def test_values_become_what_is_wanted(given: str, value: Any, wanted: str, result: Any) -> None:
    converted = convert(value, given, wanted)
    assert converted == result
    assert type(converted) is type(result)


@pytest.mark.parametrize(
    ("given", "value", "wanted"),
    [
        ("h", 2**31, "i"),
        ("h", -(2**31) - 1, "i"),
        ("d", 2.0**31, "i"),
        ("d", 2.0**63, "h"),
        ("d", 1e300, "h"),
        ("d", nan, "i"),
        ("f", inf, "h"),
        ("t", -inf, "i"),
        ("i", 0, "T"),
        ("i", 1, "F"),
        ("d", nan, "F"),
        ("d", 0.0, "T"),
        ("B", False, "T"),
    ],
)
def test_a_value_without_an_equal_does_not_fit(given: str, value: Any, wanted: str) -> None:
    assert convert(value, given, wanted) == "no match"


@pytest.mark.parametrize(
    ("given", "value", "wanted", "result"),
    [
        ("[ifT]", [1, 2.5, True], "vi", (1, 2, 1)),
        ("[ifT]", [1, 2.5, True], "[hhh]", [1, 2, 1]),
        ("[]", [], "vd", ()),
        ("vi", (), "[]", []),
        ("vi", (1, 2), "[dd]", [1.0, 2.0]),
        ("vi", (1, 0), "[Bi]", [True, 0]),
        ("vi", (1, 2), "vd", (1.0, 2.0)),
        ("vd", (1.5, -2.5), "vi", (1, -2)),
        ("vd", (), "vi", ()),
        ("[i[sd]]", [1, ["x", 2.0]], "[i[Si]]", [1, ["x", 2]]),
        ("[vi]", [(1,)], "[vd]", [(1.0,)]),
        ("[[i]]", [[1]], "[vd]", [(1.0,)]),
        ("[ss]", ["a", "b"], "[SS]", ["a", "b"]),
    ],
)
def test_arrays_and_vectors_are_converted_by_element(given: str, value: Any, wanted: str, result: Any) -> None:
    converted = convert(value, given, wanted)
    assert converted == result
    assert repr(converted) == repr(result)


@pytest.mark.parametrize(
    ("given", "value", "wanted"),
    [
        ("[ii]", [1, 2], "[i]"),
        ("[i]", [1], "[ii]"),
        ("vi", (1, 2), "[i]"),
        ("vi", (1,), "[ii]"),
        ("vi", (1,), "[s]"),
        ("[s]", ["1"], "vi"),
        ("[is]", [1, "1"], "vi"),
        ("[[i]]", [[1]], "vi"),
        ("[vi]", [(1,)], "vi"),
        ("[d]", [nan], "vi"),
        ("vd", (1.0, inf), "vi"),
        ("i", 1, "vi"),
        ("i", 1, "[i]"),
        ("vi", (1,), "i"),
        ("[i]", [1], "i"),
        ("s", "x", "[s]"),
    ],
)
def test_arrays_and_vectors_that_do_not_fit(given: str, value: Any, wanted: str) -> None:
    assert convert(value, given, wanted) == "no match"


def test_all_values_fit_or_none() -> None:
    assert coerce((1, "x", 2.5), "isd", "dSi") == (1.0, "x", 2)
    assert coerce((1, "x", nan), "isd", "dSi") is None
    assert coerce((1, 2), "ii", "i") is None
    assert coerce((1,), "i", "ii") is None
    assert coerce((1,), "i", "") is None
    assert coerce((), "", "i") is None
    assert coerce((), "", "") == ()


def test_equal_types_cost_nothing() -> None:
    args = (1, "x", [2.0])
    assert coerce(args, "is[d]", "is[d]") is args


@pytest.mark.parametrize("types", ["[", "]", "][", "v", "vs", "x", "i]", "[" * 50_000, "[" * 17 + "]" * 17, "\0"])
def test_invalid_types_fit_no_handler(types: str) -> None:
    assert coerce((1,), types, "i") is None
    assert coerce((1,), "i", types) is None


@pytest.mark.parametrize("args", [(), (1, 2), (None,), ([],), (object(),), ("x",), (10**400,), 5])
def test_values_that_are_not_of_their_types_fit_no_handler(args: Any) -> None:
    assert coerce(args, "i", "d") is None
    assert coerce((args,), "vi", "[d]") is None


def test_long_types_are_converted_too_but_not_remembered() -> None:
    count = MAX_TYPES - 2
    before = coercion._plan_once.cache_info().currsize
    assert coerce(([1] * count,), f"[{'i' * count}]", "vd") == ((1.0,) * count,)
    assert coerce(([1] * count,), f"[{'i' * count}ii]", "vd") is None
    assert coercion._plan_once.cache_info().currsize == before
    assert count > MAX_PLAN_TYPES


def test_not_too_many_pairs_are_remembered() -> None:
    for number in range(2 * MAX_PLANS):
        coerce((), f"{number:b}".replace("0", "s").replace("1", "i"), "d")
    assert coercion._plan_once.cache_info().currsize == MAX_PLANS


def test_a_handler_gets_what_it_wants() -> None:
    assert Handler("d", print).fit((1,), "i") == (1.0,)
    assert Handler("d", print).fit(("x",), "s") is None
    assert Handler("", print).fit((), "") == ()
    assert Handler("", print).fit((1,), "i") is None


def test_a_handler_without_types_gets_anything() -> None:
    args = (1, "x")
    assert Handler(None, print).fit(args, "is") is args
    assert Handler(None, print).fit((), "") == ()


@pytest.mark.parametrize("types", ["x", "[i", "v", "vs", "i i", "[" * (MAX_NESTING + 1) + "]" * (MAX_NESTING + 1)])
def test_a_handler_wants_proper_types(types: str) -> None:
    with pytest.raises(ConfigError, match="a handler cannot take"):
        Handler(types, print)


def test_handlers_are_who_they_are() -> None:
    assert Handler("i", print) != Handler("i", print)
