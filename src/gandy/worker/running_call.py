"""One call on this worker, and its credit for what it sends. Runs nothing and sends nothing itself."""

import asyncio
from threading import Condition

from gandy.moments import Shared
from gandy.wire.calls import PICKLED, WINDOW_BYTES
from gandy.worker.commands import Command
from gandy.worker.ensemble_clock import TimedStart


class CallCancelled(Exception):
    """The client cancelled the call, or its link broke: the rest of the result is not wanted."""


class RunningCall:
    """A call from its first frame until its result. `pieces` holds arguments that are not complete yet."""

    __slots__ = (
        "at",
        "command",
        "credit",
        "flags",
        "held",
        "is_cancelled",
        "is_over",
        "number",
        "owed",
        "pieces",
        "room",
        "size",
        "slots",
        "task",
    )

    def __init__(self, number: int, flags: int, command: Command, slots: int) -> None:
        self.number = number
        self.flags = flags
        self.command = command
        self.slots = slots
        self.at: Shared | None = None  # when it begins; None: as soon as it can
        self.held: TimedStart | None = None  # while it waits for that time
        self.is_cancelled = False
        self.is_over = False
        self.credit = WINDOW_BYTES  # bytes of results that the foreman takes now
        self.room: Condition | asyncio.Event | None = None  # to wait for credit: in a thread, or on the loop
        self.task: asyncio.Task[None] | None = None
        self.pieces: list[bytes] = []
        self.size = 0  # bytes of these pieces
        self.owed = 0  # credit for these pieces that has not been granted yet

    @property
    def is_pickled(self) -> bool:
        return bool(self.flags & PICKLED)

    def add_credit(self, count: int) -> None:
        if isinstance(self.room, Condition):
            with self.room:
                self.credit += count
                self.room.notify_all()
        else:
            self.credit += count
            if self.room is not None:
                self.room.set()

    async def spend(self, cost: int) -> None:
        """Wait on the loop until there is credit, and spend some. Raises: CallCancelled."""
        assert isinstance(self.room, asyncio.Event)
        while self.credit <= 0 and not self.is_cancelled:
            self.room.clear()
            await self.room.wait()
        if self.is_cancelled:  # the command swallowed the cancellation and went on
            raise CallCancelled
        self.credit -= cost

    def spend_in_thread(self, cost: int) -> None:
        """Block the thread until there is credit, and spend some. Raises: CallCancelled."""
        assert isinstance(self.room, Condition)
        with self.room:
            while self.credit <= 0 and not self.is_cancelled:
                self.room.wait()
            self.credit -= cost
        if self.is_cancelled:
            raise CallCancelled
