"""Which code is which command, and how values become frames."""

from typing import Any

import pytest

from gandy.doors.limits import MAX_PAYLOAD_FRAMES
from gandy.doors.roundrobin.codes import (
    CommandCodes,
    Entry,
    format_code,
    parse_code,
)
from gandy.doors.values import encode_payload
from gandy.errors import ConfigError


def test_ping_and_rr_stream_are_built_in() -> None:
    codes = CommandCodes()
    assert codes.find(b"\x01") == Entry(b"\x01", "ping", is_repeatable=True, is_bare=True)
    assert codes.find(b"\x0a") == Entry(b"\x0a", "rr_stream", is_stream=True, is_repeatable=True)
    assert codes.find_name("ping") == codes.find(b"\x01")
    assert codes.find(b"\x20") is None
    assert codes.find_name("resize") is None
    assert [entry.name for entry in codes] == ["ping", "rr_stream"]


@pytest.mark.parametrize(
    ("text", "entry"),
    [
        ("0x20=resize", Entry(b" ", "resize")),
        ("0X2aFF=resize,stream", Entry(b"\x2a\xff", "resize", is_stream=True)),
        ("resize=resize,repeatable,stream", Entry(b"resize", "resize", is_stream=True, is_repeatable=True)),
        ("7=größer", Entry(b"7", "größer")),
    ],
)
def test_others_come_from_texts(text: str, entry: Entry) -> None:
    codes = CommandCodes([text])
    assert codes.find(entry.code) == codes.find_name(entry.name) == entry


@pytest.mark.parametrize(
    "text",
    [
        "",
        "resize",
        "0x20=",
        "=resize",
        "0x=resize",
        "0x2=resize",
        "0xzz=resize",
        "0x20 21=resize",
        "größer=resize",
        "two words=resize",
        '"quoted"=resize',
        "tab\t=resize",
        "0x20=resize,fast",
        "0x20=resize,",
        "0x20=line\nbreak",
        "0x20=" + "x" * 256,
        "x" * 256 + "=resize",
    ],
)
def test_nonsense_is_refused(text: str) -> None:
    with pytest.raises(ConfigError):
        CommandCodes([text])


@pytest.mark.parametrize("code", ["0x07", "0x08", "0x09", "ongoing", "mqs_more", "0x6f6e676f696e67"])
def test_codes_of_the_queue_itself_are_refused(code: str) -> None:
    with pytest.raises(ConfigError, match="the queue itself"):
        CommandCodes([f"{code}=mine"])


@pytest.mark.parametrize("texts", [["0x01=mine"], ["0x20=ping"], ["0x20=a", "0x20=b"], ["0x20=a", "0x21=a"]])
def test_codes_and_names_are_given_once(texts: list[str]) -> None:
    with pytest.raises(ConfigError, match="already"):
        CommandCodes(texts)


@pytest.mark.parametrize(
    ("code", "text"),
    [(b"\x01", "0x01"), (b"resize", "resize"), (b"0x20", "0x30783230"), (b"a=b", "0x613d62"), (b"\xff\xfe", "0xfffe")],
)
def test_codes_are_told_as_they_are_written(code: bytes, text: str) -> None:
    assert format_code(code) == text
    assert parse_code(text) == code


@pytest.mark.parametrize(
    ("value", "frames"),
    [
        (None, ()),
        (b"", ()),
        ("", ()),
        (b"\0x", (b"\0x",)),
        ("größer", ("größer".encode(),)),
        ("\ud800", (b"?",)),
        (0, (b"0",)),
        (-17, (b"-17",)),
        ([], ()),
        ([b"a", "b", 3], (b"a", b"b", b"3")),
        ((b"a",), (b"a",)),
    ],
)
def test_values_become_frames(value: Any, frames: tuple[bytes, ...]) -> None:
    assert encode_payload(value) == frames


@pytest.mark.parametrize(
    "value", [1.5, True, {}, [None], [b"a", b""], [[b"a"]], ["a"] * (MAX_PAYLOAD_FRAMES + 1)], ids=str
)
def test_values_without_such_a_form_are_refused(value: Any) -> None:
    with pytest.raises(ValueError):
        encode_payload(value)
