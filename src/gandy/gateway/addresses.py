"""Where a ZeroMQ door may listen. Without keys a door is for this machine only."""

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
    """Whether only this machine can reach it. A name that would have to be looked up is not: its answer may change."""
    if host == "localhost":  # RFC 6761, and the router takes it as 127.0.0.1 without asking
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def check_bind(url: str, *, curve: bool, insecure: bool) -> Address:
    """Where a door shall listen.

    Raises: ConfigError, for what is no address, and for the network without keys and without --insecure.
    """
    address = parse_tcp(url)
    if not (curve or insecure or is_loopback(address.host)):
        raise ConfigError(
            f"{url} is on the network, and a door without keys is for this machine only. --curve FOLDER makes keys "
            "there, and lets in only peers that have them. --insecure does without: then everybody on that network can "
            "run commands on this crew."
        )
    return address
