"""What security costs: calls and tasks on a unix socket, over TLS with keys, and over plain TCP, side by side."""

import operator
from collections.abc import Iterator
from concurrent.futures import wait
from contextlib import contextmanager
from functools import partial

from bench.asking import IN_FLIGHT, Way, asking, many_in_flight, one_by_one
from bench.contract import SLOTS, Contestant, Kind, Place, Table, Work
from bench.peers.gandy import DURABLE, Crew, connect, crew
from bench.servers import find_port

LIMIT = "unix socket"
SCHEMES = {LIMIT: "", "TLS 1.3 with keys": "tcp", "plain TCP": "plain"}


@contextmanager
def secured(place: Place, scheme: str, slots: int) -> Iterator[Crew]:
    """A foreman, a worker and a client that use this transport."""
    url = f"{scheme}://127.0.0.1:{find_port()}" if scheme else ""
    listen = ("--listen", url, "--insecure") if url else ()
    reach = ("--foreman", url, "--insecure") if url else ()
    with crew(place, slots, listen=listen, reach=reach, url=url) as made:
        yield made


@contextmanager
def calls(place: Place, scheme: str, way: Way) -> Iterator[Work]:
    with secured(place, scheme, IN_FLIGHT) as made, asking(connect(made.address), way) as work:
        yield work


@contextmanager
def functions(place: Place, scheme: str) -> Iterator[Work]:
    with secured(place, scheme, SLOTS) as made:

        def work(count: int) -> int:
            wait([made.client.run(operator.neg, number) for number in range(count)])
            return count

        yield work


make = partial(Contestant, packages=("gandy", "cryptography"))

TABLES = (
    Table("security_latency", "What security costs: calls one at a time", "calls", 1_000, LIMIT, Kind.TIMES),
    Table("security_in_flight", "What security costs: calls with 1,000 in flight", "calls", 50_000, LIMIT),
    Table("security_functions", "What security costs: Python functions", "tasks", 3_000, LIMIT),
)

CONTESTANTS = tuple(
    contestant
    for name, scheme in SCHEMES.items()
    for contestant in (
        make("security_latency", name, partial(calls, scheme=scheme, way=one_by_one)),
        make("security_in_flight", name, partial(calls, scheme=scheme, way=many_in_flight)),
        make("security_functions", name, partial(functions, scheme=scheme), durability=DURABLE),
    )
)
