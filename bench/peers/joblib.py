"""joblib with its own processes (loky): no network, nothing kept."""

import operator
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from bench.contract import SLOTS, Contestant, Place, Work


@contextmanager
def functions(_place: Place) -> Iterator[Work]:
    joblib: Any = import_module("joblib")

    def work(count: int) -> int:
        with joblib.Parallel(n_jobs=SLOTS, batch_size=1) as parallel:
            parallel(joblib.delayed(operator.neg)(number) for number in range(count))
        return count

    yield work


CONTESTANTS = (Contestant("functions", "joblib, loky", functions, packages=("joblib",), count=3_000),)
