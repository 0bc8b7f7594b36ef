"""Reports to a foreman which of its tasks have begun. It looks at what runs, and knows neither slots nor links.

Only tasks that have run for a while and still run are reported, many in one message, so short tasks cost nothing.
"""

import asyncio
from collections.abc import Callable
from typing import Final

from gandy.core.model import AttemptKey
from gandy.limits import MAX_BEGUN
from gandy.worker.running_task import RunningTask
from gandy.worker.running_tasks import RunningTasks

REPORTED_SECONDS: Final = 0.1  # for which a task has run before it is reported
PERIOD: Final = 0.105  # seconds between two reports; longer, as the loop may call some milliseconds too early


class BegunReporter:
    """One per conversation, with one timer, which is set only while an unreported task runs."""

    def __init__(
        self,
        running: RunningTasks,
        is_ours: Callable[[RunningTask], bool],
        report_ends: Callable[[], bool],
        send: Callable[[list[AttemptKey]], None],
    ) -> None:
        """`is_ours`: True for tasks of this foreman. `look_soon` must be called when one of them begins.

        `report_ends` sends all results, so that no more tasks seem to run than there are slots. It returns False if
        some could not be sent yet.
        """
        self._running = running
        self._is_ours = is_ours
        self._report_ends = report_ends
        self._send = send
        self._reported: set[AttemptKey] = set()  # over this link
        self._is_active = False  # there is a link, and its foreman takes these reports
        self._timer: asyncio.TimerHandle | None = None

    def on_welcome(self) -> None:
        """A new link is up: report everything that runs again."""
        self._reported.clear()
        self._is_active = True
        self.look_soon()

    def on_cut(self) -> None:
        self._is_active = False
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def has_reported(self, attempt: AttemptKey) -> bool:
        return attempt in self._reported

    def look_soon(self) -> None:
        if self._timer is None and self._is_active:
            self._timer = asyncio.get_running_loop().call_later(PERIOD, self._look)

    def _look(self) -> None:
        self._timer = None
        running = [attempt for attempt, task in self._running.items() if self._is_ours(task)]
        self._reported.intersection_update(running)
        new = [each for each in running if each not in self._reported and self._running[each].has_run(REPORTED_SECONDS)]
        if new and self._report_ends():
            for first in range(0, len(new), MAX_BEGUN):
                self._send(new[first : first + MAX_BEGUN])
            self._reported.update(new)
        if len(self._reported) < len(running):
            self.look_soon()
