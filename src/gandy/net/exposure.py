"""Where a ZeroMQ door may listen, and who is there then. Without keys it takes somebody who says so."""

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

    Raises: ConfigError, for what is no address, and for one without keys and without --insecure: on loopback too, since
    other users of this machine are strangers.
    """
    address = parse_tcp(url)
    if not (curve or insecure):
        raise ConfigError(
            f"{url} would be without keys. --curve FOLDER makes keys there, and lets in only peers that have them. "
            f"--insecure does without: then {describe_audience(address.host)} can call the commands of this crew, and "
            "pose as its workers."
        )
    return address


def describe_audience(host: str) -> str:
    """Who can reach a door there, for people."""
    return "everybody on this machine" if is_loopback(host) else "everybody on the network"
