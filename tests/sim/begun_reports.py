"""How a simulated gandy worker reports the tasks that it runs, as `worker/begun.py` does."""

from typing import TYPE_CHECKING, Final

from tests.sim.task_runner import get_attempt

from gandy.core.extensions import BEGUN, Begun, encode
from gandy.core.model import AttemptKey
from gandy.wire.messages import Extended, Extension

if TYPE_CHECKING:
    from tests.sim.workers import GandyWorker

PERIOD: Final = 0.1  # seconds between two reports; what began before the last one and still runs is reported


class BegunReports:
    """With one timer, which is set only while a task runs that is not reported."""

    def __init__(self, worker: "GandyWorker") -> None:
        self._worker = worker
        self._told: set[AttemptKey] = set()  # on this link
        self._seen: set[AttemptKey] = set()  # that ran already when the timer was set
        self._is_timed = False
        self._is_active = False

    def on_welcome(self) -> None:
        """On a new link, all that runs is reported again."""
        self._told.clear()
        self._is_active = Extension.BEGUN in self._worker.side.framing.agreed
        self.look_soon()

    def on_cut(self) -> None:
        self._is_active = self._is_timed = False

    def look_soon(self) -> None:
        if self._is_active and not self._is_timed:
            self._is_timed = True
            self._seen = self._list_begun()
            self._worker.call_later(PERIOD, self._look)

    def _list_begun(self) -> set[AttemptKey]:
        return {get_attempt(task) for task in self._worker.tasks.begun.values()}

    def _look(self) -> None:
        if not self._is_timed:
            return
        self._is_timed = False
        begun = self._list_begun()
        new = (begun & self._seen) - self._told
        if new and self._report_ends():
            report = Begun(tuple(sorted(new)))
            self._worker.side.framing.send_extended(Extended(BEGUN, encode(report)))
            self._worker.flush()
            self._told |= new
        if not begun <= self._told:
            self.look_soon()

    def _report_ends(self) -> bool:
        """So that no more tasks seem to run than there are slots. False while an ending is not sent."""
        self._worker.flush()
        return not self._worker.side.results.has_unsent
