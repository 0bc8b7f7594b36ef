"""What it costs the switchboard to give out a call, as the crew and the queue grow. No sockets: the decisions alone."""

import time
from collections.abc import Callable

from bench.harness import race, report
from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.core.workers import Worker, WorkerInfo
from gandy.wire.calls import ANNOUNCE, CALL, LAST, RESULT, WHOLE, Offer, encode_announcement, encode_target
from gandy.wire.v2 import HEADER

CALLS = 100_000
SLOTS = 4
BODY = encode_target("echo") + bytes(64)


def dispatching(workers: int) -> Callable[[], int]:
    """All calls wait before the first worker is free, and each returned slot gives out the next."""

    def run() -> int:
        board, client = Switchboard(), Peer(0)
        crew = [_add_worker(board, number) for number in range(workers)]
        begin = time.perf_counter()
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
        assert board.queued == 0
        assert time.perf_counter() > begin
        return CALLS

    return run


def _add_worker(board: Switchboard, number: int) -> Peer:
    peer = board.add_peer()
    board.on_worker(peer, Worker(WorkerInfo(f"w{number}", f"w{number}", SLOTS), connected=True))
    board.on_frame(peer, ANNOUNCE, 0, 0, 0, encode_announcement(SLOTS, 0, [Offer("echo")]))
    return peer


def run() -> None:
    contestants = {f"{workers:,} workers": dispatching(workers) for workers in (10, 100, 1_000)}
    report(f"Giving out {CALLS} queued calls", "calls", race(contestants, repeats=3), "10 workers")
