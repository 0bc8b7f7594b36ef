"""Dask distributed: a scheduler and two workers with a thread each. Calls go to an actor."""

import operator
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from bench.asking import BODY, Ask, Way, asking, many_in_flight, one_by_one
from bench.contract import SLOTS, Contestant, Place, Work


class Echo:
    """The actor."""

    def echo(self, body: bytes) -> bytes:
        return body


@contextmanager
def cluster() -> Iterator[str]:
    """The address of a scheduler."""
    import dask
    from distributed import LocalCluster

    dask.config.set({"distributed.scheduler.worker-ttl": None})  # workers are paused while others are measured
    with LocalCluster(
        n_workers=SLOTS, threads_per_worker=1, processes=True, host="127.0.0.1", dashboard_address=None
    ) as made:
        yield made.scheduler_address


@contextmanager
def functions(_place: Place) -> Iterator[Work]:
    from distributed import Client

    with cluster() as address, Client(address) as client:

        def work(count: int) -> int:
            client.gather([client.submit(operator.neg, number, pure=False) for number in range(count)])
            return count

        yield work


@asynccontextmanager
async def connect(address: str) -> AsyncIterator[Ask]:
    from distributed import Client

    async with Client(address, asynchronous=True) as client:
        actor = await client.submit(Echo, actor=True)
        yield lambda: actor.echo(BODY)


@contextmanager
def calls(_place: Place, way: Way) -> Iterator[Work]:
    with cluster() as address, asking(connect(address), way) as work:
        yield work


make = partial(Contestant, environment="peers", packages=("distributed",), spins=True)

CONTESTANTS = (
    make("functions", "Dask", functions, count=5_000),
    make("call_latency", "Dask, actor", partial(calls, way=one_by_one), count=200),
    make("calls_in_flight", "Dask, actor", partial(calls, way=many_in_flight), count=2_000, warm_count=1_000),
)
