"""A program that mypy and pyright check: each line with "wrong" must have an error, and no other line may have one.

It is never run.
"""

import asyncio
import math
from collections.abc import Iterator
from concurrent.futures import Future
from datetime import timedelta
from pathlib import Path

import gandy


def scale(number: float, by: int = 2) -> float:
    return number * by


def join(first: str, second: str, third: str) -> str:
    return first + second + third


async def fetch(name: str) -> bytes:
    return name.encode()


@gandy.task(retries=3, retry_on=(OSError, ValueError), timeout="5min")
def measure(number: int) -> str:
    return str(number)


@gandy.task
async def look_up(name: str) -> bytes:
    return name.encode()


def use_tasks(client: gandy.Client) -> None:
    print(measure(3).upper(), measure.__name__)
    measure.run(3).result().upper()
    measure.delay(number=3).result().upper()
    print([value.upper() for value in measure.map(range(3), chunksize=2)])
    look_up.run("a").result().decode()
    print([value.decode() for value in look_up.map(["a"])])
    client.run(measure, 3).result().upper()
    client.run(look_up, "a").result().decode()
    print([value.upper() for value in client.map(measure, range(3))])
    measure("x")  # wrong
    measure.run("x")  # wrong
    measure.delay()  # wrong
    client.map(measure, ["x"])  # wrong
    measure.map(range(3), chunk=2)  # wrong
    look_up.run(3)  # wrong
    client.run(measure, "x")  # wrong
    client.functions(retries=3, retry_on="OSError")  # wrong


def run(client: gandy.Client) -> None:
    number: Future[float] = client.run(scale, 1.5, by=3)
    fetched: bytes = client.run(fetch, "a").result()
    client.run(lambda: 3).result().bit_length()
    client.functions(timeout="5s", memory="2G").run(scale, 2.0).result().hex()
    client.functions(timeout=timedelta(minutes=5)).run(pow, 2, 3)
    client.run(scale, "x")  # wrong
    client.run(scale)  # wrong
    client.run(scale, 1.0, of=3)  # wrong
    client.run(fetch, 3)  # wrong
    client.functions().run(scale, "x")  # wrong
    client.functions(tag="gpu")  # wrong
    client.functions(timeout=[5])  # wrong
    text: str = client.run(scale, 1.0).result()  # wrong
    print(number, fetched, text)


def map_many(client: gandy.Client, columns: list[list[str]]) -> None:
    numbers: Iterator[float] = client.map(scale, [1.5, 2], chunksize=5, timeout="5s")
    names: list[bytes] = list(client.map(fetch, ["a"], ordered=False))
    paths: list[Path] = list(client.map(Path, ["a"]))
    print([value.bit_length() for value in client.map(lambda number: number + 1, range(3))])
    print([value.hex() for value in client.map(math.hypot, [1], [2])])
    print([value.upper() for value in client.map(join, ["a"], ["b"], ["c"])])
    print([value.upper() for value in client.functions().map(join, *columns)])
    client.map(scale, ["x"])  # wrong
    client.map(scale, [1.0], ["x"])  # wrong
    client.map(fetch, [1])  # wrong
    client.map(join, ["a"], ["b"])  # wrong
    client.map(join, ["a"], ["b"], [3])  # wrong
    client.map(abs, [1], chunksize="3")  # wrong
    client.map(abs, [1], chunk=3)  # wrong
    client.map(abs, 3)  # wrong
    client.functions().map(scale, ["x"])  # wrong
    texts: list[str] = list(client.map(scale, [1.0]))  # wrong
    print(numbers, names, paths, texts)


def submit(client: gandy.Client) -> None:
    first = client.submit("true", timeout="5s", memory="2G", cwd=Path("/tmp"))
    client.submit("true", after=first, timeout=timedelta(seconds=5))
    client.submit("true", after=[first, 7], timeout=5)
    client.job(first).wait("10min").state.name.upper()
    client.result(first, 3, timeout="5s")
    client.submit(print)  # wrong
    client.submit("true", after="1")  # wrong
    client.submit("true", tag="gpu")  # wrong
    client.submit("true", memory=[1])  # wrong


def use_executor(executor: gandy.Executor) -> None:
    executor.submit(scale, 1.0).result().hex()
    fetched: Future[bytes] = executor.submit(fetch, "a")
    executor.submit(scale, "x")  # wrong
    print(fetched)


async def use_asyncio(client: gandy.AsyncClient) -> None:
    (await client.run(fetch, "a")).decode()
    (await asyncio.create_task(client.run(scale, 3))).hex()
    (await asyncio.wait_for(client.functions().run(scale, 3), 5)).hex()
    print([value.hex() async for value in client.map(scale, [1])])
    job = await client.submit("true")
    await client.submit("true", after=[job], timeout="5s")
    client.run(fetch, 3)  # wrong
    client.map(scale, ["x"])  # wrong
    client.functions().run(scale)  # wrong
    client.functions().map(fetch, [1])  # wrong
