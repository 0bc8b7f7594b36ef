"""Hex in any dress and JSON in any layout."""

import click
import pytest

from gandy.terminal.text import parse_argument, parse_hex, parse_json


@pytest.mark.parametrize(
    "text",
    ["47c0010a", "47C0010A", "47 c0 01 0a", "47:c0:01:0a", "0x47c0 0x010A", "0X47 0xc0\n0x01\t0x0a\n", "4 7c0:010 a"],
)
def test_hex_is_read_in_any_dress(text: str) -> None:
    assert parse_hex(text) == bytes.fromhex("47c0010a")


def test_no_hex_is_no_bytes() -> None:
    assert parse_hex(" \n") == b""


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("47c0g1", "character 5 is 'g', which is not a hex digit"),
        ("x47", "character 1 is 'x', which is not a hex digit"),
        ("0xx47", "character 3 is 'x', which is not a hex digit"),
        ("47\n-1", "character 4 is '-', which is not a hex digit"),
        ("47\udcff", r"character 3 is '\\udcff', which is not a hex digit"),
        ("47c", "3 hex digits: half a byte is missing"),
    ],
)
def test_what_is_not_hex_is_named(text: str, message: str) -> None:
    with pytest.raises(click.UsageError, match=message):
        parse_hex(text)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("", []),
        (" \n\n", []),
        ("1", [("line 1", 1)]),
        ("1\n\n2\n", [("line 1", 1), ("line 3", 2)]),
        ('{\n"a": 1\n}\n{"b": 2} 3', [("line 1", {"a": 1}), ("line 4", {"b": 2}), ("line 4", 3)]),
        ("\n[1,\n[2]]\n[]\n3", [("line 2, item 1", 1), ("line 2, item 2", [2]), ("line 5", 3)]),
    ],
)
def test_json_values_come_with_their_place(text: str, values: list[tuple[str, object]]) -> None:
    assert list(parse_json(text)) == values


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1\n\n {]", "line 3, column 3: Expecting property name"),
        ("1\n" + "9" * 5000, "line 2: .*digit"),
        ("1\n" + "[" * 200_000, "line 2: .*recursion"),
    ],
)
def test_values_before_bad_json_are_given(text: str, message: str) -> None:
    values = parse_json(text)
    assert next(values) == ("line 1", 1)
    with pytest.raises(click.UsageError, match=message):
        next(values)


@pytest.mark.parametrize(
    ("text", "value"), [("1", 1), ('"a"', "a"), ("a", "a"), ("[1, 2]", [1, 2]), ("[" * 100_000, "[" * 100_000)]
)
def test_argument_is_json_or_a_text(text: str, value: object) -> None:
    assert parse_argument(text) == value
