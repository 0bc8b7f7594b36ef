"""Inputs of tasks, lines or pickled arguments: read from the store when the tasks are given out."""

from collections import OrderedDict
from collections.abc import Iterable
from typing import Final

from gandy.core.effects import Give, Send
from gandy.core.model import AttemptKey, Input, TaskKey
from gandy.core.records import Record, TasksAdded
from gandy.errors import StoreError
from gandy.ids import TaskNumber
from gandy.limits import MAX_CACHED_INPUT_BYTES, MAX_NEW_INPUT_BYTES
from gandy.store.base import Store

CHUNK: Final = 200  # inputs that are read at once; each may have up to a quarter of a megabyte
ENTRY_BYTES: Final = 64  # that a new input counts for besides its own, so that empty inputs are bounded too


class InputCache:
    """Keeps inputs that will be needed soon: those of new tasks, and the other_foremen of what was read."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._chunks: OrderedDict[tuple[int, int], list[Input]] = OrderedDict()
        self._bytes = 0  # in these
        self._new: OrderedDict[TaskKey, Input] = OrderedDict()  # a plain dict is slow to find its first entry again
        self._new_bytes = 0  # in these

    def note(self, records: Iterable[Record]) -> None:
        """Keep the inputs of tasks that were just committed: as a rule they are asked for next."""
        for record in records:
            if isinstance(record, TasksAdded):
                for task, given in enumerate(record.inputs, record.first):
                    self._new[record.job, TaskNumber(task)] = given
                    self._new_bytes += ENTRY_BYTES + len(given)
        while self._new_bytes > MAX_NEW_INPUT_BYTES:  # the oldest may be of a job that was cancelled
            _, given = self._new.popitem(last=False)
            self._new_bytes -= ENTRY_BYTES + len(given)

    async def find(self, sends: Iterable[Send]) -> tuple[dict[AttemptKey, Input], dict[AttemptKey, str]]:
        """The inputs of all tasks that are about to be given out; of those that cannot be read, the reasons.

        Raises: StoreError: the store may answer later.
        """
        inputs: dict[AttemptKey, Input] = {}
        unreadable: dict[AttemptKey, str] = {}
        for send in sends:
            if isinstance(send, Give):
                for assignment in send.assignments:
                    if assignment.spec.has_lines:
                        given = self._take_new(assignment.attempt.task_key)
                        try:
                            inputs[assignment.attempt] = await self._get(assignment.attempt) if given is None else given
                        except StoreError as error:
                            if error.retryable:
                                raise
                            unreadable[assignment.attempt] = str(error)
        return inputs, unreadable

    def _take_new(self, task: TaskKey) -> Input | None:
        given = self._new.pop(task, None)
        if given is not None:
            self._new_bytes -= ENTRY_BYTES + len(given)
        return given

    async def _get(self, attempt: AttemptKey) -> Input:
        """Raises: StoreError."""
        chunk, place = divmod(attempt.task - 1, CHUNK)
        key = (attempt.job, chunk)
        if key not in self._chunks or place >= len(self._chunks[key]):  # an open job may have grown
            found = await self._store.read_lines(attempt.job, TaskNumber(chunk * CHUNK + 1), CHUNK)
            self._bytes += _weigh(found) - _weigh(self._chunks.pop(key, []))
            self._chunks[key] = found
            while self._bytes > MAX_CACHED_INPUT_BYTES and len(self._chunks) > 1:
                self._bytes -= _weigh(self._chunks.popitem(last=False)[1])
        self._chunks.move_to_end(key)
        if place >= len(self._chunks[key]):
            raise StoreError(f"the store has no line for task {attempt.task} of job {attempt.job}")
        return self._chunks[key][place]


def _weigh(inputs: Iterable[Input]) -> int:
    return sum(map(len, inputs))
