"""A reactor for tests that check one step and all its consequences."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from gandy.core.control import JobControl
from gandy.core.reactor import Reactor

# These follow from a decision, and need no further one.
QUIET = ("restore", "dispatch", "on_given")


class PromptReactor(Reactor):
    """It dispatches after each step; a foreman dispatches once for several steps."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self._decide_after_each_step(self, Reactor)
        self._decide_after_each_step(self.control, JobControl)

    def _decide_after_each_step(self, owner: object, kind: type) -> None:
        for name, method in inspect.getmembers(owner, inspect.ismethod):
            is_event = "now" in inspect.signature(method).parameters and not name.startswith(("_", *QUIET))
            if is_event and hasattr(kind, name):
                setattr(owner, name, self._at_once(method))

    def _at_once(self, method: Callable[..., Any]) -> Callable[..., Any]:
        signature = inspect.signature(method)

        @wraps(method)
        def step(*args: Any, **options: Any) -> Any:
            made = method(*args, **options)
            now = signature.bind(*args, **options).arguments["now"]
            gifts = self.dispatch(now) if self.dispatcher.is_needed else []
            return (made[0], made[1] + gifts) if isinstance(made, tuple) else made + gifts

        return step
