"""Commands and the workers that offer them: whose turn it is among those with a free slot. It sends nothing."""

from heapq import heappop, heappush, heapreplace
from operator import itemgetter

from gandy.core.calls import OfferedCommand, Peer
from gandy.core.ring import SPAN, Ring
from gandy.moments import Monotonic


class Offers:
    """Every worker that offers a command is in its heap, or has it in `missing` for lack of a free slot."""

    def __init__(self) -> None:
        self.commands: dict[bytes, OfferedCommand] = {}
        self.workers: dict[str, Peer] = {}
        self._ring = Ring()

    def next_turn(self, peer: Peer) -> int:
        """The next turn of a worker, as a number: the lowest one is next."""
        return self._ring.next_turn(peer)

    def find_worker(self, command: OfferedCommand) -> Peer | None:
        """The next worker in turn with a free slot. It goes to the end of the line."""
        heap, ring = command.heap, self._ring
        while heap:
            turn, number, peer = heap[0]
            slots = command.offers.get(peer)
            if slots is None:
                heappop(heap)
                command.stale.discard(peer)
            elif peer.count_free() < slots:
                heappop(heap)
                peer.missing.add(command)
            elif turn <= ring.at:  # it was used for another command, or passed over
                heapreplace(heap, (ring.next_turn(peer), number, peer))
            else:
                ring.at = turn
                heapreplace(heap, (turn + SPAN, number, peer))
                return peer
        return None

    def find_timely(self, command: OfferedCommand) -> Peer | None:
        """The next worker in turn that knows the time, with a free slot if any of these has one."""
        able = [
            (peer.count_free() < slots, self._ring.next_turn(peer), peer)
            for peer, slots in command.offers.items()
            if peer.knows_time
        ]
        if not able:
            return None
        _, self._ring.at, peer = min(able, key=itemgetter(0, 1))
        return peer

    def use(self, peer: Peer) -> None:
        """Note that it was this worker's turn."""
        self._ring.at = self._ring.next_turn(peer)

    def line_up(self, peer: Peer) -> None:
        """Put a worker that may have free slots again into the heaps of its commands."""
        for command in peer.missing:
            heappush(command.heap, (self._ring.next_turn(peer), peer.number, peer))
        peer.missing.clear()

    def list_names(self, worker: str) -> list[str]:
        """The commands that a worker offers."""
        peer = self.workers.get(worker)
        return [] if peer is None else sorted(name.decode(errors="replace") for name in peer.offers)

    def add_worker(self, peer: Peer) -> None:
        self.workers[peer.id] = peer
        if self._ring.add(peer):
            for command in self.commands.values():
                command.heap = sorted((self._ring.next_turn(peer), peer.number, peer) for _, _, peer in command.heap)

    def remove_worker(self, peer: Peer) -> bool:
        """Remove a worker that offers nothing now. False if it is not a worker, or the worker has a newer link."""
        if self.workers.get(peer.id) is not peer:
            return False
        del self.workers[peer.id]
        self._ring.remove(peer)
        return True

    def add(self, peer: Peer, name: bytes, slots: int, now: Monotonic) -> None:
        """Add a command of a worker, or change how many slots a call of it takes. `line_up` follows."""
        command = self.commands.get(name)
        if command is None:
            command = self.commands[name] = OfferedCommand(name, now)
        is_new = peer not in command.offers
        command.offers[peer] = slots
        if peer in command.stale:
            command.stale.discard(peer)
        elif is_new:
            peer.missing.add(command)

    def withdraw(self, peer: Peer, command: OfferedCommand, now: Monotonic) -> None:
        del command.offers[peer]
        if command in peer.missing:
            peer.missing.discard(command)
        else:
            command.stale.add(peer)  # thousands may leave at the same moment
            if len(command.stale) > len(command.heap) // 2:
                command.heap = sorted(entry for entry in command.heap if entry[2] not in command.stale)
                command.stale.clear()
        if not command.offers:
            command.gone_since = now

    def check(self) -> None:
        """What must hold after every step; for tests."""
        for command in self.commands.values():
            places, stale, offers = [peer for _, _, peer in command.heap], command.stale, command.offers
            if stale:
                assert stale.issubset(places)
                assert stale.isdisjoint(offers)
                places = [peer for peer in places if peer not in stale]
            places += [peer for peer in offers if command in peer.missing]
            assert len(places) == len(offers), "each worker has one place"
            assert offers.keys() == set(places)
