"""Sends results of tasks to the foreman: first into the journal, then over the link, several at a time.

While the next tasks are here already, results are held for a moment to be sent together: a batch costs the foreman
hardly more than one result.
"""

import asyncio
from typing import Final

from gandy.journal import Journal
from gandy.limits import MAX_UNREPORTED
from gandy.talk.worker import WorkerSide
from gandy.worker.finished_tasks import FinishedTasks
from gandy.worker.foreman_link import ForemanLink

HOLD_SECONDS: Final = 0.05  # for which a result may be held


class ResultSender:
    """One per worker, on the current loop."""

    def __init__(self, side: WorkerSide, journal: Journal | None, finished: FinishedTasks, link: ForemanLink) -> None:
        """`journal`: None for a plain foreman, which could not distinguish old results from new ones."""
        self.may_hold = True  # results since the last `flush_or_hold` may be held
        self.allowance = 0  # shell tasks that may end before the next `flush_or_hold`; 0 unless results are held
        self._side = side
        self._journal = journal
        self._finished = finished
        self._link = link
        self._holding: asyncio.TimerHandle | None = None  # while results are held

    def save(self) -> None:
        """Write new results to the journal. No result is sent or held before that."""
        packed = self._side.results.take_unsaved()
        if packed and self._journal is not None:
            if self._journal.is_large:
                self._journal.compact(self._side.results.pack_all())
            else:
                self._journal.add(packed)
        # While the journal lacks results, their rows stay in the group table: `recovery` finds the endings there.
        if self._journal is None or not self._journal.is_behind:
            self._finished.forget_reported()

    def flush(self) -> None:
        """Send everything to the foreman, except for results that are held."""
        self.save()
        if self._link.link is not None:
            self._link.link.write(self._side.data_to_send(hold_results=self._holding is not None))

    def flush_or_hold(self, ready: int) -> None:
        """Send the results of all finished tasks, or hold them while enough tasks are ready to begin."""
        self._finished.report()
        self.save()
        may_hold, self.may_hold = self.may_hold, True
        # Without room, a slot could become idle before the foreman has the results and sends more tasks.
        room = self._side.results.count_room(ready)
        if not may_hold or not room:
            self.flush_held()
            return
        if self._holding is None:
            self._holding = asyncio.get_running_loop().call_later(HOLD_SECONDS, self.flush_held)
        self.allowance = min(room, MAX_UNREPORTED)

    def flush_held(self) -> None:
        """Send the results of all finished tasks now."""
        if self._holding is not None:
            self._holding.cancel()
            self._holding = None
        self.allowance = 0
        self._finished.report()
        self.flush()

    def report_ends(self) -> bool:
        """Send the results of all finished tasks. False: some cannot be sent yet."""
        self.flush_held()
        return not self._side.results.has_unsent

    def on_welcome(self) -> None:
        """Remove results that the last foreman has from the journal: they must not count for jobs of this one."""
        if self._journal is not None:
            self._journal.compact(self._side.results.pack_all())

    def forget_acknowledged(self) -> None:
        if self._journal is not None and not self._side.results.by_pair:
            self._journal.forget()

    def catch_up(self) -> None:
        """Try again to write what the journal lacks because the disk was full."""
        if self._journal is not None and self._journal.is_behind:
            self._journal.compact(self._side.results.pack_all())

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()
