"""The account of one worker's slots: what tasks of jobs have, what calls have, and what each may have.

There is one for each worker, of whatever door. Tasks and calls are both counted here and nowhere else.
"""

from collections.abc import Iterable

from msgspec import Struct, field

from gandy.moments import LONG_AGO, Monotonic


class YieldRequest(Struct, eq=False):
    """Slots that tasks were asked to leave to calls. `count` numbers the requests: an answer names the one it is to."""

    slots: int = 0
    since: Monotonic = LONG_AGO  # when it was made, or answered, or taken back
    count: int = 0


class SlotAccount(Struct, eq=False):
    """Slots are taken when work goes out, and returned when the worker says that it is over."""

    shared: int = 0  # for tasks of jobs, and for calls if tasks leave them some
    reserved: int = 0  # for calls alone
    by_tasks: int = 0  # taken; tasks beyond `shared` wait on the worker
    by_calls: int = 0  # taken
    yielded: int = 0  # of the shared ones: tasks leave them to calls, as the worker said last
    request: YieldRequest = field(default_factory=YieldRequest)
    most: int = 0  # the most shared slots that the worker ever had; it may use fewer now

    @property
    def total(self) -> int:
        return self.shared + self.reserved

    @property
    def lent(self) -> int:
        """Shared slots that calls have."""
        return max(0, self.by_calls - self.reserved)

    @property
    def free_for_tasks(self) -> int:
        """Below zero if tasks wait for slots."""
        return self.shared - self.by_tasks - self.lent

    @property
    def free_for_calls(self) -> int:
        """What tasks hold is taken, up to the slots that they may have."""
        left = self.shared + self.reserved - self.by_calls
        return left - min(self.by_tasks, self.shared - self.yielded) if self.by_tasks else left  # hot: each call asks

    @property
    def busy(self) -> int:
        """Slots in which tasks or calls run."""
        return self.busy_with_tasks + self.by_calls

    @property
    def busy_with_tasks(self) -> int:
        return max(0, min(self.by_tasks, self.shared - self.lent))

    def resize(self, shared: int) -> None:
        """Set the slots for tasks. What tasks leave to calls, or are asked to leave, is no more than that."""
        if shared > self.shared:  # of the new ones, none was asked for
            self.request.slots = min(self.request.slots, self.yielded)
        self.most = max(self.most, self.shared, shared)
        self.shared = shared
        self.yielded = min(self.yielded, shared)
        self.request.slots = min(self.request.slots, shared)

    def forget_calls(self) -> None:
        """The worker's link is gone, and with it all calls and what it said about them."""
        self.by_calls = self.reserved = self.yielded = 0
        self.request = YieldRequest(count=self.request.count)

    def check(self, tasks: Iterable[int], calls: Iterable[int]) -> None:
        """What must hold after every step, with the slots of each task that the worker holds and of each call."""
        assert self.by_tasks == sum(tasks)
        assert self.by_calls == sum(calls)
        assert 0 <= self.yielded <= self.shared
        assert self.reserved >= 0
