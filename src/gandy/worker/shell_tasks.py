"""Shell tasks, from the start of their first process to its exit. Counts no slots, and reports no endings."""

from collections.abc import Callable
from contextlib import suppress
from functools import partial

from gandy.core.model import Cause
from gandy.worker.endings import Endings
from gandy.worker.logs import open_log
from gandy.worker.process_groups import ProcessGroups
from gandy.worker.running_task import RunningTask
from gandy.worker.spawn import NotStartedError, Spawner
from gandy.worker.table import Row
from gandy.worker.worker_folder import WorkerFolder


class ShellTasks:
    """One per worker. `on_gone` is called when all processes of a task are dead."""

    def __init__(
        self,
        folder: WorkerFolder,
        groups: ProcessGroups,
        spawner: Spawner,
        endings: Endings,
        on_gone: Callable[[RunningTask], None],
    ) -> None:
        self._outputs = folder.outputs
        self._table = folder.table
        self._groups = groups
        self._spawner = spawner
        self._endings = endings
        self._on_gone = on_gone

    def begin(self, task: RunningTask) -> None:
        """Start a task. Raises: NotStartedError, ShortageError."""
        self._groups.prepare()
        order = task.order
        files = open_log(order.log_folder, order.job_name, order.attempt.task) if order.log_folder else None
        task.is_silent = files is not None  # there is no output for us to keep
        files = files or self._outputs.take()
        task.note_begin()
        try:
            group = self._spawner.spawn(order, files)
            on_exit, on_gone = partial(self._on_exit, task), partial(self._on_gone, task)
            task.group = self._groups.adopt(group, on_exit, on_gone, task.attempt)
            task.group.keeps_row = True  # until its ending is safe elsewhere: `forget_reported`
        except NotStartedError:
            self._outputs.drop(files)
            raise
        task.files = files

    def _on_exit(self, task: RunningTask) -> None:
        if task.timeout is not None:
            task.cancel_timeout()
        ending = self._endings.find_exit(task)
        if ending is None:
            task.cause = Cause.WORKER_LOST
            return
        task.ending, task.cause = ending, ending.cause
        # Before anything else: if the worker is killed from now on, the ending counts.
        with suppress(OSError):  # a full disk
            row = Row(0, task.attempt, task.files.stem, task.order.identity, ending, task.order.shard)
            self._table.end(task.group.row, row)
