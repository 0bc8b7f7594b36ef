"""Members of an ensemble in this process, at home in a namespace, and what tests watch of them."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from queue import Empty, Queue
from typing import Any, Final, NamedTuple

from tests.netns.namespaces import Namespace
from tests.netns.programs import SOON

from gandy.bus import Ensemble, Message
from gandy.bus.core.effects import News
from gandy.bus.ensemble import Bus

APP: Final = "test"
EXACT: Final = 20e-6  # seconds; two clocks that are read within so little were read at once


class Arrival(NamedTuple):
    """A message, and when it came."""

    message: Message
    monotonic: float


class Member(Ensemble):
    """One that remembers what happened."""

    def __init__(self, **options: Any) -> None:
        self.heard: Queue[News] = Queue()
        self.arrivals: Queue[Arrival] = Queue()
        super().__init__(APP, **options)
        self.on_news(self.heard.put)

    def offer(self, name: str) -> None:
        """A service that keeps all that it gets."""
        self.service(name).add(lambda message: self.arrivals.put(Arrival(message, time.monotonic())))

    def expect_news(self, expected: News) -> None:
        """Whatever came before it is forgotten."""
        missed: list[News] = []
        deadline = time.monotonic() + SOON
        while not missed or missed[-1] != expected:
            try:
                missed.append(self.heard.get(timeout=max(0.0, deadline - time.monotonic())))
            except Empty:
                raise AssertionError(f"no {expected} in {missed}") from None

    def expect_message(self, timeout: float = SOON) -> Arrival:
        return self.arrivals.get(timeout=timeout)

    def measure(self, offset: float) -> tuple[float, float]:
        """The true error, if shared time is `offset` more than monotonic time, and what we say that it is at most."""
        monotonic, shared, bound = take_sample(self)
        return shared - offset - monotonic, bound


class Sample(NamedTuple):
    """What a member says of the time at one moment, and how wrong it says that it may be."""

    monotonic: float
    shared: float
    bound: float


def take_sample(member: Bus) -> Sample:
    """Samples taken while another program had the processor do not count."""
    while True:
        bound = member.clock_error()
        before = time.monotonic()
        shared = member.now()
        after = time.monotonic()
        bound = max(bound, member.clock_error())  # a reply may have come between
        if after - before < EXACT:
            return Sample((before + after) / 2, shared, bound + (after - before) / 2)


@contextmanager
def join(namespace: Namespace, **options: Any) -> Iterator[Member]:
    with namespace.inside():
        member = Member(**{"ip": namespace.ip, "insecure": True, **options})
    with member:
        yield member
