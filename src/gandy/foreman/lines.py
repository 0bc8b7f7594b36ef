"""Lines of --each-line jobs, fetched from the store when their tasks are given out."""

from collections import OrderedDict
from collections.abc import Iterable

from gandy.core.effects import Give, Send
from gandy.core.model import AttemptKey
from gandy.ids import JobId, TaskNumber
from gandy.store.base import Store

CHUNK = 1_000  # lines read at once
MAX_CHUNKS = 64  # kept in memory


class LineCache:
    """The lines that are needed now, and their neighbours, which will be next."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._chunks: OrderedDict[tuple[JobId, int], list[str]] = OrderedDict()

    async def find(self, sends: Iterable[Send]) -> dict[AttemptKey, str]:
        """The lines of all tasks that are about to be given out."""
        lines = {}
        for send in sends:
            if isinstance(send, Give):
                for assignment in send.assignments:
                    if assignment.spec.has_lines:
                        lines[assignment.attempt] = await self._get(assignment.attempt)
        return lines

    async def _get(self, attempt: AttemptKey) -> str:
        chunk, place = divmod(attempt.task - 1, CHUNK)
        key = (attempt.job, chunk)
        if key not in self._chunks:
            first = TaskNumber(chunk * CHUNK + 1)
            self._chunks[key] = await self._store.read_lines(attempt.job, first, CHUNK)
            while len(self._chunks) > MAX_CHUNKS:
                self._chunks.popitem(last=False)
        self._chunks.move_to_end(key)
        return self._chunks[key][place]
