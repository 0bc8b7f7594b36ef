"""What security costs: calls and tasks on a unix socket, over TLS with keys, and over plain TCP, side by side."""

import asyncio
import operator
import os
import shutil
import socket
import tempfile
import time
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import wait
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import uvloop

import gandy
from bench.calls import CALLS, LATENCIES, UNDER_WAY, pipeline, time_each
from bench.harness import race, report, report_times
from bench.jobs import SLOTS, start
from gandy.errors import GandyError

REPEATS = 5
TASKS = 3_000
BODY = bytes(64)
LIMIT = "unix socket"


def find_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def crew(home: Path, url: str | None) -> Iterator[tuple[gandy.Client, str]]:
    """A foreman and a worker that talk over this transport, and so does the client."""
    environment = {**os.environ, "GANDY_HOME": str(home)}
    listen = ("--listen", url, "--insecure") if url else ()
    foreman = start(environment, "foreman", "run", *listen)
    local = f"unix:{home / 'foreman.sock'}"
    os.environ["GANDY_HOME"] = str(home)  # where the client finds its key
    where = ("--foreman", url, "--insecure") if url else ()
    programs = [foreman]
    try:
        with connect_soon(url or local) as client:  # then there are keys for the worker, too
            slots = ("--slots", str(SLOTS + UNDER_WAY), "--reserve", str(UNDER_WAY))
            programs.append(start(environment, "worker", "run", *slots, *where))
            while not client.workers():
                time.sleep(0.05)
            yield client, url or local
    finally:
        for program in reversed(programs):
            program.terminate()
            program.wait()


def connect_soon(url: str) -> gandy.Client:
    while True:
        client = gandy.Client(url)
        try:
            client.connect()
        except GandyError:  # it is not up yet
            client.close()
            time.sleep(0.05)
        else:
            return client


def tasks(client: gandy.Client) -> Callable[[], int]:
    def run() -> int:
        wait([client.run(operator.neg, number) for number in range(TASKS)])
        return TASKS

    return run


async def connect(url: str) -> gandy.AsyncClient:
    client = gandy.AsyncClient(url)
    await client.connect()
    return client


def close(runner: asyncio.Runner, client: gandy.AsyncClient) -> None:
    runner.run(client.close())


def calls(runner: asyncio.Runner, ask: Callable[[], Awaitable[Any]]) -> Callable[[], int]:
    def run() -> int:
        runner.run(pipeline(ask, CALLS))
        return CALLS

    return run


def run() -> None:
    with ExitStack() as held:
        folder = Path(tempfile.mkdtemp(prefix="bench-"))
        held.callback(shutil.rmtree, folder)
        runner = held.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        urls = {
            LIMIT: None,
            "TLS 1.3 with keys": f"tcp://127.0.0.1:{find_port()}",
            "plain TCP": f"plain://127.0.0.1:{find_port()}",
        }
        asks: dict[str, Callable[[], Awaitable[Any]]] = {}
        clients: dict[str, gandy.Client] = {}
        for name, url in urls.items():
            client, where = held.enter_context(crew(folder / name.replace(" ", "-"), url))
            clients[name] = client
            caller = runner.run(connect(where))
            held.callback(close, runner, caller)
            asks[name] = partial(caller.call, "echo", BODY)
        contestants = {name: calls(runner, ask) for name, ask in asks.items()}
        for work in contestants.values():
            work()
        title = f"What security costs: calls with {UNDER_WAY} in flight"
        report(title, "calls", race(contestants, repeats=REPEATS), LIMIT)
        times: dict[str, list[float]] = {name: [] for name in asks}
        for _ in range(REPEATS):
            for name, ask in asks.items():
                times[name] += runner.run(time_each(ask, LATENCIES))
        report_times("What security costs: calls one at a time", times, LIMIT)
        jobs = {name: tasks(client) for name, client in clients.items()}
        report("What security costs: Python functions", "tasks", race(jobs, repeats=REPEATS), LIMIT)
