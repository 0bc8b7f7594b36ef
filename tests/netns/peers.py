"""The C program of peer.c, as tests see it."""

import re
import time
from pathlib import Path
from typing import Any, Final, NamedTuple

from tests.netns.namespaces import Namespace
from tests.netns.programs import SOON, Program

from gandy.bus import INFINITUM, Status

CONSTANTS: Final = {"T": True, "F": False, "N": None, "I": INFINITUM}


class Got(NamedTuple):
    """A message that the peer got."""

    monotonic: float  # when
    shared: float  # the same, by the peer's clock
    time: float  # what the message said
    address: str
    types: str
    values: tuple[Any, ...]


class Clock(NamedTuple):
    """What the peer's clocks say at one moment."""

    monotonic: float
    shared: float


class Peer(Program):
    """A process with libo2. Its name is known when it is ready."""

    def __init__(self, program: Path, app: str, namespace: Namespace) -> None:
        with namespace.inside():
            super().__init__([program, app])
        (self.name,) = self.expect_words("ready")

    def send(
        self, address: str, types: str = "", values: tuple[Any, ...] = (), at: float = 0, way: str = "tcp"
    ) -> float:
        """In `at` seconds of its clock. The time that it wrote."""
        texts = [format_value(code, value) for code, value in zip(types, values, strict=True) if code not in CONSTANTS]
        self.say(" ".join(["send", way, str(at), address, types, *texts]))
        (sent,) = self.expect_words("sent")
        return float.fromhex(sent)

    def expect_message(self, address: str, timeout: float = SOON) -> Got:
        found = self.expect(rf"got \S+ \S+ \S+ {re.escape(address)}", timeout)
        _, monotonic, shared, at, address, types, *texts = found.string.split(" ")
        codes, rest = types[1:], iter(texts)
        values = tuple(CONSTANTS[code] if code in CONSTANTS else parse_value(code, next(rest)) for code in codes)
        assert list(rest) == []
        return Got(float(monotonic), float(shared), float.fromhex(at), address, codes, values)

    def expect_info(self, service: str, status: Status, process: str = "") -> None:
        """A service came, changed or went."""
        self.expect(f"info {re.escape(service)} {status}" + (f" {re.escape(process)}" if process else ""))

    def expect_status(self, service: str, status: Status) -> None:
        """It does not always tell by itself that one changed."""
        deadline = time.monotonic() + SOON
        while (found := self.read_status(service)) is not status:
            assert time.monotonic() < deadline, f"{service} stays {found!r}"
            time.sleep(0.01)

    def read_status(self, service: str) -> Status:
        self.say(f"status {service}")
        (status,) = self.expect_words(f"status {re.escape(service)}")
        return Status(int(status))

    def read_time(self) -> Clock:
        self.say("time")
        monotonic, shared = self.expect_words("time")
        return Clock(float(monotonic), float(shared))


def format_value(code: str, value: Any) -> str:
    match code:
        case "f" | "d" | "t":
            return float(value).hex()
        case "s" | "S":
            return "." + str(value).encode().hex()
        case "b":
            return "." + bytes(value).hex()
        case "c":
            return str(ord(value))
        case "m":
            return str(int.from_bytes(value, "big"))
        case _:
            return str(int(value))


def parse_value(code: str, text: str) -> Any:
    match code:
        case "f" | "d" | "t":
            return float.fromhex(text)
        case "s" | "S":
            return bytes.fromhex(text[1:]).decode()
        case "b":
            return bytes.fromhex(text[1:])
        case "c":
            return chr(int(text))
        case "m":
            return int(text).to_bytes(4, "big")
        case "B":
            return text == "1"
        case _:
            return int(text)
