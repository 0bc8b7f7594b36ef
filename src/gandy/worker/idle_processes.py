"""Idle slot processes: chooses the one for the next task, and ends those that are unused for too long."""

import asyncio
from typing import Final

from gandy.clocks import read_monotonic
from gandy.moments import Monotonic
from gandy.worker.slot_process import SlotProcess

IDLE_SECONDS: Final = 300.0  # for which an unused process is kept: users think between two runs


class IdleProcesses:
    """One per worker. A single timer serves all processes."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._since: dict[SlotProcess, Monotonic] = {}  # idle since when; the process used last is at the end
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
        """Take the process that was used last, whose memory is warmest, of those that have run no other code.

        Modules that a process has imported for other code may have changed.
        """
        for process in reversed(self._since):
            if process.code is None or (process.code == code and not fresh):
                del self._since[process]
                return process
        return None

    def retire_outdated(self, code: str) -> None:
        """End one process that has run other code, in exchange for a new one, so that their number does not grow."""
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
