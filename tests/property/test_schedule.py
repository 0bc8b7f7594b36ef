"""A schedule is a sorted list, however it is kept."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from gandy.bus.core.schedule import Handle, Schedule
from gandy.errors import NotScheduled

COUNT, HORIZON, BYTES = 12, 10.0, 100


class Beside:
    """A schedule and a list, side by side."""

    def __init__(self) -> None:
        self.schedule: Schedule[int] = Schedule(COUNT, HORIZON, BYTES)
        self.waiting: list[tuple[float, Handle, int, int]] = []
        self.handles: list[Handle] = []
        self.now = 0.0

    def add(self, ahead: int, size: int) -> None:
        held = sum(entry[3] for entry in self.waiting)
        fits = ahead <= HORIZON and len(self.waiting) < COUNT and held + size <= BYTES
        item = len(self.handles)
        handle = self.try_to_add(self.now + ahead, item, size)
        assert (handle is not None) is fits
        if handle is not None:
            self.handles.append(handle)
            self.waiting.append((self.now + ahead, handle, item, size))

    def try_to_add(self, time: float, item: int, size: int) -> Handle | None:
        try:
            return self.schedule.add(time, item, self.now, size)
        except NotScheduled:
            return None

    def cancel(self, which: int, _: int) -> None:
        if self.handles:
            handle = self.handles[which % len(self.handles)]
            left = [entry for entry in self.waiting if entry[1] != handle]
            assert self.schedule.cancel(handle) is (len(left) < len(self.waiting))
            self.waiting = left

    def pop(self, passes: int, _: int) -> None:
        self.now += max(passes, 0)
        due = sorted(entry for entry in self.waiting if entry[0] <= self.now)
        assert self.schedule.pop_due(self.now) == [(time, item) for time, _, item, _ in due]
        self.waiting = [entry for entry in self.waiting if entry[0] > self.now]

    def check_invariants(self) -> None:
        assert len(self.schedule) == len(self.waiting)
        assert self.schedule.next_deadline() == min((entry[0] for entry in self.waiting), default=inf)
        assert len(self.schedule._heap) <= 2 * len(self.waiting)


verbs = st.sampled_from([Beside.add, Beside.add, Beside.cancel, Beside.pop])


@given(st.lists(st.tuples(verbs, st.integers(-3, 12), st.integers(0, 20)), max_size=80))
def test_it_does_what_a_sorted_list_does(steps: list[tuple[object, int, int]]) -> None:
    beside = Beside()
    for verb, first, second in steps:
        assert callable(verb)
        verb(beside, first, second)
        beside.check_invariants()


@given(st.lists(st.floats(-100, 100), max_size=200))
def test_items_come_in_the_order_of_time_and_then_of_adding(times: list[float]) -> None:
    schedule: Schedule[int] = Schedule()
    for index, time in enumerate(times):
        schedule.add(time, index, 0.0)
    assert schedule.pop_due(100.0) == sorted((time, index) for index, time in enumerate(times))
