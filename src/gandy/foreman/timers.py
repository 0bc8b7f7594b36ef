"""The timers of jobs: pauses that end, peers that stay silent, keys that expire, values that are too old."""

import asyncio
from contextlib import suppress
from typing import Final

from gandy.clocks import read_monotonic, read_wall
from gandy.core.foreman import Foreman
from gandy.core.recall import SOON
from gandy.core.records import ResultsDropped
from gandy.errors import StoreError
from gandy.foreman.arguments import ArgumentStore
from gandy.foreman.clock import ForemanClock
from gandy.foreman.committer import Committer
from gandy.foreman.requests import Requests
from gandy.moments import NEVER, Monotonic

DROP_PERIOD: Final = 600.0  # seconds between two looks for values that are too old
LONGEST_SLEEP: Final = 1.0  # seconds between two looks at the clock
SHORTEST_SLEEP: Final = 0.01


class JobTimers:
    """`run` is its loop; `look_soon` is called after each decision."""

    def __init__(self, foreman: Foreman, clock: ForemanClock, committer: Committer, requests: Requests) -> None:
        self._foreman = foreman
        self._clock = clock
        self._committer = committer
        self._requests = requests
        self._look: asyncio.TimerHandle | None = None
        self._looks_at = NEVER

    async def run(self) -> None:
        """Do all that is due, at least once a second."""
        while True:
            deadline = self._foreman.reactor.next_deadline()
            wait = LONGEST_SLEEP if deadline is None else deadline - read_monotonic()
            await asyncio.sleep(min(LONGEST_SLEEP, max(SHORTEST_SLEEP, wait)))
            self._foreman.reactor.on_clock(self._clock.find_shared_ahead())
            self._on_time()
            self._foreman.liveness.cut_expired(read_wall())

    def look_soon(self) -> None:
        """Set a timer for what is due within a second. `run`, which may sleep, does the rest."""
        now = read_monotonic()
        due = max(now + SOON, self._foreman.reactor.next_moment())
        if due < min(self._looks_at, now + LONGEST_SLEEP):
            if self._look is not None:
                self._look.cancel()
            self._look = asyncio.get_running_loop().call_later(due - now, self._look_again)
            self._looks_at = due

    def _look_again(self) -> None:
        self._looks_at = NEVER
        self._on_time()

    def _on_time(self) -> None:
        now: Monotonic = self._clock.now()
        self._foreman.on_time(now)
        self._requests.on_time(now)
        self._committer.wake()


async def drop_old_values(committer: Committer, clock: ForemanClock, arguments: ArgumentStore, seconds: float) -> None:
    """Every ten minutes, drop results and arguments of functions that are older than so many seconds."""
    while True:
        committer.decide([ResultsDropped(clock.find_oldest(seconds))])
        with suppress(StoreError):  # the next time, then
            await arguments.drop(seconds, clock.find_oldest)
        await asyncio.sleep(DROP_PERIOD)
