"""Where a ZeroMQ door may listen."""

import pytest

from gandy.config import Address
from gandy.errors import ConfigError
from gandy.net.exposure import check_bind, is_loopback, parse_tcp

LOCAL = ["tcp://127.0.0.1:6714", "tcp://127.9.9.9:1", "tcp://[::1]:6714", "tcp://localhost:0", "127.0.0.1:6714"]
OPEN = ["tcp://*:6714", "tcp://0.0.0.0:6714", "tcp://[::]:6714", "tcp://10.0.0.5:6714", "tcp://example.org:6714"]
NONE = [
    "",
    "tcp://",
    "tcp://:6714",
    "tcp://127.0.0.1",
    "tcp://127.0.0.1:",
    "tcp://127.0.0.1:x",
    "tcp://127.0.0.1:65536",
    "tcp://127.0.0.1:6714/",
    "tcp://127.0.0.1:6714 ",
    "tcp://127.0.0.1:٦",
    "tcp://::1:6714",
    "tcp://[]:6714",
    "tcp://tcp://127.0.0.1:6714",
    "ipc:///tmp/x",
    "inproc://x",
    "udp://127.0.0.1:6714",
    "unix:/tmp/x",
    "unix:5",
]


@pytest.mark.parametrize("url", LOCAL)
def test_loopback_needs_keys_or_courage_since_others_use_this_machine_too(url: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)--curve FOLDER.*--insecure.*everyone on this machine"):
        check_bind(url, curve=False, insecure=False)
    assert is_loopback(check_bind(url, curve=True, insecure=False).host)
    assert is_loopback(check_bind(url, curve=False, insecure=True).host)


@pytest.mark.parametrize("url", OPEN)
def test_the_network_needs_keys_or_courage(url: str) -> None:
    with pytest.raises(ConfigError, match=r"(?s)--curve FOLDER.*--insecure.*everyone on the network"):
        check_bind(url, curve=False, insecure=False)
    address = check_bind(url, curve=True, insecure=False)
    assert address == check_bind(url, curve=False, insecure=True)
    assert str(address) == url


@pytest.mark.parametrize("url", NONE)
def test_only_tcp_with_a_port_is_an_address(url: str) -> None:
    with pytest.raises(ConfigError, match="tcp://HOST:PORT"):
        check_bind(url, curve=True, insecure=True)


def test_an_address_comes_apart() -> None:
    assert parse_tcp("tcp://[::1]:6714") == Address("tcp", "::1", 6714)
    assert parse_tcp("tcp://box-1.local:1") == Address("tcp", "box-1.local", 1)


@pytest.mark.parametrize("host", ["127.1", "0x7f000001", "localhost.example.org", "::ffff:10.0.0.1", "*", ""])
def test_what_only_looks_like_loopback_is_not(host: str) -> None:
    assert not is_loopback(host)
