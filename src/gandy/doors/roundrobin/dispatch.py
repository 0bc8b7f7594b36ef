"""Requests that a round-robin server dispatched to this worker: those that wait for a slot, and those that run."""

from collections import deque
from itertools import count

from gandy.doors.roundrobin.codes import Entry
from gandy.doors.roundrobin.wire import TRACKEXEC, QueueMessage
from gandy.worker.commands import Command


class Dispatch:
    """One request, which waits for slots, runs, and is answered."""

    __slots__ = ("command", "entry", "message", "number", "pieces", "slots", "ticket")

    def __init__(self, ticket: int, message: QueueMessage, entry: Entry, command: Command, slots: int) -> None:
        self.ticket = ticket
        self.message = message
        self.entry = entry
        self.command = command
        self.slots = slots
        self.number = 0  # of the call, while it runs
        self.pieces: list[bytes] = []  # of a value that is not complete

    @property
    def is_cast(self) -> bool:
        return self.message.command != TRACKEXEC


class Dispatches:
    """All dispatches of this worker. None waits if the server counts slots correctly."""

    def __init__(self, slots: int) -> None:
        self._slots = slots
        self._in_use = 0
        self._waiting: deque[Dispatch] = deque()
        self._running: dict[int, Dispatch] = {}  # by the numbers of their calls
        self._numbers = count(1)

    def __len__(self) -> int:
        return len(self._running) + len(self._waiting)

    @property
    def has_waiting(self) -> bool:
        return bool(self._waiting)

    def find(self, number: int) -> Dispatch | None:
        return self._running.get(number)

    def add(self, dispatch: Dispatch) -> None:
        self._waiting.append(dispatch)

    def start_next(self) -> Dispatch | None:
        """Take slots and a number for the next dispatch; None if none waits, or there are too few slots."""
        if not self._waiting or self._in_use + self._waiting[0].slots > self._slots:
            return None
        dispatch = self._waiting.popleft()
        dispatch.number = next(self._numbers) & 0xFFFF_FFFF
        self._in_use += dispatch.slots
        self._running[dispatch.number] = dispatch
        return dispatch

    def end(self, dispatch: Dispatch) -> None:
        if self._running.pop(dispatch.number, None) is not None:
            self._in_use -= dispatch.slots

    def take_all(self) -> list[Dispatch]:
        """All dispatches. None waits afterwards; the caller must end those that run."""
        dispatches = [*self._running.values(), *self._waiting]
        self._waiting.clear()
        return dispatches
