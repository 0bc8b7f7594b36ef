"""Parses text that users type or paste: bytes as hex in any form, and JSON in any layout. It reads no input itself."""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

import click

_BETWEEN: Final = re.compile(r"[\s:]|0[xX]")
_STRANGE: Final = re.compile(r"[^\s:0-9a-fA-FxX]|(?<!0)[xX]")
_SPACE: Final = re.compile(r"\s*")
_JSON: Final = json.JSONDecoder()


def parse_argument(text: str) -> Any:
    """Parse an argument of a function or command: the value if the text is JSON, else the text itself."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def parse_hex(text: str) -> bytes:
    """Parse hex digits into bytes. White space, colons and 0x are skipped.

    Raises: UsageError, which names the first other character, or if half a byte is missing.
    """
    strange = _STRANGE.search(text)
    if strange is not None:
        raise click.UsageError(f"character {strange.start() + 1} is {strange[0]!r}, which is not a hex digit")
    digits = _BETWEEN.sub("", text)
    if len(digits) % 2:
        raise click.UsageError(f"{len(digits)} hex digits: half a byte is missing")
    return bytes.fromhex(digits)


def parse_json(text: str) -> Iterator[tuple[str, object]]:
    """Iterate over consecutive values, each with its place in the text. Items of an array count as values.

    Raises: UsageError, at the first place that is not JSON, after all values before it.
    """
    position, line = 0, 1
    while True:
        begin = _skip_space(text, position)
        line += text.count("\n", position, begin)
        if begin == len(text):
            return
        value, position = _parse_value(text, begin, line)
        if isinstance(value, list):
            yield from ((f"line {line}, item {number}", item) for number, item in enumerate(value, 1))
        else:
            yield f"line {line}", value
        line += text.count("\n", begin, position)


def _skip_space(text: str, position: int) -> int:
    space = _SPACE.match(text, position)
    assert space is not None
    return space.end()


def _parse_value(text: str, begin: int, line: int) -> tuple[object, int]:
    try:
        return _JSON.raw_decode(text, begin)
    except json.JSONDecodeError as error:
        raise click.UsageError(f"line {error.lineno}, column {error.colno}: {error.msg}") from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits; nested too deep
        raise click.UsageError(f"line {line}: {error}") from None
