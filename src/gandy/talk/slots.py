"""The account of one worker's processors. The worker keeps it, and the foreman keeps a copy of it."""

from collections.abc import Iterable

from gandy.wire.messages import STOP_ALL, Task, TaskPair


class Slots:
    """How many processors may be used, and which tasks hold one. After a STOP more may run than the limit."""

    def __init__(self, limit: int, running: Iterable[Task] = (), ahead: int = 0) -> None:
        self.limit = limit
        self.ahead = ahead  # tasks that may wait on the worker beside those that run
        self.running = {task.pair: task for task in running}

    @property
    def free(self) -> int:
        return max(0, self.limit - len(self.running))

    @property
    def room(self) -> int:
        """How many more tasks may be given: free slots, and the look-ahead unless the worker is stopping."""
        ahead = self.ahead if self.limit > 0 else 0
        return max(0, self.limit + ahead - len(self.running))

    @property
    def is_done(self) -> bool:
        """True if a STOP took all processors and nothing runs any more."""
        return self.limit == 0 and not self.running

    def take(self, tasks: Iterable[Task]) -> None:
        for task in tasks:
            self.running[task.pair] = task

    def release(self, pair: TaskPair) -> Task | None:
        """Free the slot of a task. Returns the task, or None if it held no slot."""
        return self.running.pop(pair, None)

    def stop(self, count: int) -> None:
        self.limit = 0 if count == STOP_ALL else max(0, self.limit - count)

    def find(self, pairs: Iterable[TaskPair]) -> list[TaskPair]:
        """Find the running tasks that a CANCEL names, each once, in the order in which they started."""
        wanted = set(pairs)
        whole_jobs = {pair.job_id for pair in wanted if pair.task < 0}
        return [pair for pair in self.running if pair in wanted or pair.job_id in whole_jobs]
