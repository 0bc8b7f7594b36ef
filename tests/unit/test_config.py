import pytest

from gandy.config import DEFAULT_PORT, Address, Addresses, find_home, parse_address, parse_addresses
from gandy.errors import ConfigError


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("unix:/run/gandy.sock", Address("unix", "/run/gandy.sock")),
        ("unix:///run/gandy.sock", Address("unix", "/run/gandy.sock")),
        ("tcp://host:1234", Address("tcp", "host", 1234)),
        ("host:1234", Address("tcp", "host", 1234)),
        ("host", Address("tcp", "host", DEFAULT_PORT)),
        ("tcp://[::1]:80", Address("tcp", "::1", 80)),
        ("plain://host:1234", Address("plain", "host", 1234)),
        ("plain://host", Address("plain", "host", DEFAULT_PORT)),
        ("plain://[::1]:80", Address("plain", "::1", 80)),
        ("ensemble:the band", Address("ensemble", "the band")),
    ],
)
def test_addresses_are_read(text: str, address: Address) -> None:
    assert parse_address(text) == address
    assert parse_address(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        "unix:",
        "ensemble:",
        "tcp://host:port",
        "tcp://:80",
        "plain://:80",
        "plain://a/b",
        "plain:host",
        "host:99999",
        "http://host/x",
    ],
)
def test_nonsense_is_named(text: str) -> None:
    with pytest.raises(ConfigError):
        parse_address(text)


def test_a_socket_path_has_a_limit() -> None:
    with pytest.raises(ConfigError, match="GANDY_HOME"):
        parse_address("unix:/" + "x" * 200)


def test_home_is_where_the_platform_keeps_it() -> None:
    assert find_home({"GANDY_HOME": "/g"}, "linux") == "/g"
    assert find_home({"HOME": "/h"}, "linux") == "/h/.local/share/gandy"
    assert find_home({"HOME": "/h", "XDG_DATA_HOME": "/x"}, "linux") == "/x/gandy"
    assert find_home({"HOME": "/h"}, "darwin") == "/h/Library/Application Support/gandy"


@pytest.mark.parametrize(
    ("texts", "addresses"),
    [
        ((), []),
        (parse_address("tcp://a:1"), ["tcp://a:1"]),
        ("", []),
        (("", ""), []),
        ("tcp://a:1,b:2, plain://c:3", ["tcp://a:1", "tcp://b:2", "plain://c:3"]),
        (("tcp://a:1", "tcp://b:2,tcp://a:1"), ["tcp://a:1", "tcp://b:2"]),
        ("unix:/a/x.sock,unix:/b/x.sock,tcp://c:1", ["unix:/a/x.sock", "unix:/b/x.sock", "tcp://c:1"]),
        # Paths and names may have commas, which end nothing unless an address with a scheme follows.
        ("unix:/a,b/x.sock", ["unix:/a,b/x.sock"]),
        ("unix:/a,b/x.sock, unix:/c", ["unix:/a,b/x.sock", "unix:/c"]),
        ("ensemble:you, me,plain://c:3", ["ensemble:you, me", "plain://c:3"]),
    ],
)
def test_lists_of_addresses_are_read(texts: Addresses, addresses: list[str]) -> None:
    assert parse_addresses(texts) == tuple(map(parse_address, addresses))


@pytest.mark.parametrize("text", ["tcp://a:1,", "a,,b", ",", "tcp://a:1,http://host/x"])
def test_lists_with_something_else_are_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="is not an address"):
        parse_addresses(text)
