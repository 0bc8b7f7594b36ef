"""Numbers, times and texts as people read them."""

import pytest

from gandy.terminal.people import (
    format_age,
    format_bytes,
    format_command,
    format_count,
    format_seconds,
    make_printable,
)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (-1, "0.0 s"),
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.7, "1 min"),
        (185, "3 min 5 s"),
        (3_600, "1 h"),
        (7_500, "2 h 5 min"),
        (3 * 86_400 + 4 * 3_600, "3 d 4 h"),
        (2_000 * 86_400, "2,000 d"),
    ],
)
def test_time_is_told_in_two_units(seconds: float, text: str) -> None:
    assert format_seconds(seconds) == text


def test_age_counts_from_now() -> None:
    assert format_age(100.0, 220.0) == "2 min ago"


def test_counts_have_separators() -> None:
    assert format_count(1_000_000) == "1,000,000"


@pytest.mark.parametrize(
    ("size", "text"), [(0, "0 B"), (999, "999 B"), (1_500, "1.5 kB"), (2_000_000, "2.0 MB"), (3 * 10**12, "3.0 TB")]
)
def test_sizes_have_units(size: int, text: str) -> None:
    assert format_bytes(size) == text


def test_command_is_told_as_it_would_be_typed() -> None:
    assert format_command("echo $A") == "echo $A"
    assert format_command(["echo", "a b"]) == "echo 'a b'"


def test_text_of_others_cannot_move_the_cursor() -> None:
    assert make_printable("größe ∞ \x1b[2J\r\n\x9b") == "größe ∞ \\x1b[2J\\r\\n\\x9b"
