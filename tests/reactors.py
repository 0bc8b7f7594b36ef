"""A reactor for tests that look at one step and all that follows from it."""

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any

from gandy.core.reactor import Reactor


def _at_once(method: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(method)

    @wraps(method)
    def step(self: Reactor, *args: Any, **options: Any) -> Any:
        made = method(self, *args, **options)
        now = signature.bind(self, *args, **options).arguments["now"]
        gifts = self.dispatch(now) if self.needs_dispatch else []
        return (made[0], made[1] + gifts) if isinstance(made, tuple) else made + gifts

    return step


class PromptReactor(Reactor):
    """It dispatches after each step, where a foreman lets some steps come together."""


for name, method in inspect.getmembers(Reactor, inspect.isfunction):
    parameters = inspect.signature(method).parameters
    if "now" in parameters and not name.startswith(("_", "restore", "dispatch", "on_given", "on_heard")):
        setattr(PromptReactor, name, _at_once(method))
