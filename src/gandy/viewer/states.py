"""The states of a job's tasks, a byte each, as a viewer has them from updates. Pure."""

import zlib
from collections.abc import Sequence

from gandy.core.model import TaskState
from gandy.core.views import TaskRun, TaskUpdate
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import MAX_STATES


class TaskStates:
    """`runs` are what the last update changed, or None if it may have changed everything."""

    def __init__(self) -> None:
        self.packed = bytearray()
        self.runs: Sequence[TaskRun] | None = None
        self.is_final = False

    def __len__(self) -> int:
        return len(self.packed)

    def apply(self, update: TaskUpdate) -> None:
        """Raises: RemoteProtocolError."""
        self._resize(update.tasks)
        self.is_final = self.is_final or update.is_final
        if update.is_whole:
            self._replace(update.first - 1, unpack_states(update.states))
        for first, last, state in update.runs:
            self.packed[first - 1 : last] = bytes([state]) * len(self.packed[first - 1 : last])
        self.runs = None if update.is_whole else update.runs

    def _resize(self, count: int) -> None:
        if count < len(self.packed):
            del self.packed[count:]
        else:
            self.packed.extend(bytes([TaskState.WAITING]) * (count - len(self.packed)))

    def _replace(self, begin: int, states: bytes) -> None:
        self.packed[begin : begin + len(states)] = states[: max(0, len(self.packed) - begin)]


def unpack_states(packed: bytes) -> bytes:
    """Raises: RemoteProtocolError."""
    unpacker = zlib.decompressobj()
    try:
        states = unpacker.decompress(packed, MAX_STATES)
    except zlib.error as error:
        raise RemoteProtocolError(f"the states of tasks cannot be read: {error}", ErrorCode.BAD_PAYLOAD) from None
    if unpacker.unconsumed_tail or not unpacker.eof:
        raise RemoteProtocolError("there are more states of tasks than fit an update", ErrorCode.BAD_PAYLOAD)
    return states
