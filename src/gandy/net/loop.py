"""The event loop that gandy's programs run on."""

from collections.abc import Coroutine
from typing import Any, TypeVar

import uvloop

T = TypeVar("T")


def run(main: Coroutine[Any, Any, T]) -> T:
    """Run a program to its end, on uvloop: the foreman needs a fifth less CPU for a task than on asyncio's own."""
    return uvloop.run(main)
