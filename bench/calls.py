"""Calls of commands through client, foreman and worker, beside a bare relay and other systems that answer requests."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import uvloop

import gandy
from bench import brokers, relay
from bench.harness import race, report, report_times
from bench.jobs import start

CALLS = 50_000
UNDER_WAY = 1_000
LATENCIES = 1_000
REPEATS = 5
BODY = bytes(64)

Ask = Callable[[], Awaitable[Any]]


@contextmanager
def bare_relay(folder: Path) -> Iterator[str]:
    paths = str(folder / "relay.sock"), str(folder / "server.sock")
    programs = []
    try:
        programs.append(subprocess.Popen([sys.executable, "-m", "bench.relay", "server", paths[1]]))
        _await_path(paths[1])
        programs.append(subprocess.Popen([sys.executable, "-m", "bench.relay", "relay", *paths]))
        _await_path(paths[0])
        yield paths[0]
    finally:
        for program in programs:
            program.kill()
            program.wait()


def _await_path(path: str) -> None:
    while not Path(path).exists():
        time.sleep(0.02)


@contextmanager
def crew(home: Path) -> Iterator[str]:
    environment = {**os.environ, "GANDY_HOME": str(home)}
    address = f"unix:{home / 'foreman.sock'}"
    foreman = start(environment, "foreman", "run")
    worker = start(environment, "worker", "run", "--slots", str(UNDER_WAY))
    try:
        _await_path(str(home / "foreman.sock"))
        with gandy.Client(address) as client:
            client.call("ping", repeatable=True)
        yield address
    finally:
        for program in (worker, foreman):
            program.terminate()
            program.wait()


async def pipeline(ask: Ask, count: int) -> None:
    """So many calls under way, until enough have come back."""

    async def caller(share: int) -> None:
        for _ in range(share):
            await ask()

    await asyncio.gather(*(caller(count // UNDER_WAY) for _ in range(UNDER_WAY)))


async def time_each(ask: Ask, count: int) -> list[float]:
    """Seconds of each, one at a time."""
    times = []
    for _ in range(count):
        begin = time.perf_counter()
        await ask()
        times.append(time.perf_counter() - begin)
    return times


def run() -> None:
    with ExitStack() as held:
        folder = Path(tempfile.mkdtemp(prefix="bench-"))
        held.callback(shutil.rmtree, folder)
        path = held.enter_context(bare_relay(folder))
        runner = held.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        asks = {"gandy": _join(runner, held, connect_gandy(held.enter_context(crew(folder / "home"))))}
        if missing := brokers.find_missing("nats"):
            print(f"\nNATS is not measured: {missing} is not installed")
        else:
            asks["nats-server, nats-py"] = _join(
                runner, held, brokers.connect_nats(held.enter_context(brokers.nats()), BODY)
            )
        if missing := brokers.find_missing("zmq"):
            print(f"\nZeroMQ is not measured: {missing} is not installed")
        else:
            url = held.enter_context(brokers.zmq_broker(folder))
            asks["pyzmq ROUTER/ROUTER broker"] = _join(runner, held, brokers.connect_zmq(url, BODY))

        def call_relay() -> int:
            runner.run(relay.drive(path, 4 * CALLS, UNDER_WAY))
            return 4 * CALLS

        def calling(ask: Ask) -> Callable[[], int]:
            def call() -> int:
                runner.run(pipeline(ask, CALLS))
                return CALLS

            return call

        contestants = {"bare relay": call_relay, **{name: calling(ask) for name, ask in asks.items()}}
        for work in contestants.values():
            work()
        report(f"Calls with {UNDER_WAY} in flight", "calls", race(contestants, repeats=REPEATS), "bare relay")

        times: dict[str, list[float]] = {name: [] for name in contestants}
        for _ in range(REPEATS):
            times["bare relay"] += runner.run(relay.time_each(path, LATENCIES))
            for name, ask in asks.items():
                times[name] += runner.run(time_each(ask, LATENCIES))
        report_times("Calls one at a time", times, "bare relay")


def _join(
    runner: asyncio.Runner, held: ExitStack, connecting: Coroutine[Any, Any, tuple[Ask, Callable[[], Awaitable[None]]]]
) -> Ask:
    ask, end = runner.run(connecting)
    held.callback(lambda: runner.run(_end(end)))
    return ask


async def _end(end: Callable[[], Awaitable[None]]) -> None:
    await end()


async def connect_gandy(address: str) -> tuple[Ask, Callable[[], Awaitable[None]]]:
    client = gandy.AsyncClient(address)
    await client.connect()
    return (lambda: client.call("echo", BODY)), client.close
