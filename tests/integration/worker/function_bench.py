"""A real runner for tests of function tasks."""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from tests.integration.worker.runner_bench import Bench, a_bench, an_attempt

from gandy.core.model import Cause, Ending
from gandy.functions import Function, open_error, open_result, pack_task
from gandy.worker.order import Order, PythonOrder

ROOT = Path(__file__).parents[3]  # where slot processes find the package of the tests


def a_task(function: Function, *args: Any, task: int = 1, job: int = 1, fresh: bool = False, **more: Any) -> Order:
    python = PythonOrder(pack_task(function, args), fresh=fresh)
    return Order(attempt=an_attempt(task, job), command="a function task", python=python, **more)


class FunctionBench:
    """Function tasks on a bench, each with a number of its own."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.runner = bench.runner
        self.last = 0

    def start(self, function: Function, *args: Any, **more: Any) -> asyncio.Future[Ending]:
        self.last += 1
        order = a_task(function, *args, task=self.last, **more)
        self.runner.start(order)
        return self.bench.ending_of(order.attempt)

    async def end(self, function: Function, *args: Any, **more: Any) -> Ending:
        return await self.start(function, *args, **more)

    async def value(self, function: Function, *args: Any, **more: Any) -> Any:
        ending = await self.end(function, *args, **more)
        assert (ending.cause, ending.exit_code, ending.note) == (Cause.EXIT, 0, ""), ending
        return open_result(ending.result)

    async def error(self, function: Function, *args: Any, **more: Any) -> BaseException:
        ending = await self.end(function, *args, **more)
        assert ending.cause is Cause.RAISED, ending
        return open_error(ending.result)


def run_with_bench(
    folder: Path, test: Callable[[FunctionBench], Awaitable[None]], grace: float = 20.0, **more: Any
) -> None:
    async def go() -> None:
        async with a_bench(folder, grace, **more) as bench:
            await test(FunctionBench(bench))

    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(ROOT)
        asyncio.run(go())
