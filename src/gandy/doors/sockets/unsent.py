"""Counts large frames that libzmq has not written yet, so that a peer that does not read cannot fill our memory."""

from collections import deque
from typing import Final

import zmq

from gandy.doors.limits import MAX_UNSENT_BYTES

# Bytes. Frames from this size on are not copied, and libzmq reports when it has written each.
LARGE_FRAME: Final = 16 * 1024


class Unsent:
    """Messages with large frames on their way to one peer."""

    def __init__(self) -> None:
        self._trackers: deque[tuple[zmq.MessageTracker, int]] = deque()
        self._bytes = 0

    def has_room(self, size: int) -> bool:
        """True if this many more bytes may be sent. A single message may be of any size."""
        while self._trackers and self._trackers[0][0].done:
            self._bytes -= self._trackers.popleft()[1]
        return not self._trackers or self._bytes + size <= MAX_UNSENT_BYTES

    def add(self, tracker: zmq.MessageTracker, size: int) -> None:
        self._trackers.append((tracker, size))
        self._bytes += size
