"""Function tasks that wait behind others in a slot process: they begin there, or are taken back, and never both."""

import asyncio
import os
import random
import signal
from collections import deque
from pathlib import Path
from typing import Any

import pytest
from tests.integration.worker import functions
from tests.integration.worker.function_bench import FunctionBench, a_task, run_with_bench
from tests.integration.worker.runner_bench import an_attempt
from tests.waiting import until_async

from gandy.core.model import AttemptKey, Cause
from gandy.functions import open_result
from gandy.worker import pool, slot_process
from gandy.worker.order import Order
from gandy.worker.running_task import RunningTask


class Notes:
    """What a runner reports about tasks that wait."""

    def __init__(self) -> None:
        self.followed: list[AttemptKey] = []
        self.returned: list[Order] = []

    @property
    def options(self) -> dict[str, Any]:
        return {"on_followed": self.followed.append, "on_returned": self.returned.append}


@pytest.fixture(autouse=True)
def _patience(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is taken back because it waits for long, unless a test wants it."""
    monkeypatch.setattr(pool, "BEHIND_SECONDS", 1000.0)


def test_tasks_behind_others_end_in_order_in_the_same_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    notes = Notes()
    monkeypatch.setattr(slot_process, "BRISK_SECONDS", 0.0)

    async def go(bench: FunctionBench) -> None:
        pid = await bench.value(functions.who)
        first = bench.start(functions.who)
        orders = [a_task(functions.who, task=task) for task in range(100, 100 + pool.TASKS_BEHIND)]
        assert all(map(bench.runner.put_behind, orders))
        assert not bench.runner.put_behind(a_task(functions.who, task=99))
        endings = [await first, *[await bench.bench.ending_of(order.attempt) for order in orders]]
        assert {open_result(ending.result) for ending in endings} == {pid}
        assert notes.followed == [order.attempt for order in orders]
        assert notes.returned == []
        times = [(ending.started, ending.ended) for ending in endings]
        assert times == sorted(times)

    run_with_bench(tmp_path, go, **notes.options)


def test_answers_of_short_tasks_are_heard_while_a_long_one_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Though no caller waits for each of them."""
    monkeypatch.setattr(slot_process, "BRISK_SECONDS", 1000.0)

    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing)
        first = bench.start(functions.nothing)
        orders = [a_task(functions.echo, task, task=task) for task in range(100, 100 + 3 * pool.TASKS_BEHIND)]
        long = a_task(functions.doze, str(tmp_path / "pid"), task=99)
        assert all(map(bench.runner.put_behind, [*orders, long]))
        await first
        for order in orders:
            assert open_result((await bench.bench.ending_of(order.attempt)).result) == order.attempt.task
        assert list(bench.runner.running) == [long.attempt]

    run_with_bench(tmp_path, go, grace=0.1)


def test_few_tasks_wait_behind_one_that_is_not_short(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slot_process, "BRISK_SECONDS", 0.0)

    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing)
        bench.start(functions.doze, str(tmp_path / "pid"))
        taken = [bench.runner.put_behind(a_task(functions.nothing, task=task)) for task in range(100, 200)]
        assert len(taken) - taken.count(None) == pool.TASKS_BEHIND

    run_with_bench(tmp_path, go, grace=0.1)


def test_output_goes_to_the_task_that_printed_it(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing)
        running = bench.start(functions.say, "first")
        texts = ["second", "", "fourth"]
        orders = [a_task(functions.say, text, task=task) for task, text in enumerate(texts, 100)]
        assert all(map(bench.runner.put_behind, orders))
        await running
        for order, text in zip(orders, texts, strict=True):
            await bench.bench.ending_of(order.attempt)
            assert bench.runner.read(order.attempt, "out", 0, 100).data.strip() == text.encode()

    run_with_bench(tmp_path, go)


def test_task_is_taken_back_from_behind_a_long_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pool, "BEHIND_SECONDS", 0.01)
    notes = Notes()

    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing)
        bench.start(functions.doze, str(tmp_path / "pid"))
        orders = [a_task(functions.nothing, task=task) for task in (100, 101)]
        assert all(map(bench.runner.put_behind, orders))
        await until_async(lambda: len(notes.returned) == 2)
        assert notes.returned == orders[::-1]  # each goes before those that came back before it
        assert notes.followed == []
        assert not bench.runner.put_behind(orders[0])  # it has shown that it is slow

    run_with_bench(tmp_path, go, grace=0.1, **notes.options)


