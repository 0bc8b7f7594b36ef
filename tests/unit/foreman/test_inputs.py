"""Inputs of tasks between the store and the workers: what is kept in memory, and how much of it."""

import asyncio
from typing import cast

import pytest

from gandy.core.effects import Assignment, Give
from gandy.core.model import AttemptKey, Input, JobSpec
from gandy.core.records import TasksAdded
from gandy.foreman import inputs as subject
from gandy.foreman.inputs import InputCache
from gandy.ids import JobId, TaskNumber
from gandy.store.base import Store

ONE = JobId(1)


class CountedStore:
    """A store that counts what is read from it. Every input in it is empty."""

    def __init__(self) -> None:
        self.reads = 0

    async def read_lines(self, job: JobId, first: TaskNumber, count: int) -> list[Input]:
        self.reads += 1
        return [b""] * count


def a_gift(task: int) -> Give:
    attempt = AttemptKey(ONE, TaskNumber(task), 1)
    return Give("w", (Assignment(attempt, JobSpec(command="f", has_lines=True)),))


def count_reads(store: CountedStore, cache: InputCache, task: int) -> int:
    store.reads = 0
    asyncio.run(cache.find([a_gift(task)]))
    return store.reads


def test_new_inputs_are_not_read_from_the_store() -> None:
    store = CountedStore()
    cache = InputCache(cast("Store", store))
    cache.note([TasksAdded(ONE, TaskNumber(1), (b"x", b"y"), 0.0)])
    assert count_reads(store, cache, 2) == 0


def test_new_inputs_take_bounded_memory_even_if_they_are_empty(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subject, "MAX_NEW_INPUT_BYTES", 10_000)
    store = CountedStore()
    cache = InputCache(cast("Store", store))
    cache.note([TasksAdded(ONE, TaskNumber(1), (b"",) * 1_000, 0.0)])
    assert count_reads(store, cache, 1_000) == 0
    assert count_reads(store, cache, 1) == 1
