"""The event loop that gandy's programs run on."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end, on uvloop: it halves what a message costs."""
    return uvloop.run(main)
