"""The crew on the bus: a foreman announces its addresses, so workers and clients need only know the ensemble's name.

It finds addresses, perhaps of several foremen; it does not decide which of them to trust.
"""

import logging
import os
import random
import re
import secrets
from collections.abc import Iterator, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Final

from gandy.bus.ensemble import Bus, Ensemble
from gandy.bus.limits import MAX_ADDRESSES_PER_PROCESS, MAX_SEARCH_ANSWERS, MAX_SEARCHED_ADDRESSES
from gandy.clocks import read_monotonic
from gandy.config import NETWORK, Address, parse_address
from gandy.errors import AddressError, ConfigError, LinkError
from gandy.interfaces import ANY, ANY_IPV4
from gandy.moments import LONG_AGO

log = logging.getLogger("gandy.bus")

SERVICE: Final = "foreman"
PIN_DIGITS: Final = 16  # of a fingerprint, in the name of a service, which may have 64 bytes in all
ASK_PERIOD: Final = 0.5  # seconds between two requests for addresses
PATIENCE: Final = 6.0  # seconds; discovery has tried every port three times by then

_FOREMEN: Final = re.compile(rf"{SERVICE}(-[0-9a-f]{{{PIN_DIGITS}}})?")


def name_service(fingerprint: str) -> str:
    """The service of one foreman. Of several in an ensemble, only one gets messages to `foreman`."""
    return f"{SERVICE}-{fingerprint[:PIN_DIGITS]}"


class Signpost:
    """The foreman's side: offers the service `foreman`, which answers with the addresses where the foreman listens.

    Workers and clients that have joined need not ask: further services have the addresses in their names. If another
    process offers the same names, ours are still found: each process has its own list of services.
    """

    def __init__(self, ensemble: Bus, addresses: Sequence[Address], fingerprint: str) -> None:
        self._ensemble = ensemble
        ip = ensemble.process.rpartition(":")[0]  # of this machine, as other machines reach it
        places = [each._replace(host=ip) if each.host in (ANY, ANY_IPV4) else each for each in addresses]
        self._addresses = tuple(map(str, places))
        own = name_service(fingerprint)
        for name in (SERVICE, own):
            ensemble.service(name).add(self._answer, "/where", "s")
        for place in places:
            if place.scheme == "tcp":
                self._offer(f"{own}-{place.host}:{place.port}")

    def _offer(self, name: str) -> None:
        try:
            self._ensemble.service(name).offer()
        except ConfigError as error:
            log.warning("workers and clients that have joined cannot find an address: %s", error)

    def _answer(self, reply_to: str) -> None:
        try:
            self._ensemble.send(reply_to, *self._addresses, types="s" * len(self._addresses))
        except (AddressError, ValueError) as error:
            log.debug("cannot send our addresses to %s: %s", reply_to, error)


class Search:
    """Finds the addresses of foremen in an ensemble.

    With the fingerprint of a foreman, only those of processes that claim to have it, which proves nothing.
    """

    def __init__(
        self,
        name: str,
        fingerprint: str = "",
        *,
        insecure: bool = False,
        ensemble: Ensemble | None = None,
        timeout: float = PATIENCE,
    ) -> None:
        """`ensemble`: the caller's, if it has joined: a machine has few discovery ports. Raises: ConfigError."""
        self._deadline = read_monotonic() + timeout
        self._news: SimpleQueue[None] = SimpleQueue()
        self._is_guest = ensemble is not None
        self._ensemble = Ensemble(name, insecure=insecure) if ensemble is None else ensemble
        if ensemble is None:
            self._ensemble.on_news(lambda _news: self._news.put(None))
        self._known: set[Address] = set()
        self._source: _Names | _Questions = (
            _Names(self._ensemble, fingerprint) if fingerprint else _Questions(self._ensemble, self._news, insecure)
        )

    def close(self) -> None:
        with suppress(LinkError):  # the caller may have left the ensemble
            self._source.close()
        if not self._is_guest:
            self._ensemble.close()

    def explain(self) -> str:
        """Why no foreman was found."""
        return self._source.explain(self._ensemble.name)

    def find_more(self) -> list[Address]:
        """Wait for new addresses, a few at a time. An empty list when the time is up."""
        while len(self._known) < MAX_SEARCHED_ADDRESSES:
            fresh = [each for each in dict.fromkeys(self._source.list_places()) if each not in self._known]
            if fresh:
                self._known.update(fresh[:MAX_ADDRESSES_PER_PROCESS])
                return fresh[:MAX_ADDRESSES_PER_PROCESS]
            left = self._deadline - read_monotonic()
            if left <= 0:  # checked last: the caller may have spent all the time on a false foreman
                break
            with suppress(Empty):
                self._news.get(timeout=min(ASK_PERIOD, left))
        return []


