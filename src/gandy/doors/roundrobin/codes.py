"""The table of commands and their codes in the round-robin queue. It runs none of them."""

from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from gandy.doors.roundrobin.limits import MAX_CODE_BYTES
from gandy.doors.roundrobin.wire import DEREGISTER, INCREMENT, MQS_MORE, ONGOING, PING, REGISTER, RR_STREAM
from gandy.errors import ConfigError
from gandy.limits import MAX_COMMAND_NAME

TAKEN: Final = frozenset((INCREMENT, REGISTER, DEREGISTER, ONGOING, MQS_MORE))  # used by the queue itself


class Entry(NamedTuple):
    """One command and its code."""

    code: bytes
    name: str
    is_stream: bool = False
    is_repeatable: bool = False  # it may run again if its worker was lost
    is_bare: bool = False  # its response is empty


BUILT_IN: Final = (
    Entry(PING, "ping", is_repeatable=True, is_bare=True),
    Entry(RR_STREAM, "rr_stream", is_stream=True, is_repeatable=True),
)


class CommandCodes:
    """The built-in commands, and those given by texts such as `0x20=resize,repeatable`."""

    def __init__(self, texts: Iterable[str] = ()) -> None:
        """Raises: ConfigError."""
        self._by_code = {entry.code: entry for entry in BUILT_IN}
        self._by_name = {entry.name: entry for entry in BUILT_IN}
        for text in texts:
            self._add(parse_entry(text))

    def __iter__(self) -> Iterator[Entry]:
        return iter(self._by_code.values())

    def find(self, code: bytes) -> Entry | None:
        return self._by_code.get(code)

    def find_name(self, name: str) -> Entry | None:
        return self._by_name.get(name)

    def _add(self, entry: Entry) -> None:
        before = self._by_code.get(entry.code) or self._by_name.get(entry.name)
        if before is not None:
            raise ConfigError(f"{before.name} has the code {format_code(before.code)} already")
        self._by_code[entry.code] = self._by_name[entry.name] = entry


def parse_entry(text: str) -> Entry:
    """Parse CODE=NAME[,stream][,repeatable]. Raises: ConfigError."""
    code_text, equals, rest = text.partition("=")
    name, *words = rest.split(",")
    if not equals or not name.isprintable() or not 0 < len(name.encode(errors="replace")) <= MAX_COMMAND_NAME:
        raise ConfigError(f"{text!r} is not CODE=NAME, as in 0x20=resize")
    for word in words:
        if word not in ("stream", "repeatable"):
            raise ConfigError(f"{text!r}: after the name come `stream` and `repeatable`, not {word!r}")
    code = parse_code(code_text)
    if code in TAKEN:
        raise ConfigError(f"{text!r}: the queue itself uses the code {format_code(code)}")
    return Entry(code, name, "stream" in words, "repeatable" in words)


def parse_code(text: str) -> bytes:
    """Parse a code such as 0x20, or a word. Raises: ConfigError."""
    try:
        is_hex = text[:2].lower() == "0x"
        code = bytes.fromhex(text[2:]) if is_hex else text.encode("ascii")
    except ValueError:
        code = b""
    if not 0 < len(code) <= MAX_CODE_BYTES or any(char in " \"'," or not char.isprintable() for char in text):
        raise ConfigError(f"{text!r} is not the code of a command: write 0x20, or a word")
    return code


def format_code(code: bytes) -> str:
    """Format a code as `parse_code` accepts it."""
    text = code.decode("ascii", errors="replace")
    is_word = len(code) > 1 and code.isascii() and text.isprintable() and not set(text) & set(" \"',=")
    return text if is_word and text[:2].lower() != "0x" else f"0x{code.hex()}"
