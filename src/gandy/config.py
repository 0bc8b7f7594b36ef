"""Where gandy keeps its files, and how addresses are written. Reads no file and opens no socket."""

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from gandy.errors import ConfigError

DEFAULT_PORT: Final = 5429  # as in the original program

SOCKET_NAME: Final = "foreman.sock"  # in the foreman's home

# Schemes of addresses that have a host and a port.
NETWORK: Final = ("tcp", "plain")

# Bytes. The kernel's own limit for the path of a unix socket, less its final zero.
LONGEST_SOCKET_PATH: Final = 107


# A comma that certainly ends an address, because another one with a scheme follows.
_SURE_COMMA: Final = re.compile(r",\s*(?=(?:unix|ensemble):|(?:tcp|plain)://)")


class Address(NamedTuple):
    """Where a foreman is.

    `host` is a path for unix, a host for tcp (with TLS) and plain (without TLS), and for ensemble the name of the
    ensemble that the foreman is in.
    """

    scheme: str
    host: str
    port: int = 0

    def __str__(self) -> str:
        if self.scheme not in NETWORK:
            return f"{self.scheme}:{self.host}"
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{self.scheme}://{host}:{self.port}"


# Where foremen are, as users write it: an address, several with commas between them, or a sequence of such texts; or an
# address that a client has.
Addresses = str | Address | Sequence[str]


def find_home(environ: Mapping[str, str], platform: str) -> str:
    """Return the folder for gandy's files: GANDY_HOME, or where this platform keeps a user's data."""
    if home := environ.get("GANDY_HOME"):
        return home
    user = environ.get("HOME", "/")
    if platform == "darwin":
        return f"{user}/Library/Application Support/gandy"
    return f"{environ.get('XDG_DATA_HOME') or user + '/.local/share'}/gandy"


def parse_address(text: str) -> Address:
    """Parse an address that a user wrote: unix:PATH, tcp://HOST:PORT, HOST:PORT, plain://HOST:PORT, or ensemble:NAME.

    Raises: ConfigError.
    """
    if text.startswith("unix:"):
        return _parse_unix(text.removeprefix("unix:").removeprefix("//"))
    if text.startswith("ensemble:"):
        return _parse_ensemble(text.removeprefix("ensemble:"))
    scheme = "plain" if text.startswith("plain://") else "tcp"
    rest = text.removeprefix(f"{scheme}://")
    host, colon, port = rest.rpartition(":")
    if not colon:
        host, port = rest, str(DEFAULT_PORT)
    host = host.removeprefix("[").removesuffix("]")
    if not host or "/" in rest or not port.isdecimal() or int(port) > 0xFFFF:
        raise ConfigError(f"{text!r} is not an address; write unix:PATH or tcp://HOST:PORT")
    return Address(scheme, host, int(port))


def parse_addresses(texts: Addresses) -> tuple[Address, ...]:
    """Parse addresses that a user wrote, in their order, each once. Empty texts are skipped.

    A comma ends an address. The path of a unix socket and the name of an ensemble may have commas, so after these, only
    a comma with unix:, tcp://, plain:// or ensemble: behind it does.

    Raises: ConfigError.
    """
    if isinstance(texts, Address):
        return (texts,)
    written = (texts,) if isinstance(texts, str) else texts
    return tuple(dict.fromkeys(parse_address(each) for text in written if text for each in _split(text)))


def _split(text: str) -> Iterator[str]:
    for part in _SURE_COMMA.split(text):
        if part.startswith(("unix:", "ensemble:")):
            yield part
        else:
            yield from map(str.strip, part.split(","))


def _parse_ensemble(name: str) -> Address:
    if not name:
        raise ConfigError("ensemble: needs the name of an ensemble")
    return Address("ensemble", name)


def _parse_unix(path: str) -> Address:
    if not path:
        raise ConfigError("unix: needs a path")
    if len(path.encode()) > LONGEST_SOCKET_PATH:
        raise ConfigError(
            f"the socket path {path} is longer than {LONGEST_SOCKET_PATH} bytes; set GANDY_HOME to a shorter folder"
        )
    return Address("unix", path)
