"""Commands for the tests of calls, as a worker installs them. Files tell how far they came, and when they may go on."""

import asyncio
import os
import signal
import time
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import gandy

worker = gandy.Worker()

PAUSE = 0.005  # seconds between two looks at a file


def note(path: str, text: object = "") -> None:
    """One line, whole also for those who look at the same time."""
    with Path(path).open("a") as file:
        file.write(f"{text}\n")


@worker.command
def add(one: Any, other: Any) -> Any:
    return one + other


@worker.command
def get_time() -> float:
    return time.time()


@worker.command
async def get_time_async() -> float:
    return time.time()


@worker.command(isolate=True)
def get_time_isolated() -> float:
    return time.time()


@worker.command
def get_times(count: int) -> Iterator[float]:
    for _ in range(count):
        yield time.time()


@worker.command
async def later(value: Any) -> Any:
    await asyncio.sleep(0)
    return value


@worker.command
def get_pid() -> int:
    return os.getpid()


@worker.command
def count(stop: int) -> Iterator[int]:
    yield from range(stop)


@worker.command
async def count_async(stop: int) -> AsyncIterator[int]:
    for number in range(stop):
        await asyncio.sleep(0)
        yield number


@worker.command
def fail(text: str) -> None:
    error = ValueError(text)
    error.add_note("a note from the worker")
    raise error


@worker.command
async def fail_async(text: str) -> None:
    raise KeyError(text)


@worker.command
def count_and_fail(stop: int) -> Iterator[int]:
    yield from range(stop)
    raise ValueError("no more")


@worker.command
async def count_and_fail_async(stop: int) -> AsyncIterator[int]:
    for number in range(stop):
        yield number
    raise ValueError("no more")


@worker.command
def fail_about_file(name: bytes) -> None:
    raise ValueError(os.fsdecode(name))


@worker.command
def stop_iteration() -> None:
    raise StopIteration


@worker.command
def make(size: int) -> bytes:
    return b"x" * size


@worker.command
def measure(data: bytes) -> int:
    return len(data)


@worker.command
def give_object() -> object:
    return object()


# What waits for files. Each notes in the file that it was given when it began, and when it ended.


@worker.command
def hold(book: str, go: str, size: int = 4) -> bytes:
    """In a thread, until the file `go` is there."""
    note(book, "began")
    while not Path(go).exists():
        time.sleep(PAUSE)
    note(book, "ended")
    return b"x" * size


@worker.command
async def hold_async(book: str, go: str) -> str:
    note(book, "began")
    try:
        while not Path(go).exists():
            await asyncio.sleep(PAUSE)
    except asyncio.CancelledError:
        note(book, "cancelled")
        raise
    finally:
        note(book, "ended")
    return "held"


@worker.command(isolate=True)
def hold_isolated(book: str, go: str) -> str:
    note(book, os.getpid())
    while not Path(go).exists():
        time.sleep(PAUSE)
    return "held"


@worker.command(slots=2)
def hold_two_slots(book: str, go: str) -> bytes:
    return hold(book, go)


@worker.command
def write(book: str, text: str) -> None:
    note(book, text)


# Streams without an end. Each notes how far it came, and that it was closed.


@worker.command
def endless(book: str, size: int) -> Iterator[bytes]:
    try:
        while True:
            note(book)
            yield b"x" * size
    finally:
        note(book, "closed")


@worker.command
async def endless_async(book: str, size: int) -> AsyncIterator[bytes]:
    try:
        while True:
            note(book)
            yield b"x" * size
    finally:
        note(book, "closed")


@worker.command
def write_many(book: str, values: int, size: int) -> Iterator[bytes]:
    for _ in range(values):
        note(book)
        yield b"x" * size
    note(book, "closed")


# In processes.


@worker.command(isolate=True)
def square(number: int) -> tuple[int, int]:
    return number * number, os.getpid()


@worker.command(isolate=True)
def fail_isolated(text: str) -> None:
    raise ValueError(text)


@worker.command(isolate=True)
def make_isolated(size: int) -> bytes:
    return b"x" * size


@worker.command(isolate=True)
def crash() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


if __name__ == "__main__":
    worker.run()
