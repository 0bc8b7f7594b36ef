"""Celery on Redis: late acknowledgement and no prefetch, to promise what gandy promises.

python -m bench.peers.celery URL
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from bench import servers
from bench.contract import SLOTS, Contestant, Place, Work
from bench.processes import running, wait_until


def negate(number: int) -> int:
    return -number


def make_app(url: str) -> Any:
    from celery import Celery

    app = Celery("bench", broker=url, backend=url)
    app.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, task_reject_on_worker_lost=True)
    app.task(negate, name="negate")
    return app


@contextmanager
def functions(place: Place, appendfsync: str) -> Iterator[Work]:
    with servers.redis(place, appendfsync) as url, running(sys.executable, "-m", "bench.peers.celery", url):
        app = make_app(url)
        task = app.tasks["negate"]
        wait_until(lambda: app.control.ping(timeout=0.5), "Celery")

        def work(count: int) -> int:
            results = [task.delay(number) for number in range(count)]
            for result in results:
                result.get()
            return count

        yield work


make = partial(Contestant, environment="peers", packages=("celery", "redis"), programs=("redis-server",), count=2_000)

CONTESTANTS = (
    make("functions", "Celery, Redis", partial(functions, appendfsync="everysec"), "Redis, appendfsync everysec"),
)

if __name__ == "__main__":
    make_app(sys.argv[1]).worker_main(["worker", f"--concurrency={SLOTS}", "--pool=prefork", "--loglevel=WARNING"])
