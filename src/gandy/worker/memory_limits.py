"""Kills tasks that use more memory than their limit."""

import asyncio
from collections.abc import Callable
from itertools import chain
from typing import Final

from gandy.core.model import Cause
from gandy.worker.proc import list_members, read_memory
from gandy.worker.running_task import RunningTask
from gandy.worker.strays import Strays

LOOK_PERIOD: Final = 0.25  # seconds between two looks at the memory of tasks that have a limit


class MemoryLimits:
    """One per worker, on the current loop. A single timer serves all tasks; it runs only while a task has a limit."""

    def __init__(self, kill: Callable[..., bool], strays: Strays) -> None:
        """`kill`: see `Runner.kill`. `strays`: finds processes that have left the group of their task."""
        self._kill = kill
        self._strays = strays
        self._tasks: list[RunningTask] = []
        self._timer: asyncio.TimerHandle | None = None

    def watch(self, task: RunningTask) -> None:
        """Watch a task whose order has a limit, until it ends."""
        self._tasks.append(task)
        if self._timer is None:
            self._schedule()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _schedule(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(LOOK_PERIOD, self._look)

    def _look(self) -> None:
        self._timer = None
        self._tasks = [task for task in self._tasks if task.cause is None]
        if not self._tasks:
            return
        members = list_members()
        everything = chain.from_iterable(members.values())
        labelled = self._strays.find_labelled([task.attempt for task in self._tasks], everything)
        for task in self._tasks:
            used = sum(map(read_memory, labelled[task.attempt].union(members.get(task.group.pgid, ()))))
            limit = task.order.memory or 0
            if used > limit:
                note = f"{used:,} bytes, and {limit:,} is its limit"
                self._kill(task.attempt, Cause.MEMORY, note, immediate=True)
        self._schedule()
