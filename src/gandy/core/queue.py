"""Jobs that might start a task, by rank, with one line of jobs for each need.

However long a line is, one look at its first job shows whether a worker is of use to any of them.
"""

import heapq
from bisect import bisect_left, insort
from collections.abc import Container, Iterator
from typing import NamedTuple

from gandy.core.workers import KnownWorker
from gandy.ids import JobId

Rank = tuple[int, JobId]  # the lower goes first


class Need(NamedTuple):
    """What a job asks of a worker."""

    slots: int
    tags: tuple[str, ...]
    is_timed: bool

    def fits(self, worker: KnownWorker) -> bool:
        """True if the worker can meet it now."""
        knows = worker.knows_time or not self.is_timed
        return knows and self.slots <= worker.free and worker.info.tags.issuperset(self.tags)


class JobQueue:
    """A job is in one line, or in none."""

    def __init__(self) -> None:
        self._lines: dict[Need, list[Rank]] = {}
        self._needs: dict[JobId, Need] = {}  # of the jobs in lines

    def settle(self, rank: Rank, need: Need | None) -> None:
        """Put a job into the line of its need. None: it cannot start anything."""
        job = rank[1]
        before = self._needs.get(job)
        if need == before:
            return
        if before is not None:
            self._leave(rank, self._needs.pop(job))
        if need is not None:
            self._needs[job] = need
            insort(self._lines.setdefault(need, []), rank)

    def in_order(self, given_up: Container[Need | None]) -> Iterator[JobId]:
        """Jobs by rank. A line is skipped as soon as its need is in `given_up`."""
        lines = [self._walk(need, given_up) for need in self._lines]
        return (job for _, job in heapq.merge(*lines))

    def find(self, job: JobId) -> Need | None:
        return self._needs.get(job)

    def check(self) -> None:
        """What must hold after every step; for tests."""
        jobs = [job for line in self._lines.values() for _, job in line]
        assert len(jobs) == len(self._needs), "each job has one place"
        assert self._needs.keys() == set(jobs)
        for need, line in self._lines.items():
            assert line == sorted(line)
            for _, job in line:
                assert self._needs[job] == need

    def _walk(self, need: Need, given_up: Container[Need | None]) -> Iterator[Rank]:
        for rank in self._lines[need]:
            if need in given_up:
                return
            yield rank

    def _leave(self, rank: Rank, need: Need) -> None:
        line = self._lines[need]
        del line[bisect_left(line, rank)]
        if not line:
            del self._lines[need]
