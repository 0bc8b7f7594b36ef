"""RQ on Redis: two workers that fork for each job, which is the default, or two that do not fork.

python -m bench.peers.rq URL Worker|SimpleWorker
"""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial

from bench import servers
from bench.contract import SLOTS, Contestant, Place, Work
from bench.processes import running, wait_until


def negate(number: int) -> int:
    return -number


@contextmanager
def functions(place: Place, kind: str) -> Iterator[Work]:
    from redis import Redis
    from rq import Queue, Worker

    with ExitStack() as held:
        url = held.enter_context(servers.redis(place))
        for _ in range(SLOTS):
            held.enter_context(running(sys.executable, "-m", "bench.peers.rq", url, kind))
        link = Redis.from_url(url)
        queue = Queue(connection=link)
        wait_until(lambda: Worker.count(connection=link) == SLOTS, "RQ")

        def work(count: int) -> int:
            jobs = [queue.enqueue("bench.peers.rq.negate", number) for number in range(count)]
            for number, job in enumerate(jobs):
                assert job.latest_result(timeout=60).return_value == -number
            return count

        yield work


def serve(url: str, kind: str) -> None:
    import rq
    from redis import Redis

    link = Redis.from_url(url)
    getattr(rq, kind)([rq.Queue(connection=link)], connection=link).work(logging_level="WARNING")


make = partial(
    Contestant,
    environment="peers",
    packages=("rq", "redis"),
    programs=("redis-server",),
    durability="Redis, appendfsync everysec",
)

CONTESTANTS = (
    make("functions", "RQ, forking", partial(functions, kind="Worker"), count=300),
    make("functions", "RQ, SimpleWorker", partial(functions, kind="SimpleWorker"), count=1_000),
)

if __name__ == "__main__":
    serve(*sys.argv[1:])
