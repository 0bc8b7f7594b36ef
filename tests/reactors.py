"""A reactor for tests that check one step and all its consequences."""

import inspect
from collections.abc import Callable, Mapping
from functools import partial, wraps
from typing import Any, Final

from gandy.core.control import JobControl
from gandy.core.reactor import Reactor

# These follow from a decision, and need no further one.
QUIET = ("restore", "dispatch", "on_given")

Event = tuple[str, Callable[..., Any]]  # the name of a method, and what finds the time among its arguments


def _list_events(kind: type) -> list[Event]:
    """The methods that take events, each with what finds the time among its arguments."""
    found: list[Event] = []
    for name, method in inspect.getmembers(kind, inspect.isfunction):
        names = list(inspect.signature(method).parameters)[1:]
        if "now" in names and not name.startswith(("_", *QUIET)):
            found.append((name, partial(_find_now, names.index("now"))))
    return found


def _find_now(place: int, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
    return options["now"] if "now" in options else args[place]


EVENTS: Final[Mapping[type, list[tuple[str, Callable[..., Any]]]]] = {
    kind: _list_events(kind) for kind in (Reactor, JobControl)
}


class PromptReactor(Reactor):
    """It dispatches after each step; a foreman dispatches once for several steps."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._decide_after_each_step(self, Reactor)
        self._decide_after_each_step(self.control, JobControl)

    def _decide_after_each_step(self, owner: object, kind: type) -> None:
        for name, find_now in EVENTS[kind]:
            setattr(owner, name, self._at_once(getattr(owner, name), find_now))

    def _at_once(self, method: Callable[..., Any], find_now: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(method)
        def step(*args: Any, **options: Any) -> Any:
            made = method(*args, **options)
            gifts = self.dispatch(find_now(args, options)) if self.dispatcher.is_needed else []
            return (made[0], made[1] + gifts) if isinstance(made, tuple) else made + gifts

        return step
