"""HyperQueue from PyPI: a server and a worker with two cores, both in the driver's process.

Its wheel has no command line. Its worker forks from the process that it lives in, so that process must be fresh. An
interpreter is started for each Python function, and nothing comes back. Its client looks once a second whether a job is
done.
"""

import logging
import operator
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench.contract import SLOTS, Contestant, Place, Work


@contextmanager
def cluster(place: Place, fill: Callable[[Any, int], None]) -> Iterator[Work]:
    """Work that is one job with `count` tasks."""
    from hyperqueue import Job, LocalCluster
    from hyperqueue.cluster import WorkerConfig
    from hyperqueue.task.function import PythonEnv

    logging.disable(logging.INFO)
    with LocalCluster(server_dir=str(place.folder / "hq"), worker_config=WorkerConfig(cores=SLOTS)) as made:
        client = made.client(python_env=PythonEnv(python_bin=sys.executable))

        def work(count: int) -> int:
            job = Job(default_workdir=place.folder)
            for number in range(count):
                fill(job, number)
            client.wait_for_jobs([client.submit(job)])
            return count

        yield work


def add_function(job: Any, number: int) -> None:
    job.function(operator.neg, args=(number,), stdout=None, stderr=None)


def add_shell_task(job: Any, _number: int) -> None:
    job.program(["sh", "-c", "true"], stdout=None, stderr=None)


make = partial(Contestant, environment="peers", packages=("hyperqueue",))

CONTESTANTS = (
    make("functions", "HyperQueue", partial(cluster, fill=add_function), count=60, warm_count=4, note="no results"),
    make("shell_tasks", "HyperQueue", partial(cluster, fill=add_shell_task)),
)
