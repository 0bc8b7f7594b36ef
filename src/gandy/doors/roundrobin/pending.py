"""A client's requests that wait for a response, and when each of them expires."""

from heapq import heappop, heappush

from gandy.moments import NEVER, Monotonic


class PendingRequests:
    """By the ids of their messages."""

    def __init__(self) -> None:
        self._ids: dict[bytes, None] = {}  # oldest first
        self._expiries: list[tuple[Monotonic, bytes]] = []  # a heap; may also have requests that are answered

    def __contains__(self, number: bytes) -> bool:
        return number in self._ids

    def next_deadline(self) -> Monotonic:
        return self._expiries[0][0] if self._expiries else NEVER

    def add(self, number: bytes, expires_at: Monotonic) -> None:
        self._ids[number] = None
        heappush(self._expiries, (expires_at, number))

    def take(self, number: bytes) -> bool:
        """True, if it waited. Now it does not."""
        is_pending = number in self._ids
        self._ids.pop(number, None)
        return is_pending

    def take_expired(self, now: Monotonic) -> list[bytes]:
        expired = []
        while self._expiries and self._expiries[0][0] <= now:
            _, number = heappop(self._expiries)
            if self.take(number):
                expired.append(number)
        return expired

    def take_all(self) -> list[bytes]:
        numbers = list(self._ids)
        self._ids.clear()
        self._expiries.clear()
        return numbers
