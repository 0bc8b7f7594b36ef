"""Shell tasks that are over, from the exit of the last process until their endings are safe with the service.

Endings are reported in batches, which costs less than one by one. Until the service says that it has written them down,
each has a row in the group table: should the worker be killed, `recovery` finds it there.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from gandy.core.model import AttemptKey, Ending
from gandy.worker.output import NOTHING, OutputFolder, add_output
from gandy.worker.running_task import RunningTask
from gandy.worker.table import GroupTable


class FinishedTasks:
    """Of one worker, on the current loop."""

    def __init__(self, outputs: OutputFolder, table: GroupTable, on_end: Callable[[AttemptKey, Ending], None]) -> None:
        self._outputs = outputs
        self._table = table
        self._on_end = on_end
        self._loop = asyncio.get_running_loop()
        self._unreported: deque[RunningTask] = deque()
        self._reported: list[RunningTask] = []  # their rows are still in the table
        self.add = self._unreported.append

    def report(self) -> None:
        """Report all endings that have not been reported."""
        unreported = self._unreported
        try:
            while unreported:
                task = unreported.popleft()
                self._reported.append(task)
                self._on_end(task.attempt, self.complete(task))
        finally:
            if unreported:  # one of them raised; the others must be reported all the same
                self._loop.call_soon(self.report)

    def complete(self, task: RunningTask) -> Ending:
        """The ending with what became of the task's output."""
        assert task.ending is not None
        kept = NOTHING if task.is_silent else self._outputs.finish(task.files, task.attempt, task.order.identity)
        return task.ending if kept == NOTHING else add_output(task.ending, kept)

    def forget_reported(self) -> None:
        """The endings that were reported are safe elsewhere."""
        for task in self._reported:
            self._table.remove(task.group.row)
        self._reported.clear()
        self._table.tidy()

    def clear(self) -> None:
        """Nothing is reported any more."""
        self._unreported.clear()
