"""Sends results of tasks to their foremen: first into the journal, then over the links, several at a time.

While the next tasks are here already, results are held for a moment to be sent together: a batch costs the foreman
hardly more than one result.
"""

import asyncio
from collections.abc import Iterable
from typing import Final

from msgspec import Raw

from gandy.journal import Journal
from gandy.limits import MAX_UNREPORTED
from gandy.wire import payloads
from gandy.wire.messages import TaskResult
from gandy.worker.finished_tasks import FinishedTasks
from gandy.worker.foreman_link import ForemanLink
from gandy.worker.shard_queue import ShardQueue

HOLD_SECONDS: Final = 0.05  # for which a result may be held


class ResultSender:
    """One per worker, on the current loop."""

    def __init__(self, journal: Journal | None, finished: FinishedTasks, left: Iterable[TaskResult]) -> None:
        """`journal`: None for a plain foreman, which could not distinguish old results from new ones.

        `left`: by former workers. They stay in the journal until a conversation has taken them.
        """
        self.may_hold = True  # results since the last `flush_or_hold` may be held
        self.allowance = 0  # shell tasks that may end before the next `flush_or_hold`; 0 unless results are held
        self.ends: list[tuple[ShardQueue, ForemanLink]] = []  # where results come from and go to; one per conversation
        self.left = list(left)
        self._journal = journal
        self._finished = finished
        self._holding: asyncio.TimerHandle | None = None  # while results are held

    def save(self) -> None:
        """Write new results to the journal. No result is sent or held before that."""
        packed = [part for queue, _ in self.ends for part in queue.side.results.take_unsaved()]
        if packed and self._journal is not None:
            if self._journal.is_large:
                self._journal.compact(self._pack_all())
            else:
                self._journal.add(packed)
        # While the journal lacks results, their rows stay in the group table: `recovery` finds the endings there.
        if self._journal is None or not self._journal.is_behind:
            self._finished.forget_reported()

    def flush(self) -> None:
        """Send everything to the foremen, except for results that are held."""
        self.save()
        is_holding = self._holding is not None
        for _, link in self.ends:
            link.send_ready(hold_results=is_holding)

    def flush_or_hold(self) -> None:
        """Send the results of all finished tasks, or hold them while enough tasks are ready to begin."""
        self._finished.report()
        self.save()
        may_hold, self.may_hold = self.may_hold, True
        # Without room, a slot could become idle before the foreman has the results and sends more tasks.
        room = self._count_room()
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

    def report_ends(self, queue: ShardQueue) -> bool:
        """Send the results of all finished tasks. False: some of this queue cannot be sent yet."""
        self.flush_held()
        return not queue.side.results.has_unsent

    def rewrite_journal(self) -> None:
        """Remove results that are not held any more, so that a later worker in this folder does not report them."""
        if self._journal is not None:
            self._journal.compact(self._pack_all())

    def forget_acknowledged(self) -> None:
        if self._journal is None or self.left or any(queue.side.results.by_pair for queue, _ in self.ends):
            return
        self._journal.forget()

    def catch_up(self) -> None:
        """Try again to write what the journal lacks because the disk was full."""
        if self._journal is not None and self._journal.is_behind:
            self._journal.compact(self._pack_all())

    def close(self) -> None:
        if self._journal is not None:
            self._journal.close()

    def _pack_all(self) -> list[Raw]:
        left = [Raw(payloads.encode(result)) for result in self.left]
        return left + [part for queue, _ in self.ends for part in queue.side.results.pack_all()]

    def _count_room(self) -> int:
        """Return how many more results may be held: as many as each foreman that has tasks here can wait for."""
        busy = [queue for queue, _ in self.ends if queue.side.slots.running] if len(self.ends) > 1 else self._queues
        return min((queue.side.results.count_room(queue.ready) for queue in busy), default=0)

    @property
    def _queues(self) -> list[ShardQueue]:
        return [queue for queue, _ in self.ends]
