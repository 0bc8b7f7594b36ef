"""The table of shell tasks and function tasks that run on a worker. Starts and ends none of them."""

import asyncio
from collections.abc import Callable

from gandy.core.model import AttemptKey
from gandy.worker.running_task import RunningTask


class RunningTasks(dict[AttemptKey, RunningTask]):
    """In the order in which they were started."""

    def __init__(self) -> None:
        super().__init__()
        self.on_start: Callable[[RunningTask], None] = lambda _task: None  # called for each task that is added
        self._idle = asyncio.Event()

    def add(self, task: RunningTask) -> None:
        self._idle.clear()
        self[task.attempt] = task
        self.on_start(task)

    def remove(self, task: RunningTask) -> None:
        del self[task.attempt]
        if not self:
            self._idle.set()

    async def wait_idle(self) -> None:
        """Wait until nothing runs."""
        while self:  # the end of one task may have started the next
            await self._idle.wait()
