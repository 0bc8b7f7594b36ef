"""The states of a range of a job's tasks, a byte each, put together from what a store finds about some of them.

Stores look for as few tasks as they can: what is the same for most of them is known from the job's counts.
"""

from collections.abc import Sequence
from typing import Final

from gandy.core.model import TaskState

BLOCK: Final = 16_384  # tasks that a store counts at once, to learn whether all of them are in one state


def find_only_state(counts: Sequence[int]) -> TaskState | None:
    """The state that all tasks of a job are in, if there is only one. `counts`: by state."""
    found = [state for state in TaskState if counts[state]]
    return found[0] if len(found) == 1 else None


class StateRange:
    """The tasks from one to another, which may be none."""

    def __init__(self, first: int, last: int, state: TaskState) -> None:
        self.first = first
        self.last = last
        self._states = bytearray([state]) * max(0, last - first + 1)

    def set_run(self, first: int, last: int, state: TaskState) -> None:
        """Set consecutive tasks; none of them may be outside of the range."""
        self._states[first - self.first : last - self.first + 1] = bytes([state]) * (last - first + 1)

    def set_tasks(self, tasks: Sequence[int], state: TaskState) -> None:
        """Set tasks of the range, each of which is named once."""
        if tasks and max(tasks) - min(tasks) + 1 == len(tasks):
            self.set_run(min(tasks), max(tasks), state)
            return
        states, first = self._states, self.first
        for task in tasks:
            states[task - first] = state

    def to_bytes(self) -> bytes:
        return bytes(self._states)
