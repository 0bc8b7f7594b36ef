"""Which peers spoke over which connection, and which of them may be gone. Knows no sockets and reads no clock."""

from typing import Final

from gandy.doors.limits import MAX_TRACKED_PEERS
from gandy.moments import Monotonic

# Seconds between the notice of a lost connection and our hint. libzmq writes the notice a moment before the last
# messages of that connection, and a result that came before the end counts: it goes first.
GRACE: Final = 0.02

# Seconds, after which the hint is given though there are still messages to read.
PATIENCE: Final = 1.0


class _LostConnection:
    """A connection that ended, and the peers that may have been at its other end."""

    def __init__(self, since: Monotonic, peers: set[bytes]) -> None:
        self.since = since
        self.peers = peers


class Connections:
    """By file number. Naming too many peers as gone is fine, missing one is not.

    File numbers are used again, and the notices and the messages come by separate ways: when a notice says that 15 is
    gone, messages from it may still be unread, and those from the next 15 be read. So a peer belongs to its number
    until the number was gone, and gone again with other peers.
    """

    def __init__(self) -> None:
        self.numbers: dict[bytes, int] = {}  # of the connection that each peer spoke over last
        self._peers: dict[int, set[bytes]] = {}
        self._before: dict[int, set[bytes]] = {}
        self._lost: dict[int, _LostConnection] = {}

    @property
    def are_settled(self) -> bool:
        return not self._lost

    def note(self, peer: bytes, number: int, now: Monotonic) -> bool:
        """A peer speaks over another connection than before. True if it had one before."""
        before = self.numbers.get(peer)
        if before is None and len(self.numbers) >= MAX_TRACKED_PEERS:
            return False
        self.numbers[peer] = number
        self._peers.setdefault(number, set()).add(peer)
        if number in self._lost:
            self._lost[number].peers.add(peer)
        if before is None:
            return False
        self.lose(before, now)  # libzmq gives no notice where a new connection took the place of the old one
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
            for peer in lost.peers:  # if it is heard again, it is to be noted again
                self.numbers.pop(peer, None)
            lost.peers = set()
        return peers
