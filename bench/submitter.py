"""A client in a process of its own. For each number that it reads, it runs as many tasks, and says when all are done.

python -m bench.submitter ADDRESS TASKS_PER_SECOND
"""

import operator
import sys
import time
from concurrent.futures import Future, wait
from typing import Any, Final

import gandy

TICK: Final = 0.01  # seconds between two groups of tasks


def main(address: str, pace: int) -> None:
    with gandy.Executor(address) as executor:
        for line in sys.stdin:
            wait(submit(executor, int(line), round(pace * TICK)))
            print("done", flush=True)


def submit(executor: gandy.Executor, count: int, size: int) -> list[Future[Any]]:
    """A group in each tick. A tick that comes late moves those after it."""
    submitted: list[Future[Any]] = []
    while len(submitted) < count:
        next_tick = time.monotonic() + TICK
        submitted += [executor.submit(operator.neg, number) for number in range(min(size, count - len(submitted)))]
        time.sleep(max(0.0, next_tick - time.monotonic()))
    return submitted


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
