"""Jobs that have ended and wait to be sent: those that ended first go first. Pure.

The store has all jobs, so only some are known here; when these are sent, the program looks for the others in the store.
"""

import heapq

from gandy.ids import JobId
from gandy.limits import MAX_WAITING_TRACES


class WaitingJobs:
    """`has_more`: some jobs were left out, or may have been missed. When none waits, list those of the store again."""

    def __init__(self) -> None:
        self._heap: list[tuple[float, JobId]] = []  # by end
        self._ends: dict[JobId, float] = {}
        self.has_more = True

    def __len__(self) -> int:
        return len(self._ends)

    def add(self, job: JobId, changed: float) -> None:
        """A job has ended."""
        if self._ends.get(job) == changed:
            return
        self._ends[job] = changed
        heapq.heappush(self._heap, (changed, job))
        if len(self._heap) > 2 * MAX_WAITING_TRACES:
            self._leave_out()

    def on_missed(self) -> None:
        """Jobs may have ended that we were not told of."""
        self.has_more = True

    def begin_listing(self) -> None:
        """All jobs of the store follow, in any order."""
        self.has_more = False

    def _leave_out(self) -> None:
        """Keep those that ended first."""
        known = heapq.nsmallest(MAX_WAITING_TRACES, ((changed, job) for job, changed in self._ends.items()))
        self.has_more = self.has_more or len(known) < len(self._ends)
        self._heap = known  # a sorted list is a heap
        self._ends = {job: changed for changed, job in known}

    def take(self, most: int) -> list[JobId]:
        """The jobs that ended first."""
        taken: list[JobId] = []
        while self._heap and len(taken) < most:
            changed, job = heapq.heappop(self._heap)
            if self._ends.get(job) == changed:  # else it has ended once more since
                del self._ends[job]
                taken.append(job)
        return taken
