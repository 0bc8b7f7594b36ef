"""What it costs a foreman to give out a call as the crew grows: the decisions alone, and with links to workers."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import uvloop

import gandy
from bench.harness import race, report, report_times
from bench.jobs import start
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


async def flood(address: str, workers: int) -> None:
    """All calls at once, as soon as all workers are there."""
    async with gandy.AsyncClient(address) as client:
        while sum("crowd" in row.commands for row in await client.workers()) < workers:
            await asyncio.sleep(0.1)
        await asyncio.gather(*(client.call("crowd") for _ in range(CALLS)))


def measure(workers: int) -> float:
    """CPU seconds of the foreman for each call."""
    home = Path(tempfile.mkdtemp(prefix="bench-"))
    environment = {**os.environ, "GANDY_HOME": str(home)}
    address = f"unix:{home / 'foreman.sock'}"
    foreman = start(environment, "foreman", "run", "--store", "memory:")
    try:
        while not (home / "foreman.sock").exists():
            time.sleep(0.02)
        with subprocess.Popen([sys.executable, "-m", "bench.crowd", address, str(workers)]) as crowd:
            uvloop.run(flood(address, workers))  # everybody is warm
            before = cpu_seconds(foreman.pid)
            uvloop.run(flood(address, workers))
            after = cpu_seconds(foreman.pid)
            crowd.kill()
    finally:
        foreman.terminate()
        foreman.wait()
        shutil.rmtree(home)
    return (after - before) / CALLS


def cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(") ")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def run() -> None:
    contestants = {f"{workers:,} workers": dispatching(workers) for workers in (10, 100, 1_000)}
    report(f"Giving out {CALLS} queued calls", "calls", race(contestants, repeats=3), "10 workers")
    times = {f"{workers:,} workers": [measure(workers) for _ in range(3)] for workers in (10, 100, 1_000)}
    report_times(f"CPU of a foreman for each of {CALLS} queued calls", times, "10 workers")
