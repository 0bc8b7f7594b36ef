"""The wall clock steps between any two events: a reactor decides the same as one whose wall clock never does."""

import inspect
from collections.abc import Callable, Iterator
from copy import deepcopy
from functools import wraps
from typing import Any

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import rule
from msgspec.structs import replace
from tests.property.reactor_machine import ReactorMachine

from gandy.core.policy import Policy
from gandy.core.reactor import Reactor

steps = st.sampled_from([-1e9, -86_400.0, -3_600.0, -1.0, 1.0, 3_600.0, 86_400.0, 1e9])


def erase_times(made: Any) -> Any:
    """Effects without times of day; a pause is the difference between two of them, and stays."""
    if isinstance(made, list | tuple) and not hasattr(made, "_fields"):
        return [erase_times(each) for each in made]
    if not hasattr(made, "at"):
        return made
    if getattr(made, "due", 0.0):
        return replace(made, at=0.0, due=round(made.due - made.at, 3))
    return replace(made, at=0.0)


TIMELESS = ("drain", "on_capacity", "on_claims_lost", "on_clock")  # these change something, and need no time for it


class Beside(Reactor):
    """A reactor that has another one beside it, to which the same happens on another machine."""

    def __init__(self, policy: Policy) -> None:
        super().__init__(policy)
        self.steady = Reactor(policy)
        self.is_within = False  # a step that is part of another one happened to both already
        self._do_both(self, self.steady)
        self._do_both(self.control, self.steady.control)

    def _do_both(self, ours: object, steady: object) -> None:
        for name, beside in inspect.getmembers(steady, inspect.ismethod):
            has_time = "now" in inspect.signature(beside).parameters and not name.startswith(("_", "restore"))
            if has_time or name in TIMELESS:
                setattr(ours, name, self._compare(getattr(ours, name), beside))

    def _compare(self, method: Callable[..., Any], beside: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def step(*args: Any) -> Any:
            if self.is_within:
                return method(*args)
            given = [tuple(arg) if isinstance(arg, Iterator) else arg for arg in args]
            expected = beside(*deepcopy(given))  # a job comes back from the store for each of them
            self.is_within = True
            made = method(*given)
            self.is_within = False
            assert erase_times(made) == erase_times(expected)
            assert self.next_deadline() == self.steady.next_deadline()
            return made

        return step


class SteppedMachine(ReactorMachine):
    def __init__(self) -> None:
        super().__init__()
        self.reactor = Beside(self.reactor.policy)

    @rule(seconds=steps)
    def step_wall_clock(self, seconds: float) -> None:
        self.reactor.clocks.wall_ahead += seconds


TestStepped = SteppedMachine.TestCase
TestStepped.settings = settings(max_examples=60, stateful_step_count=60)
