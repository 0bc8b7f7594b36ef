"""concurrent.futures.ProcessPoolExecutor: no network, nothing kept."""

import operator
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, wait
from contextlib import contextmanager

from bench.contract import SLOTS, Contestant, Place, Work

CHUNK = 50


@contextmanager
def submits(_place: Place) -> Iterator[Work]:
    with ProcessPoolExecutor(SLOTS) as pool:

        def work(count: int) -> int:
            wait([pool.submit(operator.neg, number) for number in range(count)])
            return count

        yield work


@contextmanager
def maps(_place: Place) -> Iterator[Work]:
    with ProcessPoolExecutor(SLOTS) as pool:

        def work(count: int) -> int:
            assert sum(pool.map(operator.neg, range(count), chunksize=CHUNK)) <= 0
            return count

        yield work


CONTESTANTS = (
    Contestant("functions", f"ProcessPoolExecutor({SLOTS}), submit", submits),
    Contestant("functions", f"ProcessPoolExecutor({SLOTS}), map, chunks of {CHUNK}", maps),
)
