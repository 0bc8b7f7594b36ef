"""Polls slot processes that have many short tasks: waking the loop for each answer would cost more."""

import asyncio
from collections.abc import Callable
from typing import Final

from gandy.worker.slot_process import SlotProcess

POLL_SECONDS: Final = 0.001  # between two reads of the answers


class AnswerPolling:
    """One per worker. A single timer serves all polled processes."""

    def __init__(self, loop: asyncio.AbstractEventLoop, has_many: Callable[[SlotProcess], bool]) -> None:
        """`has_many`: returns True while a process has many short tasks, and so should be polled."""
        self._loop = loop
        self._has_many = has_many
        self._polled: list[SlotProcess] = []
        self._timer: asyncio.TimerHandle | None = None

    def add(self, process: SlotProcess) -> None:
        process.channel.stop_listening()
        self._polled.append(process)
        self._schedule()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        if self._timer is None:
            self._timer = self._loop.call_later(POLL_SECONDS, self._poll)

    def _poll(self) -> None:
        self._timer = None
        polled, self._polled = self._polled, []
        for process in polled:
            if process.channel.drain() and self._has_many(process):
                self._polled.append(process)
            else:  # without answers it may run a long task: then the loop must notice the end at once
                process.channel.listen()
        if self._polled:
            self._schedule()
