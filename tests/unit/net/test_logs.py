"""What peers call themselves cannot forge a log."""

import logging

from gandy.net.logs import PrintableFormatter

FORMATTER = PrintableFormatter("%(message)s")


def test_a_name_begins_no_line() -> None:
    record = logging.LogRecord("a", logging.INFO, "f", 1, "%s is here", ("a\nb\x1b[2J\u202e",), None)
    assert FORMATTER.format(record) == "a\\nb\\x1b[2J\\u202e is here"


def test_a_traceback_keeps_its_lines_and_nothing_else() -> None:
    try:
        raise ValueError("a\x1bb")
    except ValueError as error:
        record = logging.LogRecord("a", logging.INFO, "f", 1, "bug", (), (ValueError, error, error.__traceback__))
    lines = FORMATTER.format(record).split("\n")
    assert lines[:2] == ["bug", "Traceback (most recent call last):"]
    assert lines[-1] == "ValueError: a\\x1bb"
