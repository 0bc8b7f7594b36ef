"""What it costs a foreman to assign a call as the crew grows: the decisions alone, and with links to workers."""

import asyncio
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

import uvloop

import gandy
from bench.contract import Contestant, Kind, Place, Table, Work
from bench.peers.gandy import foreman
from bench.processes import cpu_seconds, running
from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.moments import Monotonic
from gandy.wire.calls import ANNOUNCE, CALL, LAST, RESULT, WHOLE, Offer, encode_announcement, encode_target
from gandy.wire.v2 import HEADER

CALLS = 100_000
SLOTS = 4
BODY = encode_target("echo") + bytes(64)


def dispatching(workers: int) -> Callable[[], int]:
    """All calls wait before the first worker is free, and each returned slot takes the next one."""

    def run() -> int:
        board, client = Switchboard(Monotonic(0.0)), Peer(0)
        crew = [_add_worker(board, number) for number in range(workers)]
        for number in range(CALLS):
            board.on_frame(client, CALL, 0, number, 0, BODY)
        done = 0
        while done < CALLS:
            for peer in crew:
                numbers = [HEADER.unpack_from(frame)[3] for frame in peer.out[::2]]
                peer.out.clear()
                for number in numbers:
                    board.on_frame(peer, RESULT, LAST | WHOLE, number, 0, b"")
                done += len(numbers)
            client.out.clear()
        assert board.waiting.count == 0
        return CALLS

    return run


def _add_worker(board: Switchboard, number: int) -> Peer:
    peer = board.add_peer()
    worker = KnownWorker(WorkerInfo(f"w{number}", f"w{number}", SLOTS), connected=True)
    board.dispatcher.on_worker(peer, worker, board.now)
    board.on_frame(peer, ANNOUNCE, 0, 0, 0, encode_announcement(SLOTS, 0, [Offer("echo")]))
    return peer


async def flood(address: str, workers: int) -> None:
    """All calls at once, as soon as all workers are there."""
    async with gandy.AsyncClient(address) as client:
        while sum("crowd" in row.commands for row in await client.workers()) < workers:
            await asyncio.sleep(0.1)
        await asyncio.gather(*(client.call("crowd") for _ in range(CALLS)))


@contextmanager
def deciding(_place: Place, workers: int) -> Iterator[Work]:
    run = dispatching(workers)
    yield lambda _count: run()


@contextmanager
def with_links(place: Place, workers: int) -> Iterator[Work]:
    """CPU seconds of the foreman per call, not wall time."""
    crowd = (sys.executable, "-m", "bench.call_crowd")
    with foreman(place, "--store", "memory:") as (address, pid), running(*crowd, address, str(workers)):

        def work(_count: int) -> list[float]:
            before = cpu_seconds(pid)
            uvloop.run(flood(address, workers))
            return [(cpu_seconds(pid) - before) / CALLS]

        yield work


CREWS = (10, 100, 1_000)

TABLES = (
    Table("switching", f"Giving out {CALLS:,} queued calls", "calls", CALLS, "10 workers"),
    Table(
        key="switching_cpu",
        title=f"CPU of a foreman for each of {CALLS:,} queued calls",
        unit="calls",
        count=1,
        reference="10 workers",
        kind=Kind.TIMES,
        note="One operation is all of the calls.",
    ),
)

CONTESTANTS = (
    *(
        Contestant("switching", f"{workers:,} workers", partial(deciding, workers=workers), packages=("gandy",))
        for workers in CREWS
    ),
    *(
        Contestant("switching_cpu", f"{workers:,} workers", partial(with_links, workers=workers), packages=("gandy",))
        for workers in CREWS
    ),
)
