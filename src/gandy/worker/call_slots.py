"""The accounts of the slots that calls use on a worker, and of those that foremen want tasks to leave to calls."""

from gandy.wire.calls import YIELDED
from gandy.worker.call_frames import CallFrames


class CallSlots:
    """Of one conversation. `reserved` slots are for calls alone; beyond these, calls borrow slots from tasks."""

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


class BorrowedSlots:
    """What calls of all conversations borrow from tasks."""

    def __init__(self, reserved: int) -> None:
        self._reserved = reserved
        self.parts: list[CallSlots] = []  # one for each conversation

    @property
    def borrowed(self) -> int:
        """Slots that tasks of jobs cannot have."""
        if len(self.parts) == 1:
            return self.parts[0].borrowed
        # Each foreman counts on all reserved slots. If several want more than these, tasks leave rather too many.
        needed = -self._reserved
        for part in self.parts:
            if part.wanted or part.in_use:  # hot: mostly there are no calls
                needed += max(part.in_use, part.wanted + self._reserved if part.wanted else 0)
        return max(0, needed)

    @property
    def wanted(self) -> int:
        """Slots that tasks of jobs should leave to calls."""
        return sum(part.wanted for part in self.parts)

    def report_yielded(self, free: int) -> None:
        """Report to the foremen that tasks leave this many slots free, each slot to one of them."""
        used = sum(part.in_use for part in self.parts if not part.wanted)
        free -= max(0, used - self._reserved)
        for part in self.parts:
            if part.wanted:
                part.report_yielded(max(0, free))
                free -= part.wanted
