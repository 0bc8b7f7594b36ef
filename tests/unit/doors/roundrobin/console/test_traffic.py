"""How messages are counted and shown."""

import re

import pytest

from gandy.doors.roundrobin.console.screen import FRAMES, STATS, Screen
from gandy.doors.roundrobin.console.traffic import Traffic, format_address, format_frames, format_id
from gandy.doors.roundrobin.wire import PING, PONG, RESPONSE, TRACKEXEC, QueueMessage, encode

BLOCK = """\
    Command     incoming    outgoing
          PING:        0           1
          PONG:        1           0
          EXEC:        0           0
     TRACKEXEC:        0           0
  TRACKADDRESS:        0           0
      RESPONSE:        0           1
     HEARTBEAT:        0           1
       UNKNOWN:        1           0
----------------------------------------------------------------
"""


def test_stats_are_told_when_a_connection_is_closed(capfd: pytest.CaptureFixture[str]) -> None:
    screen = Screen(STATS)
    traffic = Traffic(screen, "WORKER")
    traffic.on_out(encode(QueueMessage(PING, b"12345678")))
    traffic.on_in(encode(QueueMessage(PONG, b"12345678")))
    traffic.on_out(encode(QueueMessage(RESPONSE, b"1234", (b"payload",), (b"client",))))
    traffic.on_in([b"nonsense"])
    traffic.on_close()
    screen.flush()
    first, _, rest = capfd.readouterr().err.partition("\n")
    assert re.fullmatch(r"-{11} Command Stats for [0-9a-f-]{36} -{14}", first)
    assert rest == BLOCK


def test_on_a_low_level_there_are_none(capfd: pytest.CaptureFixture[str]) -> None:
    screen = Screen(STATS - 1)
    traffic = Traffic(screen, "WORKER")
    traffic.on_in([b"nonsense"])
    traffic.on_out([b"nonsense"])
    traffic.on_close()
    screen.flush()
    assert capfd.readouterr().err == ""


def test_messages_are_shown_on_a_high_level(capfd: pytest.CaptureFixture[str]) -> None:
    screen = Screen(FRAMES + 10)
    traffic = Traffic(screen, "CLIENT")
    traffic.on_out(encode(QueueMessage(TRACKEXEC, bytes(4), (b"\x0a", b"STREAM_ID", b"1024"))))
    traffic.on_in([b"", b"\1" * 1060])
    screen.flush()
    shown = capfd.readouterr().err.splitlines()
    assert shown[0] == "CLIENT: out '' | LMQv100 | 04 | 00000000 | 0a | STREAM_ID | 1024 | ''"
    assert shown[1] == f"CLIENT: in  '' | {'01' * 32}.. (1,060 bytes)"


def test_frames_of_any_kind_can_be_shown() -> None:
    assert format_frames([b"a", b"ab", b"\xff\xfe", b"a\x1b", "ü".encode()]) == "61 | ab | fffe | 611b | c3bc"


def test_addresses_and_ids_can_be_shown() -> None:
    assert format_address(b"tcp://127.0.0.1:6714:234595") == "tcp://127.0.0.1:6714:234595"
    assert format_address("wörker".encode()) == "wörker"
    assert format_address(b"\0k\x8b") == "0x006b8b"
    assert format_address(b"a\nb") == "0x610a62"
    assert format_id(bytes(4)) == "AAAAAA=="
