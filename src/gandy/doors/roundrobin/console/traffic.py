"""Counts and prints the messages of a connection, for users who watch it."""

import uuid
from base64 import b64encode
from collections import Counter
from collections.abc import Sequence
from typing import Final

from gandy.doors.roundrobin.console.screen import FRAMES, STATS, Screen, show_text
from gandy.doors.roundrobin.wire import EXEC, PING, PONG, RESPONSE, TRACKADDRESS, TRACKEXEC, decode
from gandy.errors import RemoteProtocolError

NAMES: Final = {
    PING: "PING",
    PONG: "PONG",
    EXEC: "EXEC",
    TRACKEXEC: "TRACKEXEC",
    TRACKADDRESS: "TRACKADDRESS",
    RESPONSE: "RESPONSE",
}
HEARTBEAT: Final = "HEARTBEAT"  # our PINGs, counted here as well: the original has a row for them
UNKNOWN: Final = "UNKNOWN"
ROWS: Final = (*NAMES.values(), HEARTBEAT, UNKNOWN)

SHOWN_BYTES: Final = 32  # bytes of a frame


class Traffic:
    """The messages of one connection. Prints its statistics when the connection is closed."""

    def __init__(self, screen: Screen, role: str) -> None:
        self._screen = screen
        self._role = role
        self._id = uuid.uuid4()
        self._incoming: Counter[str] = Counter()
        self._outgoing: Counter[str] = Counter()

    def on_in(self, frames: Sequence[bytes]) -> None:
        """A message was received; `frames` are without the routing id that the socket added."""
        if self._screen.level < STATS:
            return
        self._incoming[_find_kind(frames)] += 1
        self._show("in ", frames)

    def on_out(self, frames: Sequence[bytes]) -> None:
        if self._screen.level < STATS:
            return
        kind = _find_kind(frames)
        self._outgoing[kind] += 1
        if kind == "PING":
            self._outgoing[HEARTBEAT] += 1
        self._show("out", frames)

    def on_close(self) -> None:
        self._screen.log(STATS, self.format())

    def format(self) -> str:
        lines = [f"----------- Command Stats for {self._id} --------------", "    Command     incoming    outgoing"]
        lines += [f"  {row:>12}: {self._incoming[row]:8d}    {self._outgoing[row]:8d}" for row in ROWS]
        return "\n".join([*lines, "-" * 64])

    def _show(self, direction: str, frames: Sequence[bytes]) -> None:
        if self._screen.level >= FRAMES:
            self._screen.log(FRAMES, f"{self._role}: {direction} {format_frames(frames)}")


def _find_kind(frames: Sequence[bytes]) -> str:
    try:
        return NAMES[decode(frames).command]
    except RemoteProtocolError:
        return UNKNOWN


def format_frames(frames: Sequence[bytes]) -> str:
    """Format as docs/protocol does: '' | LMQv100 | 04 | 00000000 | 01 | ''."""
    return " | ".join(map(_format_frame, frames))


def _format_frame(frame: bytes) -> str:
    if not frame:
        return "''"
    shown = frame[:SHOWN_BYTES]
    is_text = len(frame) > 1 and shown.isascii() and shown.decode().isprintable()
    text = shown.decode() if is_text else shown.hex()
    return text if len(frame) <= SHOWN_BYTES else f"{text}.. ({len(frame):,} bytes)"


def format_id(number: bytes) -> str:
    return b64encode(number).decode()


def format_address(routing_id: bytes) -> str:
    """The routing id as text, if it is printable; otherwise in hexadecimal digits."""
    text = routing_id.decode(errors="replace")
    return text if show_text(text) == text and "\ufffd" not in text else f"0x{routing_id.hex()}"
