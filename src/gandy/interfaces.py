"""The addresses of this machine on its networks. Opens no connection."""

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from ipaddress import IPv6Address
from pathlib import Path
from typing import Final

from gandy.config import Address
from gandy.limits import MAX_TOKEN_IPV4, MAX_TOKEN_IPV6

SIOCGIFADDR: Final = 0x8915  # Linux: the address of an interface
ANY_IPV4: Final = "0.0.0.0"  # noqa: S104 - for a foreman that listens at all addresses
ANY: Final = "::"  # IPv6 and IPv4

INET6: Final = Path("/proc/net/if_inet6")  # Linux. A line: address, interface, prefix, scope, flags, name
GLOBAL_SCOPE: Final = 0
UNSTABLE: Final = 0x01 | 0x08 | 0x20  # IFA_F_TEMPORARY, IFA_F_DADFAILED, IFA_F_DEPRECATED


def list_ips() -> Iterator[str]:
    """List the IPv4 address of every interface except loopback."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # the interface has no IPv4 address
                request = struct.pack("256s", name.encode()[:15])
                ip = socket.inet_ntoa(fcntl.ioctl(probe.fileno(), SIOCGIFADDR, request)[20:24])
                if not ip.startswith("127."):
                    yield ip


def find_ip() -> str:
    """Return an IP at which other machines reach this one; 127.0.0.1 if it has no network."""
    return next(list_ips(), "127.0.0.1")


def is_local(address: Address) -> bool:
    """True if no other machine can reach the address."""
    return address.scheme == "unix" or address.host in ("localhost", "::1") or address.host.startswith("127.")


def list_ipv6() -> Iterator[str]:
    """List the global IPv6 addresses that are not temporary."""
    with suppress(OSError):  # this machine has no IPv6
        yield from parse_inet6(INET6.read_text())


def parse_inet6(text: str) -> Iterator[str]:
    for line in text.splitlines():
        address, _, _, scope, flags, _ = line.split()
        if int(scope, 16) == GLOBAL_SCOPE and not int(flags, 16) & UNSTABLE:
            yield str(IPv6Address(int(address, 16)))


def list_reachable(address: Address) -> list[Address]:
    """List the addresses at which other machines reach a listener that is bound to this one."""
    if address.host not in (ANY_IPV4, ANY):
        return [address]
    names = list(list_ips())[:MAX_TOKEN_IPV4]
    if address.host == ANY:
        names += list(list_ipv6())[:MAX_TOKEN_IPV6]
    own = socket.gethostname()
    if own != "localhost":  # which every machine has
        names.append(own)
    return [address._replace(host=name) for name in names]
