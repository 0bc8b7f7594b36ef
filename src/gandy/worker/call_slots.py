"""The account of the slots that calls use on a worker, and of those that the foreman wants tasks to leave to calls."""

from gandy.wire.calls import YIELDED
from gandy.worker.call_frames import CallFrames


class CallSlots:
    """One per worker. `reserved` slots are for calls alone; beyond these, calls borrow slots from tasks."""

    def __init__(self, reserved: int, frames: CallFrames) -> None:
        self.reserved = reserved
        self.in_use = 0
        self.wanted = 0  # slots that tasks of jobs should leave to calls
        self._request = 0  # number of the foreman's YIELD, which our answer repeats
        self._yielded = 0  # slots of those wanted that we last reported as free
        self._frames = frames

    @property
    def borrowed(self) -> int:
        """Slots that tasks of jobs cannot have."""
        return max(self.wanted, self.in_use - self.reserved, 0)

    def on_yield(self, request: int, wanted: int) -> None:
        self.wanted, self._request, self._yielded = wanted, request, 0

    def report_yielded(self, free: int) -> None:
        """Report to the foreman that tasks leave this many slots free."""
        given = min(self.wanted, free)
        if given != self._yielded and self._frames.is_open:
            self._yielded = given
            self._frames.send(YIELDED, 0, self._request, given)

    def forget_request(self) -> None:
        """A request holds only for the link that it came over."""
        self.wanted = self._yielded = 0
