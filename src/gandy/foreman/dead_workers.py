"""Workers on this machine whose process is gone: what they left on disk counts, and the rest is lost at once."""

import asyncio
from typing import Final

from gandy.core.reactor import Reactor
from gandy.core.reports import read_attempt, read_ending, read_identity
from gandy.foreman.clock import ForemanClock
from gandy.foreman.committer import Committer
from gandy.journal import read_abandoned
from gandy.processes import is_dead

# Seconds between two looks at whether a worker's process is gone, and its watchdog has written down what ended.
FIRST_PAUSE: Final = 0.05
LONGEST_PAUSE: Final = 1.0


class DeadWorkers:
    """Watches the processes of workers whose link ended: a link ends before its process does."""

    def __init__(self, reactor: Reactor, clock: ForemanClock, committer: Committer) -> None:
        self._reactor = reactor
        self._clock = clock
        self._committer = committer

    def watch(self, worker: str, pid: int, pause: float = FIRST_PAUSE) -> None:
        """Look until the process is gone, or the worker is here again or forgotten."""
        found = self._reactor.workers.find(worker)
        if found is None or found.connected:
            return
        left = read_abandoned(found.info.folder) if is_dead(pid) else None
        if left is None:
            later = min(LONGEST_PAUSE, 1.2 * pause)
            asyncio.get_running_loop().call_later(pause, self.watch, worker, pid, later)
            return
        now = self._clock.now()
        known = (each for each in left.results if self._reactor.jobs.is_same(each.job_id, read_identity(each)))
        ended = [(read_attempt(result), read_ending(result)) for result in known]
        self._committer.decide([*self._reactor.on_results(worker, ended, now), *self._reactor.on_gone(worker, now)])
