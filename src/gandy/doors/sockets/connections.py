"""Tracks which peers sent over which connection, and which of them may be gone. Uses no sockets and reads no clock."""

from typing import Final

from gandy.doors.limits import MAX_TRACKED_PEERS
from gandy.moments import Monotonic

# Seconds from libzmq's notice of a lost connection until we report its peers. libzmq sends the notice a moment before
# the last messages of that connection, which must be read first: a result among them counts.
GRACE: Final = 0.02

# Seconds until we report them even if there are still messages to read.
PATIENCE: Final = 1.0


class _LostConnection:
    """A connection that ended, and the peers that may have been at its other end."""

    def __init__(self, since: Monotonic, peers: set[bytes]) -> None:
        self.since = since
        self.peers = peers


class Connections:
    """The peers of each connection, by file number. Reporting too many peers as gone is fine, missing one is not.

    File numbers are used again, and notices and messages come over separate sockets: when a notice says that 15 is
    gone, messages of that connection may still be unread, and messages of the next 15 may have been read. So a peer
    belongs to its number until that was lost, and lost once more with other peers.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}  # of each peer's last connection
        self._peers: dict[int, set[bytes]] = {}
        self._before: dict[int, set[bytes]] = {}
        self._lost: dict[int, _LostConnection] = {}

    @property
    def are_settled(self) -> bool:
        return not self._lost

    def note(self, peer: bytes, number: int, now: Monotonic) -> bool:
        """A peer sent a message over a new connection. True if it had another one before."""
        before = self.numbers.get(peer)
        if before is None and len(self.numbers) >= MAX_TRACKED_PEERS:
            return False
        self.numbers[peer] = number
        self._peers.setdefault(number, set()).add(peer)
        if number in self._lost:
            self._lost[number].peers.add(peer)
        if before is None:
            return False
        self.lose(before, now)  # libzmq sends no notice if a new connection replaced the old one
        return True

    def lose(self, number: int, now: Monotonic) -> None:
        """A connection is gone."""
        peers = self._peers.pop(number, set())
        for peer in peers:
            if self.numbers.get(peer) == number:
                del self.numbers[peer]
        lost = self._lost.setdefault(number, _LostConnection(now, set()))
        lost.peers |= peers | self._before.get(number, set())
        if peers:
            self._before[number] = peers

    def settle(self, now: Monotonic, *, is_drained: bool) -> set[bytes]:
        """The peers of lost connections, when all their messages were read, or after PATIENCE."""
        peers: set[bytes] = set()
        for number, lost in list(self._lost.items()):
            age = now - lost.since
            if age < GRACE or not (is_drained or age >= PATIENCE):
                continue
            peers |= lost.peers
            if is_drained:
                del self._lost[number]
                continue
            for peer in lost.peers:  # `note` must be called again for the next message of each
                self.numbers.pop(peer, None)
            lost.peers = set()
        return peers
