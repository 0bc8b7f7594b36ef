"""Peers that have not identified themselves yet: how many there may be, for how long, and from where.

If there are too many, the one that has waited longest is cut. An address whose peers fail too often is not served for a
while.
"""

from functools import lru_cache
from ipaddress import IPv6Address, ip_address
from typing import Final, Generic, NamedTuple, Protocol, TypeVar

from gandy.limits import MAX_COUNTED_SOURCES, MAX_FAILURES
from gandy.moments import Monotonic

# Failures that are forgiven in a second. A handshake costs a foreman a millisecond: half a percent of a core.
FORGIVEN: Final = 5.0

# Bits of an IPv6 address that one site cannot choose.
IPV6_PREFIX: Final = 64


class Abortable(Protocol):
    """A link."""

    def abort(self) -> None: ...


S = TypeVar("S", bound=Abortable)


class _Entry(NamedTuple):
    source: str
    since: Monotonic


class UnknownPeers(Generic[S]):
    """The links of such peers. One that is cut is forgotten at once: in a flood, many connect before it is gone."""

    def __init__(self, most: int, seconds: float) -> None:
        self.most = most
        self.most_each = max(1, most // 2)  # from one address, so that there is room for other addresses
        self._seconds = seconds
        self._entries: dict[S, _Entry] = {}  # the oldest first
        self._sources: dict[str, dict[S, None]] = {}

    def __contains__(self, link: S) -> bool:
        return link in self._entries

    def __len__(self) -> int:
        return len(self._entries)

    def enter(self, link: S, source: str, now: Monotonic) -> None:
        self._entries[link] = _Entry(source, now)
        same = self._sources.setdefault(source, {})
        same[link] = None
        if len(same) > self.most_each:
            self._cut(next(iter(same)))
        elif len(self._entries) > self.most:
            self._cut(next(iter(self._entries)))

    def leave(self, link: S) -> None:
        """The peer is known now, or gone."""
        entry = self._entries.pop(link, None)
        if entry is None:
            return
        same = self._sources[entry.source]
        del same[link]
        if not same:
            del self._sources[entry.source]

    def expire(self, now: Monotonic) -> None:
        """Cut those that have been here for too long."""
        while self._entries:
            first, entry = next(iter(self._entries.items()))
            if now < entry.since + self._seconds:
                return
            self._cut(first)

    def _cut(self, link: S) -> None:
        self.leave(link)
        link.abort()


class _Score(NamedTuple):
    failures: float
    at: Monotonic


class Failures:
    """Failed connections, counted for each address."""

    def __init__(self) -> None:
        self._scores: dict[str, _Score] = {}  # the one that failed longest ago first

    def note(self, source: str, now: Monotonic) -> bool:
        """Count a failure. True if it is the first one too many."""
        before = self._count(source, now)
        self._scores.pop(source, None)
        if len(self._scores) >= MAX_COUNTED_SOURCES:
            del self._scores[next(iter(self._scores))]
        # It does not grow any further, so that an address is served again soon after it has stopped.
        self._scores[source] = _Score(min(before + 1.0, MAX_FAILURES), now)
        return before < MAX_FAILURES <= before + 1.0

    def may_connect(self, source: str, now: Monotonic) -> bool:
        return self._count(source, now) <= MAX_FAILURES - 1.0

    def _count(self, source: str, now: Monotonic) -> float:
        found = self._scores.get(source)
        return 0.0 if found is None else max(0.0, found.failures - FORGIVEN * (now - found.at))


@lru_cache(1024)  # peers that come back are mostly the same
def find_source(host: str) -> str:
    """What an address is counted as: itself, or, of IPv6, the network that one site has."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    bits = 128 - IPV6_PREFIX
    return f"{IPv6Address(int(address) >> bits << bits)}/{IPV6_PREFIX}"
