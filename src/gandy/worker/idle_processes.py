"""Slot processes that run nothing: which of them gets the next task, and which have been unused for too long."""

import asyncio
from typing import Final

from gandy.clocks import read_monotonic
from gandy.moments import Monotonic
from gandy.worker.slot_process import SlotProcess

IDLE_SECONDS: Final = 300.0  # that an unused process is kept: users think between two calls


class IdleProcesses:
    """Of one worker. One timer serves all of them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._since: dict[SlotProcess, Monotonic] = {}  # the one used last at the end
        self._timer: asyncio.TimerHandle | None = None

    def __len__(self) -> int:
        return len(self._since)

    def add(self, process: SlotProcess) -> None:
        self._since[process] = read_monotonic()
        if self._timer is None:
            self._timer = self._loop.call_later(IDLE_SECONDS, self._retire_unused)

    def discard(self, process: SlotProcess) -> None:
        self._since.pop(process, None)

    def take(self, fresh: bool, code: str) -> SlotProcess | None:
        """The one used last, whose memory is warmest, of those that have run nothing or only tasks of the same code:
        modules that the others have imported may have changed."""
        for process in reversed(self._since):
            if process.code is None or (process.code == code and not fresh):
                del self._since[process]
                return process
        return None

    def retire_outdated(self, code: str) -> None:
        """A new process takes the place of one that has run other code, so that they do not become more and more."""
        for process in self._since:
            if process.code is not None and process.code != code:
                del self._since[process]
                process.retire()
                return

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._since.clear()

    def _retire_unused(self) -> None:
        self._timer = None
        limit = read_monotonic() - IDLE_SECONDS
        while self._since:
            process, since = next(iter(self._since.items()))
            if since > limit:
                self._timer = self._loop.call_at(float(since) + IDLE_SECONDS, self._retire_unused)
                return
            del self._since[process]
            process.retire()