class _Names:
    """Reads addresses from the names of a foreman's services, without asking it."""

    def __init__(self, ensemble: Ensemble, fingerprint: str) -> None:
        self._ensemble = ensemble
        self._prefix = f"{name_service(fingerprint)}-"

    def close(self) -> None: ...

    def list_places(self) -> list[Address]:
        found = self._ensemble.neighbours()
        random.shuffle(found)  # so that no process can make sure that it is always tried first
        return [place for neighbour in found for place in self._parse_names(neighbour.services)]

    def explain(self, name: str) -> str:
        return f"our foreman is not in the ensemble {name}"

    def _parse_names(self, services: Sequence[str]) -> list[Address]:
        names = [name.removeprefix(self._prefix) for name in services if name.startswith(self._prefix)]
        return list(_parse([f"tcp://{name}" for name in names[:MAX_ADDRESSES_PER_PROCESS]]))


class _Questions:
    """Asks all processes that claim to be a foreman."""

    def __init__(self, ensemble: Ensemble, news: "SimpleQueue[None]", insecure: bool) -> None:
        self._ensemble = ensemble
        self._news = news
        self._insecure = insecure
        self._answers: list[tuple[Any, ...]] = []
        self._service = f"seek-{secrets.token_hex(8)}"
        self._asked_at = LONG_AGO
        ensemble.service(self._service).add(self._on_answer, "/here")

    def close(self) -> None:
        self._ensemble.service(self._service).close()

    def _on_answer(self, *addresses: Any) -> None:
        if len(self._answers) < MAX_SEARCH_ANSWERS:
            self._answers.append(addresses)
            self._news.put(None)

    def list_places(self) -> list[Address]:
        if read_monotonic() - self._asked_at >= ASK_PERIOD and self._ask():
            self._asked_at = read_monotonic()
        return [place for answer in list(self._answers) for place in choose_places(answer, self._insecure)]

    def explain(self, name: str) -> str:
        if self._answers:
            return f"the foreman in the ensemble {name} does not listen for other machines: start it with --listen"
        return f"no foreman is in the ensemble {name}"

    def _ask(self) -> bool:
        """False if there is no foreman to ask."""
        names = sorted(name for name in self._ensemble.services() if _FOREMEN.fullmatch(name))
        for name in names[:MAX_SEARCHED_ADDRESSES]:
            with suppress(AddressError):  # it is not connected yet, or has just gone
                self._ensemble.send(f"!{name}/where", f"!{self._service}/here")
        return bool(names)


def choose_places(answer: Sequence[Any], insecure: bool) -> list[Address]:
    """The addresses of an answer to try: a unix socket of this machine, then those on the network."""
    places = list(_parse([each for each in answer[:MAX_ADDRESSES_PER_PROCESS] if isinstance(each, str)]))
    near = [each for each in places if each.scheme == "unix" and os.access(each.host, os.W_OK)]
    far = [each for each in places if each.scheme in NETWORK]
    return near + [each for each in far if each.scheme == "tcp" or insecure] or far


def _parse(texts: Sequence[str]) -> Iterator[Address]:
    for text in texts:
        with suppress(ConfigError):  # a process may send anything
            yield parse_address(text)
