"""The addresses that this machine has on its networks."""

import fcntl
import socket
import struct
from collections.abc import Iterator
from contextlib import suppress
from typing import Final

from gandy.config import Address

SIOCGIFADDR: Final = 0x8915  # Linux: the address of an interface
EVERYWHERE: Final = ("0.0.0.0", "::", "")  # noqa: S104 - a foreman that listens at all of them
MAX_REACHABLE: Final = 4  # that a token names


def list_ips() -> Iterator[str]:
    """Of every interface but this machine's own."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as asker:
        for _, name in socket.if_nameindex():
            with suppress(OSError):  # it has none
                request = struct.pack("256s", name.encode()[:15])
                ip = socket.inet_ntoa(fcntl.ioctl(asker.fileno(), SIOCGIFADDR, request)[20:24])
                if not ip.startswith("127."):
                    yield ip


def find_ip() -> str:
    """What others call this machine; 127.0.0.1 where it has no network."""
    return next(list_ips(), "127.0.0.1")


def is_local(address: Address) -> bool:
    """Whether nobody on another machine can reach it."""
    return address.scheme == "unix" or address.host in ("localhost", "::1") or address.host.startswith("127.")


def list_reachable(address: Address) -> list[Address]:
    """What others may write to come to where we listen."""
    if address.host not in EVERYWHERE:
        return [address]
    names = [*list_ips(), socket.gethostname()]
    return [address._replace(host=name) for name in names[:MAX_REACHABLE]]
