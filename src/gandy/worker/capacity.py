"""Tells a foreman how many slots its tasks may use on this worker: it may be short of something, or busy for others."""

import asyncio
from collections.abc import Callable
from typing import Final

from gandy.clocks import read_monotonic
from gandy.core.extensions import Capacity
from gandy.moments import LONG_AGO
from gandy.worker.shard_queue import ShardQueue

BRIEF: Final = 0.1  # seconds between two messages to a foreman whose tasks wait here and have fewer slots now
DAMPING: Final = 0.5  # seconds for which a change that no task waits for is kept back: most are over by then
IDLE_DAMPING: Final = 2.0  # seconds; the same for a foreman that has nothing here, which asks as soon as it has


class CapacityReporter:
    """One per conversation, on the current loop."""

    def __init__(
        self,
        queue: ShardQueue,
        find: Callable[[], Capacity],
        send: Callable[[Capacity], None],
        has_calls: Callable[[], bool],
    ) -> None:
        """`find` returns what the foreman should know now. `send` is called while there is a link that takes it.

        `has_calls`: True if calls wait for slots that tasks leave to them.
        """
        self._queue = queue
        self._has_calls = has_calls
        self._find = find
        self._send = send
        self._told: Capacity | None = None  # None: there is no such link
        self._told_at = LONG_AGO
        self._timer: asyncio.TimerHandle | None = None

    def on_welcome(self, told: Capacity) -> None:
        """A new link is up, over which HELLO has told this."""
        self._told = told
        self.look_now()

    def on_cut(self) -> None:
        self._told = None
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def look(self) -> None:
        """Slots were shared anew. Tell the foreman at once if its tasks wait for slots, else later."""
        if self._told is None or (capacity := self._find()) == self._told:
            return
        waits = bool(self._queue.want.slots or self._queue.waiting) or self._has_calls()
        is_more = capacity.slots > self._told.slots
        if waits and (is_more or read_monotonic() - self._told_at >= BRIEF):
            self._tell(capacity)
        elif self._timer is None:
            pause = BRIEF if waits else IDLE_DAMPING if self._queue.is_idle else DAMPING
            self._timer = asyncio.get_running_loop().call_later(pause, self.look_now)

    def look_now(self) -> None:
        """Tell the foreman at once if anything has changed."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._told is not None and (capacity := self._find()) != self._told:
            self._tell(capacity)

    def _tell(self, capacity: Capacity) -> None:
        self._told, self._told_at = capacity, read_monotonic()
        self._send(capacity)
