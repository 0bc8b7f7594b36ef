"""A job for programs on asyncio: methods that read its rows, output and results, and methods that change it."""

import asyncio
from collections.abc import AsyncGenerator, Iterable, Iterator, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final

from gandy.client.checks import Duration, to_seconds
from gandy.client.connection import Connection, check_progress
from gandy.client.function_sets import FunctionSets
from gandy.client.output import OutputReader
from gandy.client.repeats import refusal_pauses, return_pauses
from gandy.client.shown import Shown, find_own_loop, list_job_renderings
from gandy.core.model import FINAL_JOB_STATES, FINAL_STATES, JobSpec, PythonSpec, TaskState
from gandy.core.requests import (
    CancelJob,
    Explained,
    ExplainJob,
    ForgetJobs,
    Forgotten,
    HoldJob,
    JobFound,
    ListAttempts,
    ListResults,
    ListTasks,
    ReleaseJob,
    Results,
    RetryJob,
    ShowJob,
    TaskList,
    TaskOutput,
    WatchJob,
)
from gandy.core.rows import JobRow, TaskRow
from gandy.errors import ConfigError, JobMoved, JobNotFound, JobTimeout, LinkError, Rejected
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_NAMED_TASKS

if TYPE_CHECKING:
    from gandy.notebook.display import Renderings

# Jobs or tasks in one answer. With the end of each task's standard error, an answer stays below the payload limit.
PAGE: Final = 1_000


