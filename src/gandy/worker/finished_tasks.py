"""Shell tasks that are over, from the exit of the last process until their endings are in the journal.

Endings are reported in batches, which costs less than one by one. Until they are in the journal, each has a row in the
group table: if the worker is killed, `recovery` finds the ending there.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from gandy.core.model import AttemptKey, Ending
from gandy.worker.output import NOTHING, OutputFolder, add_output
from gandy.worker.running_task import RunningTask
from gandy.worker.table import GroupTable


class FinishedTasks:
    """The finished shell tasks of one worker. Runs on the current loop."""

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
            if unreported:  # `_on_end` raised; the other endings must still be reported
                self._loop.call_soon(self.report)

    def complete(self, task: RunningTask) -> Ending:
        """Keep the task's output, and return the ending with what became of it."""
        assert task.ending is not None
        kept = NOTHING if task.is_silent else self._outputs.finish(task.files, task.attempt, task.order.identity)
        return task.ending if kept == NOTHING else add_output(task.ending, kept)

    def forget_reported(self) -> None:
        """Free the rows of reported endings, which are in the journal now."""
        for task in self._reported:
            self._table.remove(task.group.row)
        self._reported.clear()
        self._table.tidy()

    def clear(self) -> None:
        """Drop what is not reported."""
        self._unreported.clear()
