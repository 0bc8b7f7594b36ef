"""The crew on the bus: a foreman says where it is, and others find it by the name of their ensemble alone.

Discovery tells where, never whom to trust: what is found is an address like any other.
"""

import logging
import os
import secrets
import time
from collections.abc import Sequence
from queue import Empty, SimpleQueue
from typing import Final

from gandy.bus.ensemble import Bus, Ensemble
from gandy.config import Address
from gandy.errors import AddressError, LinkError

log = logging.getLogger("gandy.bus")

SERVICE: Final = "foreman"
ANYWHERE: Final = ("0.0.0.0", "::")  # noqa: S104 - a foreman that listens everywhere
ASK_PERIOD: Final = 0.5  # seconds between two questions
PATIENCE: Final = 6.0  # seconds; discovery has tried every port three times by then


class Signpost:
    """On a foreman's side: the service `foreman`, which tells where the foreman takes clients and workers."""

    def __init__(self, band: Bus, addresses: Sequence[Address]) -> None:
        self._band = band
        ip = band.process.rpartition(":")[0]  # what others call this machine
        self._addresses = tuple(str(each._replace(host=ip) if each.host in ANYWHERE else each) for each in addresses)
        band.service(SERVICE).add(self._tell, "/where", "s")

    def _tell(self, reply_to: str) -> None:
        try:
            self._band.send(reply_to, *self._addresses, types="s" * len(self._addresses))
        except (AddressError, ValueError) as error:
            log.debug("nobody can be told at %s: %s", reply_to, error)


def find_foreman(name: str, *, insecure: bool = False, timeout: float = PATIENCE) -> str:
    """The address of the foreman in an ensemble: on this machine its unix socket, else where it listens.

    Raises: LinkError, where there is none, or none that can be reached; ConfigError.
    """
    with Ensemble(name, insecure=insecure) as band:
        return ask_foreman(band, timeout)


def ask_foreman(band: Ensemble, timeout: float = PATIENCE) -> str:
    """The same for somebody who is part of the ensemble already. Raises: LinkError."""
    answers: SimpleQueue[tuple[str, ...]] = SimpleQueue()
    service = band.service(f"seek-{secrets.token_hex(8)}")
    service.add(lambda *addresses: answers.put(addresses), "/here")
    deadline = time.monotonic() + timeout
    try:
        while (left := deadline - time.monotonic()) > 0:
            if not band.wait_for(SERVICE, left):
                break
            try:
                band.send(f"!{SERVICE}/where", f"!{service.name}/here")
                return choose_address(answers.get(timeout=min(ASK_PERIOD, left)))
            except (Empty, AddressError):
                continue
    finally:
        service.close()
    raise LinkError(f"no foreman is in the ensemble {band.name}; start one with 'gandy foreman run --ensemble'")


def choose_address(addresses: Sequence[str]) -> str:
    """Raises: LinkError, where none can be reached."""
    for address in addresses:
        if address.startswith("unix:") and os.access(address.removeprefix("unix:"), os.W_OK):
            return address
    found = next((address for address in addresses if address.startswith("tcp://")), None)
    if found is None:
        raise LinkError("the foreman takes nobody from other machines: start it with --listen")
    return found
