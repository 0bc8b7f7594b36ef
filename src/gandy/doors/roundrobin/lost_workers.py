"""Remembers workers that left the round-robin door without deregistering. A message from one registers it again."""

from collections import OrderedDict
from typing import Final

from gandy.doors.roundrobin.limits import MAX_LOST_WORKERS
from gandy.moments import Monotonic

REMEMBER: Final = 600.0  # seconds


class LostWorkers:
    """Routing ids of lost workers with their slots, oldest first."""

    def __init__(self) -> None:
        self._lost: OrderedDict[bytes, tuple[int, Monotonic]] = OrderedDict()  # slots, and when it was lost

    def __len__(self) -> int:
        return len(self._lost)

    def __contains__(self, routing_id: bytes) -> bool:
        return routing_id in self._lost

    def list_slots(self) -> dict[bytes, int]:
        return {routing_id: slots for routing_id, (slots, _) in self._lost.items()}

    def add(self, routing_id: bytes, slots: int, now: Monotonic) -> None:
        self._lost[routing_id] = (slots, now)
        if len(self._lost) > MAX_LOST_WORKERS:
            self._lost.popitem(last=False)

    def find_slots(self, routing_id: bytes) -> int | None:
        return self._lost[routing_id][0] if routing_id in self._lost else None

    def discard(self, routing_id: bytes) -> None:
        self._lost.pop(routing_id, None)

    def expire(self, now: Monotonic) -> None:
        for routing_id in [key for key, (_, since) in self._lost.items() if now - since >= REMEMBER]:
            del self._lost[routing_id]
