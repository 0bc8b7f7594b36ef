"""Slots of workers that calls and tasks of jobs both want: which worker is asked to leave some to calls, and how long.

Calls that find no slot have tasks leave half of the slots, but never all that a task needs for long: calls and tasks
take turns then.
"""

from collections.abc import Iterable
from typing import Final

from gandy.core.calls import Peer
from gandy.core.waiting import WaitingCalls
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.moments import Monotonic

PATIENCE: Final = 0.02  # seconds that calls wait before tasks of jobs are asked to leave slots to them
TURN: Final = 1.0  # seconds that calls or tasks may keep the only slot of a worker while the other kind waits for it
LAST_COUNT: Final = 0xFFFF_FFFF


class Sharing:
    """Knows which workers were asked to leave slots to calls."""

    def __init__(self, waiting: WaitingCalls) -> None:
        self.asked: set[Peer] = set()
        self._waiting = waiting

    def decide(self, workers: Iterable[Peer], now: Monotonic) -> list[Peer]:
        """The workers whose request changed, and must be sent to them."""
        wanted = self._find_wanted(workers)
        changed = []
        for peer in list(self.asked):
            request = peer.slots.request
            has_turn = peer.slots.yielded >= request.slots and not _leaves_enough(peer, request.slots)
            if (has_turn and now - request.since >= TURN) or peer not in wanted:
                changed.append(self._ask(peer, 0, now))
        for peer, slots in wanted.items():
            count = max(1, _count_there(peer) // 2, slots - peer.slots.reserved)
            request = peer.slots.request
            if count > request.slots and (_leaves_enough(peer, count) or now - request.since >= TURN):
                changed.append(self._ask(peer, count, now))
        return changed

    def on_yielded(self, peer: Peer, asked_count: int, slots: int, now: Monotonic) -> bool:
        """Tasks have left so many slots. True if that answers the last request. Raises: RemoteProtocolError."""
        account, request = peer.slots, peer.slots.request
        if slots > max(account.most, account.shared):
            raise RemoteProtocolError("more slots are left to calls than there are", ErrorCode.BAD_PAYLOAD)
        if asked_count != request.count:
            return False
        if account.yielded < request.slots <= slots:
            request.since = now  # the turn of calls begins: a task may have taken long to leave
        account.yielded = min(slots, account.shared)  # it may have fewer since it was asked
        return True

    def on_cut(self, peer: Peer) -> None:
        self.asked.discard(peer)

    def _find_wanted(self, workers: Iterable[Peer]) -> dict[Peer, int]:
        """Workers whose slots are held by jobs while calls wait for them, with the slots that such a call needs."""
        wanted: dict[Peer, int] = {}
        for command in self._waiting.commands.values():
            for peer, slots in command.offers.items():
                if _holds_jobs(peer):
                    wanted[peer] = max(slots, wanted.get(peer, 0))
        for peer in workers:
            if peer.direct and _holds_jobs(peer):
                slots = peer.offers[next(iter(peer.direct.values())).command.name]
                wanted[peer] = max(slots, wanted.get(peer, 0))
        return wanted

    def _ask(self, peer: Peer, slots: int, now: Monotonic) -> Peer:
        request = peer.slots.request
        request.slots, request.since = slots, now
        if slots:
            self.asked.add(peer)
        else:
            self.asked.discard(peer)
            peer.slots.yielded = 0
        request.count = (request.count + 1) & LAST_COUNT
        return peer


def _holds_jobs(peer: Peer) -> bool:
    """True if tasks may have slots that calls wait for: also tasks of other shards, which use slots of ours."""
    if _is_shared(peer) and peer.slots.shared < peer.slots.most:
        return True
    return peer.slots.by_tasks > 0 and peer.slots.shared > 0


def _is_shared(peer: Peer) -> bool:
    return peer.worker is not None and peer.worker.info.shares_slots


def _count_there(peer: Peer) -> int:
    """The slots that tasks of all shards may have."""
    return peer.slots.most if _is_shared(peer) else peer.slots.shared


def _leaves_enough(peer: Peer, count: int) -> bool:
    """True if every task that the worker holds can run while calls have so many of the shared slots."""
    held = () if peer.worker is None else peer.worker.held.values()
    largest = max((each.slots for each in held), default=1)
    return largest <= _count_there(peer) - count
