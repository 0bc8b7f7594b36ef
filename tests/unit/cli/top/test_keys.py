"""What terminals send, as names of keys."""

import pytest

from gandy.cli.top.keys import MAX_PENDING, KeyReader

KEYS = {
    b"q": "q",
    b"?": "?",
    b"\r": "enter",
    b"\t": "tab",
    b"\x7f": "backspace",
    b"\x0c": "redraw",
    b"\x1b[A": "up",
    b"\x1bOB": "down",
    b"\x1b[1;5C": "right",
    b"\x1b[D": "left",
    b"\x1b[Z": "backtab",
    b"\x1b[H": "home",
    b"\x1b[4~": "end",
    b"\x1b[5~": "pageup",
    b"\x1b[6;2~": "pagedown",
    b"\x1bOM": "enter",
    "ü".encode(): "ü",
}


@pytest.mark.parametrize(("data", "name"), KEYS.items())
def test_key_has_a_name(data: bytes, name: str) -> None:
    assert KeyReader().feed(data) == [name]


def test_keys_are_found_wherever_the_bytes_are_cut() -> None:
    data, names = b"".join(KEYS), list(KEYS.values())
    for size in range(1, 7):
        reader = KeyReader()
        assert [key for at in range(0, len(data), size) for key in reader.feed(data[at : at + size])] == names


def test_escape_is_a_key_if_nothing_follows() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b") == []
    assert reader.is_waiting
    assert reader.flush() == ["escape"]
    assert reader.flush() == []
    assert not reader.is_waiting


def test_escape_twice_is_one_key_and_perhaps_another() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b\x1b") == ["escape"]
    assert reader.feed(b"[A") == ["up"]


def test_sequence_that_was_cut_off_is_no_key() -> None:
    reader = KeyReader()
    assert reader.feed(b"\x1b[1;") == []
    assert reader.flush() == []
    assert reader.feed(b"q") == ["q"]


@pytest.mark.parametrize("data", [b"\x1b[200~", b"\x1b[3~", b"\x1bx", b"\x1b[?1;2c", b"\x00", b"\x1b[I", b"\x1bOP"])
def test_what_is_no_key_here_is_dropped(data: bytes) -> None:
    assert KeyReader().feed(data + b"q") == ["q"]


def test_sequence_without_an_end_is_dropped() -> None:
    reader = KeyReader()
    reader.feed(b"\x1b[" + b"1" * 2 * MAX_PENDING)
    assert not reader.is_waiting


def test_sequence_with_a_control_character_is_dropped() -> None:
    assert KeyReader().feed(b"\x1b[\x01q") == ["[", "q"]


def test_bytes_that_are_no_text_are_a_replacement_character() -> None:
    assert KeyReader().feed(b"\xffq") == ["\ufffd", "q"]
