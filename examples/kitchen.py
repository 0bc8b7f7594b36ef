"""A worker that offers commands: a function, a coroutine, streams, and one that runs in a process of its own.

Start a foreman with `gandy foreman run` in one terminal, and run `python examples/kitchen.py` in another.
kitchen_guest.py, kitchen_asyncio.py and kitchen_stream.py call these commands, or try `gandy call add 1 2`.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Iterator

from gandy import Worker

worker = Worker(name="kitchen", slots=4)


@worker.command
def add(first: float, second: float) -> float:
    """Runs in a thread."""
    return first + second


@worker.command
async def cook(dish: str, seconds: float = 0.1) -> str:
    """Runs on the worker's loop. A call that is cancelled, or takes too long, ends where it awaits."""
    await asyncio.sleep(seconds)
    return f"one {dish}"


@worker.command
def countdown(start: int) -> Iterator[int]:
    """A stream. It runs only as fast as its reader, and is closed when the reader stops."""
    yield from range(start, 0, -1)


@worker.command
async def courses(*dishes: str) -> AsyncIterator[str]:
    """A stream too, on the loop."""
    for dish in dishes:
        yield await cook(dish)


@worker.command(name="kitchen.grind", isolate=True)
def grind(rounds: int) -> dict[str, int]:
    """Runs in a process of its own: it may use a whole core, and can be killed."""
    return {"sum": sum(number * number for number in range(rounds)), "process": os.getpid()}


if __name__ == "__main__":
    worker.run()
