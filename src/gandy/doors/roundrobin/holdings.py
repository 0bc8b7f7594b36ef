"""What one round-robin worker has: calls that it was given, and what it has said about each of them so far."""

from collections import deque
from itertools import takewhile
from math import inf
from typing import Final

from gandy.core.calls import Peer
from gandy.core.workers import Worker
from gandy.doors.flow import Flow
from gandy.doors.roundrobin.streams import StreamReader

MAX_TOLD: Final = 100  # words about streams whose answers are expected, and change nothing

Key = tuple[tuple[bytes, ...], bytes]  # whom a response goes to, and its id


class InStream:
    """A stream of such a worker for one of gandy's own callers."""

    def __init__(self, host: bytes, is_wanted_whole: bool) -> None:
        self.reader = StreamReader()
        self.host = host
        self.whole = bytearray() if is_wanted_whole else None
        self.asked = b""  # the id of the question for the next packet
        self.renewed = 0.0


class Registered:
    """A worker, and what it has."""

    def __init__(self, routing_id: bytes, peer: Peer, account: Worker, now: float) -> None:
        self.id = routing_id
        self.peer = peer
        self.account = account
        self.slots = 0  # as it said
        self.ready_at = -inf  # when it can be given calls
        self.is_leaving = False  # it deregistered, or was told to go
        self.past_until = -inf  # until then it may say INCREMENT for what it had before it was lost
        self.heard = now
        self.asked = now
        self.asked_since = inf  # the first question since it was heard
        self.answers_pings = False
        self.told: deque[bytes] = deque(maxlen=MAX_TOLD)
        self.touched: dict[int, float] = {}  # calls that it has, and when it was told or said something about each
        self.unanswered: dict[int, Key] = {}  # calls with a response to come
        self.numbers: dict[Key, deque[int]] = {}  # the same, by key: nobody keeps a client from using an id twice
        self.casts: deque[int] = deque()
        self.answered: deque[int] = deque()  # calls whose INCREMENT is to come
        self.released: set[int] = set()  # unanswered calls whose INCREMENT has come
        self.incremented_at = now  # the last time
        self.bodies: dict[int, bytearray] = {}  # arguments that are not complete
        self.flows: dict[int, Flow] = {}  # values that their callers have not read yet
        self.returned: set[int] = set()  # answered calls whose INCREMENT has come, and whose caller has not all
        self.streams: dict[int, InStream] = {}

    def list_begun(self) -> set[int]:
        """Calls that it was told of. One whose arguments are not complete is still here."""
        return {*self.unanswered, *self.casts, *self.answered, *self.returned}

    @property
    def free(self) -> int:
        """Slots that it can take calls in now, or as soon as it is ready."""
        return self.peer.count_free() if self.ready_at == -inf else self.slots

    @property
    def is_idle(self) -> bool:
        """Whether it has said INCREMENT for everything that it was given.

        An INCREMENT does not say for which call it is. As long as one is to come, it is not known which call runs.
        """
        return len(self.unanswered) == len(self.released) and not self.answered and not self.casts

    def begin(self, number: int, key: Key, is_cast: bool, now: float) -> None:
        self.touched[number] = now
        if is_cast:
            self.casts.append(number)
        else:
            self.unanswered[number] = key
            self.numbers.setdefault(key, deque()).append(number)

    def answer(self, key: Key) -> int | None:
        """The call that a response is for; the first one that was given, if there are several."""
        numbers = self.numbers.get(key)
        if not numbers:
            return None
        number = numbers[0]
        if number in self.released:
            self.returned.add(number)
        else:
            self.answered.append(number)
        self.forget(number)
        return number

    def touch(self, number: int, now: float) -> None:
        """It said something about this call, which is the last one to be given up now."""
        del self.touched[number]
        self.touched[number] = now

    def list_untouched(self, since: float) -> list[int]:
        """Calls that it has said nothing about since then."""
        return [number for number, _ in takewhile(lambda item: item[1] <= since, self.touched.items())]

    def drop(self, number: int) -> None:
        """Expect nothing more about this call."""
        if number in self.unanswered:
            self.forget(number)
        elif number in self.casts:
            self.casts.remove(number)
        elif number in self.answered:
            self.answered.remove(number)

    def forget(self, number: int) -> None:
        """No response to this one is expected any more."""
        self.released.discard(number)
        key = self.unanswered.pop(number)
        numbers = self.numbers[key]
        numbers.remove(number)
        if not numbers:
            del self.numbers[key]