class AsyncJob(Shown):
    """A job that was submitted. It holds a number and no state: each method asks the foreman."""

    def __init__(self, connection: Connection, function_sets: FunctionSets, job: JobId) -> None:
        self._connection = connection
        self._function_sets = function_sets
        self._output = OutputReader(connection, job)
        self.id = job

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.id})"

    def _list_renderings(self) -> "Renderings":
        return list_job_renderings(self)

    def _find_connection(self) -> Connection:
        return self._connection

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        return find_own_loop()

    async def wait(self, timeout: Duration | None = None) -> JobRow:
        """Wait until the job has ended in any way, also if the foreman is away for a while.

        If this client runs functions in the job, it adds no more of them: its next function opens another job.

        Raises: JobTimeout, JobNotFound, ConfigError.
        """
        seconds = to_seconds("timeout", timeout)
        self._function_sets.close_job(self.id)
        try:
            async with asyncio.timeout(seconds):
                async for row in self.watch():
                    if row.state in FINAL_JOB_STATES:
                        break
                return row
        except TimeoutError:
            raise JobTimeout(f"job {self.id} did not end within {seconds:g} seconds; it goes on") from None

    async def watch(self) -> AsyncGenerator[JobRow, None]:
        """Iterate over the job's row, now and after each change, until it has ended, also if the foreman is away."""
        pauses, moved_pauses = return_pauses(), refusal_pauses()
        while True:
            try:
                async with aclosing(self._connection.watch(WatchJob(self.id), JobFound)) as events:
                    async for found in events:
                        pauses, moved_pauses = return_pauses(), refusal_pauses()
                        yield found.row
                        if found.row.state in FINAL_JOB_STATES:
                            return
            except LinkError:
                await asyncio.sleep(next(pauses))
            except JobMoved:
                await asyncio.sleep(next(moved_pauses))

    async def status(self) -> JobRow:
        return (await self._connection.ask(ShowJob(self.id), JobFound)).row

    async def tasks(self, states: Iterable[TaskState] | None = None) -> AsyncGenerator[TaskRow, None]:
        """Iterate over all tasks, or those in some states, by number, each with its last attempt."""
        async for rows in self.task_pages(states):
            for row in rows:
                yield row

    async def task_pages(self, states: Iterable[TaskState] | None = None) -> AsyncGenerator[Sequence[TaskRow], None]:
        """Iterate over the same tasks, many at a time."""
        wanted = None if states is None else tuple(states)
        after = TaskNumber(0)
        while rows := (await self._connection.ask(ListTasks(self.id, wanted, PAGE, after), TaskList)).rows:
            check_progress(rows[-1].task > after)
            yield rows
            after = rows[-1].task

    async def attempts(self, task: int = 1) -> tuple[TaskRow, ...]:
        """List all attempts at one task, the first one first."""
        found: list[TaskRow] = []
        number = TaskNumber(task)
        while rows := (
            await self._connection.ask(ListAttempts(self.id, number, found[-1].attempt if found else 0), TaskList)
        ).rows:
            check_progress(not found or rows[0].attempt > found[-1].attempt)
            found += rows
        return tuple(found)

    def output(self, task: int = 1, stream: str = "out", follow: bool = False) -> AsyncGenerator[bytes, None]:
        """Read what the last attempt at a task wrote, piece by piece. With `follow`, until the attempt has ended.

        Raises: JobNotFound, Rejected, and without `follow` LinkError.
        """
        return self._output.read(task, stream, follow)

    async def outputs(self, stream: str = "out") -> AsyncGenerator[TaskOutput, None]:
        """Read what the last attempts at all tasks wrote, by task number; long output comes in several pieces.

        A task whose output cannot be read has a `problem` instead. Raises: JobNotFound, LinkError.
        """
        async for rows in self.output_pages(stream):
            for row in rows:
                yield row

    def output_pages(self, stream: str = "out") -> AsyncGenerator[Sequence[TaskOutput], None]:
        """Read the same output, many tasks at a time."""
        return self._output.read_all(stream)

    async def results(self) -> AsyncGenerator[Any, None]:
        """Wait for a job of Python functions, and iterate over its return values in the order of its tasks.

        Raises: what a function raised, or TaskFailed, in place of its value; ConfigError for a job of shell lines.
        """
        from gandy.client.results import open_row  # slow to import, and many programs run no functions

        python = self._check_python((await self.wait()).spec)
        after, is_last = TaskNumber(0), False
        while not is_last:
            found = await self._connection.ask(ListResults(self.id, after), Results)
            for row in found.rows:
                check_progress(row.task > after)
                whole = await self._output.fetch_result(row)
                for value in open_row(whole, is_chunk=python.has_shared):
                    yield value
                after = row.task
            is_last = found.is_last

    async def result(self, task: int = 1, timeout: Duration | None = None) -> Any:
        """Wait until one task of Python functions has ended, and return its value; of a chunk, the list of its values.

        The job may stay open, and other tasks go on.

        Raises: what the function raised, TaskFailed, CancelledError; JobTimeout, JobNotFound; ConfigError.
        """
        seconds = to_seconds("timeout", timeout)
        try:
            async with asyncio.timeout(seconds):
                return await self._wait_for_result(TaskNumber(task))
        except TimeoutError:
            late = f"task {task} of job {self.id} did not end within {seconds:g} seconds"
            raise JobTimeout(f"{late}; it goes on") from None

    async def _wait_for_result(self, task: TaskNumber) -> Any:
        from gandy.client.results import open_row  # slow to import, and many programs run no functions

        after = TaskNumber(task - 1)
        async with aclosing(self.watch()) as changes:
            async for job in changes:
                python = self._check_python(job.spec)
                found = (await self._connection.ask(ListTasks(self.id, None, 1, after), TaskList)).rows
                is_there = bool(found) and found[0].task == task
                if is_there and found[0].state in FINAL_STATES:
                    break
                if not is_there and not self._function_sets.has_task(self.id, task):  # it may be on its way
                    raise JobNotFound(f"job {self.id} has no task {task}")
        row = (await self._connection.ask(ListResults(self.id, after), Results)).rows[0]
        values = open_row(await self._output.fetch_result(row), is_chunk=python.has_shared)
        return list(values) if python.has_shared else next(values)

    def _check_python(self, spec: JobSpec) -> PythonSpec:
        """Raises: ConfigError, for a job of shell lines."""
        if spec.python is None:
            raise ConfigError(f"job {self.id} runs commands, which have no values; read its output")
        return spec.python

    async def cancel(self, tasks: Iterable[int] | None = None) -> JobRow:
        """Cancel the whole job, or some of its tasks. What runs is killed."""
        for part in _split_tasks(tasks):
            row = (await self._connection.ask(CancelJob(self.id, part), JobFound)).row
        if tasks is None:
            self._function_sets.close_job(self.id, is_cancelled=True)
        return row

    async def retry(self, tasks: Iterable[int] | None = None) -> JobRow:
        """Retry the tasks that failed or were cancelled: all of them, or those that are named."""
        for part in _split_tasks(tasks):
            found = await self._connection.ask(RetryJob(self.id, part), JobFound)
        return found.row

    async def hold(self) -> JobRow:
        """Start no more tasks; what runs goes on."""
        return (await self._connection.ask(HoldJob(self.id), JobFound)).row

    async def release(self) -> JobRow:
        """Start tasks again after `hold`."""
        return (await self._connection.ask(ReleaseJob(self.id), JobFound)).row

    async def forget(self) -> None:
        """Delete everything about the job, which must have ended. Raises: JobNotFound, Rejected."""
        for kept in (await self._connection.ask(ForgetJobs((self.id,)), Forgotten)).kept:
            raise JobNotFound(kept.problem) if kept.is_unknown else Rejected(kept.problem)

    async def explain(self, task: int | None = None) -> tuple[str, ...]:
        """Explain why tasks wait, or how they failed, in sentences."""
        number = None if task is None else TaskNumber(task)
        return (await self._connection.ask(ExplainJob(self.id, number), Explained)).lines


def _split_tasks(tasks: Iterable[int] | None) -> Iterator[tuple[TaskNumber, ...] | None]:
    """Split tasks into parts that one request may name; None, for all tasks, is one part."""
    if tasks is None:
        yield None
        return
    named = tuple(TaskNumber(task) for task in tasks)
    for begin in range(0, max(1, len(named)), MAX_NAMED_TASKS):
        yield named[begin : begin + MAX_NAMED_TASKS]
