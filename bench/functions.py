"""Python functions that do nothing, through client, foreman, SQLite with full sync and worker, beside peers."""

import operator
import os
import statistics
import time
from collections.abc import Callable
from concurrent.futures import Executor, ProcessPoolExecutor, wait
from contextlib import ExitStack
from importlib import import_module
from importlib.util import find_spec
from multiprocessing import get_context
from typing import Any

import gandy
from bench.harness import race, report
from bench.jobs import SLOTS, crew, memory_kib

CALLS = 10_000
CHUNK = 50
LATENCIES = 200
ITEMS = 100_000


def submits(executor: Executor | Any) -> Callable[[], int]:
    def run() -> int:
        wait([executor.submit(operator.neg, number) for number in range(CALLS)])
        return CALLS

    return run


def dask_submits(client: Any) -> Callable[[], int]:
    def run() -> int:
        client.gather([client.submit(operator.neg, number, pure=False) for number in range(CALLS)])
        return CALLS

    return run


def loky_calls() -> int:
    joblib: Any = import_module("joblib")
    with joblib.Parallel(n_jobs=SLOTS, batch_size=1) as parallel:
        parallel(joblib.delayed(operator.neg)(number) for number in range(CALLS))
    return CALLS


def maps(executor: Executor) -> Callable[[], int]:
    def run() -> int:
        assert sum(executor.map(operator.neg, range(CALLS), chunksize=CHUNK)) < 0
        return CALLS

    return run


def tell_latency(name: str, call: Callable[[], Any]) -> None:
    times = []
    for _ in range(LATENCIES):
        begin = time.perf_counter()
        call()
        times.append(time.perf_counter() - begin)
    print(f"  {name:34} one call at a time: p50 {statistics.median(times) * 1e3:.2f} ms")


def tell_memory(foreman: int, address: str) -> None:
    """In a process of its own, whose memory nobody else has used."""
    with ProcessPoolExecutor(1, get_context("spawn")) as alone:
        ours = alone.submit(map_many, address).result()
    theirs = memory_kib(foreman) / 1024
    print(f"  after a map of {ITEMS:,} items of 1 KB: client {ours:.0f} MiB, foreman {theirs:.0f} MiB")


def map_many(address: str) -> float:
    with gandy.Client(address) as client:
        assert sum(client.map(len, (bytes(1_000) for _ in range(ITEMS)))) == 1_000 * ITEMS
    return memory_kib(os.getpid()) / 1024


def run() -> None:
    with ExitStack() as held:
        client, foreman = held.enter_context(crew())
        ours = held.enter_context(gandy.Executor(str(client.address)))
        pool = held.enter_context(ProcessPoolExecutor(SLOTS))
        limit = f"ProcessPoolExecutor({SLOTS})"
        contestants = {limit: submits(pool), "gandy, durable": submits(ours)}
        calls: dict[str, Callable[[], Any]] = {
            limit: lambda: pool.submit(abs, 1).result(),
            "gandy, durable": lambda: ours.submit(abs, 1).result(),
        }
        if find_spec("joblib"):
            contestants["joblib, loky"] = loky_calls
        if find_spec("distributed"):
            make_client: Any = import_module("distributed").Client
            dask = held.enter_context(make_client(n_workers=SLOTS, threads_per_worker=1, dashboard_address=None))
            contestants["Dask distributed"] = dask_submits(dask)
            calls["Dask distributed"] = lambda: dask.submit(abs, 1, pure=False).result()
        else:
            print("\nDask distributed is not installed, and so not measured")
        for work in contestants.values():
            work()  # processes start, modules are imported
        report("Python functions", "calls", race(contestants, repeats=3), limit)
        for name, call in calls.items():
            tell_latency(name, call)
        tell_memory(foreman, str(client.address))
        chunks = {limit: maps(pool), "gandy, durable": maps(ours)}
        report(f"Map with chunks of {CHUNK}", "items", race(chunks, repeats=5), limit)
