"""Keeps results of function tasks that are too large to send with their endings. Clients read them like output."""

from collections.abc import Callable

from msgspec.structs import replace

from gandy.core.model import AttemptKey, Cause, Ending
from gandy.functions import pack_error
from gandy.worker.output import OutputFolder
from gandy.worker.shortage import find_shortage


class LargeResults:
    """The large results of one worker."""

    def __init__(
        self, outputs: OutputFolder, report: Callable[[AttemptKey, Ending], None], on_shortage: Callable[[str], None]
    ) -> None:
        self._outputs = outputs
        self._report = report
        self._on_shortage = on_shortage
        self._waiting: dict[AttemptKey, tuple[Ending, int]] = {}

    def keep(self, attempt: AttemptKey, ending: Ending, identity: int) -> None:
        """Save the result, and report the ending once it is on disk. While the disk is full, the task is not over."""
        try:
            self._outputs.keep_result(attempt, ending.result, identity)
        except OSError as error:
            shortage = find_shortage(error)
            if shortage is None:
                self._report(attempt, _fail(ending, str(error.strerror)))
                return
            self._waiting[attempt] = ending, identity
            self._on_shortage(shortage)
        else:
            self._report(attempt, replace(ending, result=b"", result_bytes=len(ending.result)))

    def try_again(self) -> None:
        """Try again to save the results for which there was no room."""
        waiting, self._waiting = self._waiting, {}
        for attempt, (ending, identity) in waiting.items():
            self.keep(attempt, ending, identity)

    def give_up(self) -> None:
        """The worker stops: tasks whose results still have no room fail."""
        self.try_again()
        for attempt in list(self._waiting):
            ending, _ = self._waiting.pop(attempt)
            self._report(attempt, _fail(ending, "the disk is full"))

    def drop(self, attempt: AttemptKey) -> bool:
        """Forget a result that waits for room. False: there is no such result."""
        return self._waiting.pop(attempt, None) is not None


def _fail(ending: Ending, why: str) -> Ending:
    text = f"the result of {len(ending.result):,} bytes could not be kept: {why}"
    note = f"OSError: {text}"
    return replace(ending, cause=Cause.RAISED, exit_code=None, note=note, result=pack_error(OSError(text)))