@pytest.mark.parametrize("killer", [functions.crash, functions.abandon_child])
def test_tasks_behind_one_that_takes_its_process_along_come_back(tmp_path: Path, killer: Any) -> None:
    notes = Notes()

    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing)
        running = bench.start(killer)
        orders = [a_task(functions.nothing, task=task) for task in (100, 101)]
        assert all(map(bench.runner.put_behind, orders))
        await running
        assert notes.returned == orders[::-1]
        assert notes.followed == []

    run_with_bench(tmp_path, go, **notes.options)


def test_killing_one_task_spares_those_behind_it(tmp_path: Path) -> None:
    notes = Notes()

    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing)
        running = bench.start(functions.doze, str(tmp_path / "pid"))
        killed = an_attempt(bench.last)
        orders = [a_task(functions.nothing, task=task) for task in (100, 101)]
        assert all(map(bench.runner.put_behind, orders))
        await until_async((tmp_path / "pid").exists)
        assert bench.runner.kill(killed, Cause.CANCELLED)
        assert notes.returned == orders[::-1]
        assert (await running).cause is Cause.CANCELLED

    run_with_bench(tmp_path, go, grace=0.1, **notes.options)


def test_task_that_ended_unnoticed_is_not_killed_and_nor_is_the_next(tmp_path: Path) -> None:
    notes = Notes()

    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing)
        running = bench.start(functions.nothing)
        ended = an_attempt(bench.last)
        order = a_task(functions.write_pid, str(tmp_path / "pid"), task=100)
        assert bench.runner.put_behind(order)
        while not (tmp_path / "pid").exists():  # the loop does not run meanwhile, so no answer was heard
            pass
        assert not bench.runner.kill(ended, Cause.CANCELLED)
        assert (await running).cause is Cause.EXIT
        assert notes.followed == [order.attempt]
        assert (await bench.bench.ending_of(order.attempt)).cause is Cause.EXIT

    run_with_bench(tmp_path, go, **notes.options)


@pytest.mark.parametrize("options", [{"fresh": True}, {"memory": 1 << 30}])
def test_special_tasks_wait_behind_none_and_none_behind_them(tmp_path: Path, options: dict[str, Any]) -> None:
    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing)
        plain, special = (
            a_task(functions.nothing, task=100),
            a_task(functions.nothing, task=101, **options),
        )
        bench.start(functions.doze, str(tmp_path / "pid"))
        assert not bench.runner.put_behind(special)
        behind = bench.runner.put_behind(plain)
        assert behind is not None
        bench.start(functions.doze, str(tmp_path / "other"), **options)
        assert bench.runner.put_behind(a_task(functions.nothing, task=102))
        bench.runner.pool.take_back(behind)
        await until_async((tmp_path / "other").exists)

    run_with_bench(tmp_path, go, grace=0.1)


def test_nothing_waits_behind_a_process_that_runs_nothing(tmp_path: Path) -> None:
    """All that it had was taken back before it began: else the answer to one task would be taken for another's."""
    notes = Notes()

    async def go(bench: FunctionBench) -> None:
        pid = await bench.value(functions.who)
        os.kill(pid, signal.SIGSTOP)
        try:
            bench.start(functions.nothing)
            order = a_task(functions.nothing, task=100)
            behind = bench.runner.put_behind(order)
            assert behind is not None
            bench.runner.pool.take_back(behind)
            assert [each.attempt for each in notes.returned] == [order.attempt, an_attempt(bench.last)]
            assert not bench.runner.put_behind(order)
        finally:
            os.kill(pid, signal.SIGCONT)

    run_with_bench(tmp_path, go, **notes.options)


def test_each_task_ends_once_with_its_own_value_however_often_it_is_taken_back(tmp_path: Path) -> None:
    """The process and the worker take from the box at the same time, as often as they can."""
    count, waiting, behind = 3_000, deque[Order](), dict[AttemptKey, RunningTask]()

    def return_order(order: Order) -> None:
        behind.pop(order.attempt, None)
        waiting.appendleft(order)

    async def go(bench: FunctionBench) -> None:
        orders = [a_task(functions.echo, task, task=task) for task in range(1, count + 1)]
        waiting.extend(orders)
        chance = random.Random(7)
        while len(bench.bench.endings) < count:
            while waiting and len(bench.runner.running) < 2:
                bench.runner.start(waiting.popleft())
            while waiting and (task := bench.runner.put_behind(waiting[0])) is not None:
                behind[waiting.popleft().attempt] = task
            await asyncio.sleep(0)
            if behind and chance.random() < 0.5:
                bench.runner.pool.take_back(next(iter(behind.values())))
        values = [open_result(bench.bench.endings[order.attempt].result) for order in orders]
        assert values == list(range(1, count + 1))
        assert not behind
        assert not bench.runner.running

    run_with_bench(tmp_path, go, on_followed=lambda attempt: behind.pop(attempt), on_returned=return_order)
