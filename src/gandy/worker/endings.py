"""Decides how a task ended, from the exit of its process or the answer of its slot process. Reports nothing."""

import signal
from typing import Final

from msgspec.structs import replace

from gandy.clocks import read_wall
from gandy.core.model import Cause, Ending
from gandy.worker.frames import NOT_RETRIED, RAISED, REFUSED, SHORT, Answer
from gandy.worker.oom import OomCounter
from gandy.worker.running_task import RunningTask
from gandy.worker.slot_process import SlotProcess

KILLED_EXIT_CODE: Final = 128 + signal.SIGKILL  # how a shell reports that its child was killed


class Endings:
    """The endings of one worker's tasks."""

    def __init__(self) -> None:
        self.oom = OomCounter()
        self.is_dying = False  # the worker is dying and kills all tasks: then a SIGKILL is not the task's own ending

    def find_exit(self, task: RunningTask) -> Ending | None:
        """Find how a task ended whose first process has exited. None: it was killed because its worker dies."""
        group = task.group
        code = group.exit_code
        exit_code, number = (code, None) if code >= 0 else (None, -code)
        cause, note = task.cause, task.note  # of a kill, if there was one: it counts more than the exit code
        if cause is None:
            if self.is_dying and number == signal.SIGKILL:
                return None
            cause = Cause.EXIT if number is None else Cause.SIGNAL
            note = self._explain(task, number) if code < 0 or code == KILLED_EXIT_CODE else ""
        assert group.ended is not None
        return Ending(
            cause=cause,
            exit_code=exit_code,
            signal=number,
            started=task.started,
            ended=task.compute_ended(group.ended),
            peak_memory_bytes=group.peak_memory_bytes,
            note=note,
        )

    def find_slot_exit(self, task: RunningTask, process: SlotProcess) -> Ending | None:
        """Find how a function task ended whose process exited before it answered."""
        ending = self.find_exit(task)
        if ending is None:
            return None
        if not process.measures_memory:  # the process ran other tasks too, and the peak may be theirs
            ending = replace(ending, peak_memory_bytes=None)
        if task.cause is not None:
            return ending
        code = ending.exit_code
        if task.started is None:
            note = process.problem or ending.note or f"its process ended with exit code {code} before it was ready"
            cause = Cause.RETURNED if process.is_short else Cause.NOT_STARTED
            return replace(ending, cause=cause, exit_code=None, note=note)
        if code is not None:
            # The function did not return, so not even exit code 0 is a success.
            note = ending.note or f"its process ended with exit code {code} before the function did"
            return replace(ending, exit_code=code or None, note=note)
        return ending

    def _explain(self, task: RunningTask, number: int | None) -> str:
        """Explain a kill by this signal or, if None, by a SIGKILL that the task's shell reported."""
        if number in (None, signal.SIGKILL) and self.oom.read() != task.oom_count:
            return "killed by the kernel, which was out of memory"
        return "" if number is None else f"killed by {_name_signal(number)}"


def read_answer(answer: Answer) -> Ending:
    """Make an ending out of a slot process's answer."""
    note, result, peak = answer.note, answer.body, answer.peak_memory_bytes
    if answer.kind == REFUSED:
        cause = Cause.RETURNED if answer.flags & SHORT else Cause.NOT_STARTED
        return Ending(cause=cause, ended=read_wall(), peak_memory_bytes=peak, note=note, result=result)
    cause = {RAISED: Cause.RAISED, NOT_RETRIED: Cause.NOT_RETRIED}.get(answer.kind, Cause.EXIT)
    return Ending(
        cause=cause,
        exit_code=0 if cause is Cause.EXIT else None,
        started=answer.started,
        ended=answer.ended,
        peak_memory_bytes=peak,
        note=note,
        result=result,
    )


def _name_signal(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:  # real-time signals have no names
        return f"signal {number}"
