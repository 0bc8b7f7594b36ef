"""Dramatiq on Redis, with its backend for results.

python -m bench.peers.dramatiq URL
"""

import signal
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from bench import servers
from bench.contract import SLOTS, Contestant, Place, Work
from bench.processes import running


def negate(number: int) -> int:
    return -number


def make_actor(url: str) -> Any:
    import dramatiq
    from dramatiq.brokers.redis import RedisBroker
    from dramatiq.results import Results
    from dramatiq.results.backends import RedisBackend

    broker = RedisBroker(url=url)
    broker.add_middleware(Results(backend=RedisBackend(url=url)))
    dramatiq.set_broker(broker)
    return dramatiq.actor(negate, actor_name="negate", store_results=True, broker=broker)


@contextmanager
def functions(place: Place, appendfsync: str) -> Iterator[Work]:
    with ExitStack() as held:
        url = held.enter_context(servers.redis(place, appendfsync))
        for _ in range(SLOTS):
            held.enter_context(running(sys.executable, "-m", "bench.peers.dramatiq", url))
        actor = make_actor(url)

        def work(count: int) -> int:
            messages = [actor.send(number) for number in range(count)]
            for message in messages:
                message.get_result(block=True, timeout=60_000)
            return count

        work(SLOTS)  # they are there
        yield work


def serve(url: str) -> None:
    from dramatiq import Worker

    worker = Worker(make_actor(url).broker, worker_threads=1)
    worker.start()
    signal.sigwait({signal.SIGTERM})
    worker.stop()


make = partial(
    Contestant, "functions", environment="peers", packages=("dramatiq", "redis"), programs=("redis-server",), spins=True
)

CONTESTANTS = (
    make(
        "Dramatiq, Redis",
        partial(functions, appendfsync="everysec"),
        durability="Redis, appendfsync everysec",
        count=3_000,
    ),
    make(
        "Dramatiq, Redis, fsync",
        partial(functions, appendfsync="always"),
        durability="Redis, appendfsync always",
        count=1_000,
    ),
)

if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGTERM})
    serve(sys.argv[1])
