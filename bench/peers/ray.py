"""Ray: two CPUs, no dashboard. Calls go to an actor with coroutines."""

import tempfile
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from functools import partial

from bench.asking import BODY, IN_FLIGHT, Ask, Way, asking, many_in_flight, one_by_one
from bench.contract import SLOTS, Contestant, Place, Work


class Echo:
    """The actor."""

    async def echo(self, body: bytes) -> bytes:
        return body


def negate(number: int) -> int:
    return -number


@contextmanager
def cluster() -> Iterator[None]:
    import ray

    with tempfile.TemporaryDirectory() as folder:  # not the contestant's folder: paths of sockets must be short
        ray.init(
            num_cpus=SLOTS,
            include_dashboard=False,
            log_to_driver=False,
            _temp_dir=folder,
            _node_ip_address="127.0.0.1",
        )
        try:
            yield
        finally:
            ray.shutdown()


@contextmanager
def functions(_place: Place) -> Iterator[Work]:
    import ray

    with cluster():
        remote = ray.remote(negate)

        def work(count: int) -> int:
            ray.get([remote.remote(number) for number in range(count)])
            return count

        yield work


@asynccontextmanager
async def connect() -> AsyncIterator[Ask]:
    import ray

    actor = ray.remote(Echo).options(max_concurrency=IN_FLIGHT).remote()
    yield lambda: actor.echo.remote(BODY)


@contextmanager
def calls(_place: Place, way: Way) -> Iterator[Work]:
    with cluster(), asking(connect(), way) as work:
        yield work


make = partial(Contestant, environment="peers", packages=("ray",), spins=True)

CONTESTANTS = (
    make("functions", "Ray", functions),
    make("call_latency", "Ray, actor", partial(calls, way=one_by_one), count=1_000),
    make("calls_in_flight", "Ray, actor", partial(calls, way=many_in_flight), count=5_000),
)
