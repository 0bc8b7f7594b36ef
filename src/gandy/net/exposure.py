"""Where a ZeroMQ door may listen, and from where it can be reached. Without keys, the user must allow it."""

import ipaddress
import re
from typing import Final

from gandy.config import Address
from gandy.errors import ConfigError

_TCP: Final = re.compile(r"(?:tcp://)?(?:\[([^\[\]/\s]+)\]|([^\[\]/\s:]+)):([0-9]{1,5})")


def parse_tcp(url: str) -> Address:
    """The address of a ZeroMQ socket, always with its port: the protocols have none in common.

    Raises: ConfigError.
    """
    match = _TCP.fullmatch(url)
    if match is None or int(match[3]) > 0xFFFF or url.startswith("unix:"):
        raise ConfigError(f"{url!r} is not an address for ZeroMQ; write tcp://HOST:PORT, or tcp://[HOST]:PORT for IPv6")
    return Address("tcp", match[1] or match[2], int(match[3]))


def is_loopback(host: str) -> bool:
    """True if only this machine can reach it. False for a host name that needs a lookup: it may change."""
    if host == "localhost":  # RFC 6761, and the router takes it as 127.0.0.1 without asking
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(url: str, *, curve: bool, insecure: bool) -> Address:
    """The address where a door listens.

    Raises: ConfigError, if it is not an address, or has neither keys nor --insecure: on loopback too, since other users
    of this machine can reach it.
    """
    address = parse_tcp(url)
    if not (curve or insecure):
        raise ConfigError(
            f"{url} would be without keys. With --curve FOLDER, only peers with a key are accepted. "
            f"With --insecure, {describe_audience(address.host)} can call the commands of this crew, and "
            "pose as its workers."
        )
    return address


def describe_audience(host: str) -> str:
    """Which machines can reach a door there, for people."""
    return "everyone on this machine" if is_loopback(host) else "everyone on the network"
