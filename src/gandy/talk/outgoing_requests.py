"""A foreman's requests to one worker that wait until the protocol allows them."""

from collections import deque
from collections.abc import Iterator, Sequence

from gandy.limits import MAX_BATCH_BYTES
from gandy.wire.messages import Job, Request, Stop, Task


class OutgoingRequests(deque[Request]):
    """A queue of requests. Tasks that wait together share a JOB."""

    def add_tasks(self, tasks: tuple[Task, ...], packed: tuple[bytes, ...], limit: int) -> None:
        """Queue tasks, at most `limit` in a JOB; they join the last request if that is a JOB with room."""
        if self and isinstance(waiting := self[-1], Job) and len(waiting.tasks) < limit:
            self.pop()
            tasks, packed = waiting.tasks + tasks, waiting.packed + packed
        self.extend(Job(tasks[batch], packed[batch]) for batch in _make_batches(packed, limit))

    def put_back(self, request: Request) -> None:
        """Insert a request at the head of the queue, but never before an immediate STOP."""
        first = self[0] if self else None
        self.insert(1 if isinstance(first, Stop) and first.is_immediate else 0, request)


def _make_batches(packed: Sequence[bytes], limit: int) -> Iterator[slice]:
    """Choose which tasks share a JOB."""
    begin = size = 0
    for place, part in enumerate(packed):
        if place > begin and (place - begin == limit or size + len(part) > MAX_BATCH_BYTES):
            yield slice(begin, place)
            begin, size = place, 0
        size += len(part)
    if packed:
        yield slice(begin, len(packed))
