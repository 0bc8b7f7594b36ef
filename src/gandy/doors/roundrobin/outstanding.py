"""The calls that one round-robin worker has: which of them need a response, an INCREMENT, or both.

A slot is taken until an INCREMENT returns it, even if the caller has its response already, and an INCREMENT does not
say which call it is for (roundrobin.md, rule 5). Knows neither messages nor values.
"""

from collections import deque
from itertools import takewhile

from gandy.moments import LONG_AGO, Monotonic

Key = tuple[tuple[bytes, ...], bytes]  # where a response goes, and its id


class OutstandingCalls:
    """The calls of one worker, by their numbers at the switchboard."""

    def __init__(self, now: Monotonic) -> None:
        self.unanswered: dict[int, Key] = {}  # the response is to come
        self.casts: deque[int] = deque()  # only the INCREMENT is to come
        self.answered: deque[int] = deque()  # the INCREMENT is to come
        self.released: set[int] = set()  # unanswered, and an INCREMENT has come
        self.returned: set[int] = set()  # the INCREMENT has come, and the caller has not read everything
        self.uncertain_until = LONG_AGO  # until then, an INCREMENT may be for a call that we have dropped
        self._incremented_at = now
        self._by_key: dict[Key, deque[int]] = {}  # unanswered calls: a client may use an id twice
        self._touched: dict[int, Monotonic] = {}  # when a message about the call last went or came, oldest first

    def list_begun(self) -> set[int]:
        """Calls that were sent to the worker."""
        return {*self.unanswered, *self.casts, *self.answered, *self.returned}

    def begin(self, number: int, key: Key, is_cast: bool, now: Monotonic) -> None:
        self._touched[number] = now
        if is_cast:
            self.casts.append(number)
        else:
            self.unanswered[number] = key
            self._by_key.setdefault(key, deque()).append(number)

    def take_answered(self, key: Key) -> int | None:
        """A response came. Returns the call that it answers: the oldest one with this key."""
        numbers = self._by_key.get(key)
        if not numbers:
            return None
        number = numbers[0]
        if number in self.released:
            self.returned.add(number)
        else:
            self.answered.append(number)
        self.forget_response(number)
        return number

    def take_incremented(self, now: Monotonic) -> int | None:
        """An INCREMENT came. Returns the call that it ends: an answered one, or else a cast, or else None."""
        self._incremented_at = now
        if self.answered:
            return self.answered.popleft()
        return self.casts.popleft() if self.casts else None

    def release_oldest(self) -> int | None:
        """An INCREMENT came before the response: count it for the oldest call. It may be for another one."""
        oldest = next((number for number in self.unanswered if number not in self.released), None)
        if oldest is not None:
            self.released.add(oldest)
        return oldest

    def list_given_up(self, now: Monotonic, pause: float) -> list[int]:
        """Calls whose slots came back so long ago that no response will come.

        While any other INCREMENT is to come, it is not known which of the calls have ended.
        """
        is_idle = len(self.unanswered) == len(self.released) and not self.answered and not self.casts
        is_over = is_idle and now >= self.uncertain_until and now - self._incremented_at >= pause
        return list(self.released) if is_over else []

    def touch(self, number: int, now: Monotonic) -> None:
        """A message about this call went to the worker or came from it."""
        del self._touched[number]
        self._touched[number] = now

    def list_untouched(self, since: Monotonic) -> list[int]:
        return [number for number, _ in takewhile(lambda item: item[1] <= since, self._touched.items())]

    def drop(self, number: int) -> None:
        """Expect nothing more about this call."""
        if number in self.unanswered:
            self.forget_response(number)
        elif number in self.casts:
            self.casts.remove(number)
        elif number in self.answered:
            self.answered.remove(number)

    def end(self, number: int) -> None:
        """Forget a call, whose slot is free."""
        self.returned.discard(number)
        self._touched.pop(number, None)

    def forget_response(self, number: int) -> None:
        """Expect no response to this call any more."""
        self.released.discard(number)
        key = self.unanswered.pop(number)
        numbers = self._by_key[key]
        numbers.remove(number)
        if not numbers:
            del self._by_key[key]
