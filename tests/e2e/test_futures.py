"""Futures of calls on a real crew: cancelled, awaited and waited for as those of the standard library are."""

import asyncio
import gc
import os
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from concurrent.futures import CancelledError, as_completed, wait
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.processes import is_alive
from tests.waiting import until, until_async

import gandy
from gandy.core.model import JobState, TaskState
from gandy.errors import ConfigError, JobNotFound, JobTimeout

SLOTS = 2


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", str(SLOTS)):
        yield crew


@pytest.fixture
def client(crew: Crew) -> Iterator[gandy.Client]:
    with gandy.Client(f"unix:{crew.home}/foreman.sock") as client:
        yield client


def begin(folder: Path, number: int) -> int:
    """Note that it began and in which process, and end when the test says so."""
    (folder / f"{number}.part").write_text(str(os.getpid()))
    (folder / f"{number}.part").rename(folder / f"{number}")
    while not (folder / "go").exists():
        time.sleep(0.01)
    return number


def note(folder: Path, number: int) -> int:
    (folder / f"{number}").touch()
    return number


def list_begun(folder: Path) -> set[int]:
    return {int(path.name) for path in folder.iterdir() if path.name.isdigit()}


def find_process(folder: Path, number: int) -> int:
    return int((folder / str(number)).read_text())


# Cancel


def test_calls_that_wait_on_their_worker_are_cancelled_and_never_run(client: gandy.Client, tmp_path: Path) -> None:
    for quick in [client.run(pow, number, 2) for number in range(50)]:  # so that their worker takes more in advance
        quick.result(PATIENCE)
    futures = [client.run(begin, tmp_path, number) for number in range(6)]
    until(lambda: len(list_begun(tmp_path)) == SLOTS)
    until(lambda: sum(future.running() for future in futures) >= SLOTS)
    begun = list_begun(tmp_path)
    assert {number for number, future in enumerate(futures) if future.running()} == begun
    waiting = [future for number, future in enumerate(futures) if number not in begun]
    assert all(future.cancel() and future.cancelled() for future in waiting)
    (tmp_path / "go").touch()
    assert [futures[number].result(PATIENCE) for number in sorted(begun)] == sorted(begun)
    assert client.run(pow, 2, 2).result(PATIENCE) == 4  # whatever was in front of it has run
    assert list_begun(tmp_path) == begun
    assert not any(futures[number].cancel() for number in begun)  # they have ended


def test_calls_that_run_are_killed(client: gandy.Client, tmp_path: Path) -> None:
    futures = [client.run(begin, tmp_path, number) for number in range(SLOTS + 1)]
    until(lambda: sum(future.running() for future in futures) == SLOTS and len(list_begun(tmp_path)) == SLOTS)
    killed = [future for future in futures if future.running()]
    processes = [find_process(tmp_path, number) for number in list_begun(tmp_path)]
    called: list[object] = []
    killed[0].add_done_callback(called.append)
    assert [future.cancel() for future in killed] == [True] * SLOTS
    assert [future.cancelled() for future in killed] == [True] * SLOTS
    assert wait(killed, PATIENCE).done == set(as_completed(killed, PATIENCE)) == set(killed)
    assert called == [killed[0]]
    with pytest.raises(CancelledError):
        killed[0].result()
    until(lambda: not any(map(is_alive, processes)))
    (tmp_path / "go").touch()  # the slots are free for the last one
    (left,) = (future for future in futures if not future.cancelled())
    assert left.result(PATIENCE) in range(SLOTS + 1)
    states = [client.result(futures[0].job, left.number), *(row.state for row in client.job(futures[0].job).tasks())]
    assert states.count(TaskState.CANCELLED) == SLOTS


def test_a_call_that_has_ended_is_not_cancelled(client: gandy.Client) -> None:
    futures = [client.run(pow, number, 2) for number in range(200)]
    cancelled = [future.cancel() for future in futures]
    for number, (future, is_cancelled) in enumerate(zip(futures, cancelled, strict=True)):
        assert future.cancelled() == is_cancelled
        assert is_cancelled or future.result(PATIENCE) == number**2


def test_calls_are_cancelled_from_an_event_loop_without_blocking_it(client: gandy.Client, tmp_path: Path) -> None:
    async def act() -> None:
        future = client.run(begin, tmp_path, 1)
        await until_async(lambda: list_begun(tmp_path) == {1})
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.wrap_future(future), 0.01)
        assert future.cancelled()
        await until_async(lambda: not is_alive(find_process(tmp_path, 1)))

    asyncio.run(act())


def test_what_was_cancelled_with_success_never_runs_and_all_else_does(crew: Crew, tmp_path: Path) -> None:
    with gandy.Executor(f"unix:{crew.home}/foreman.sock") as executor:
        futures = [executor.submit(note, tmp_path, number) for number in range(400)]
        cancelled = {number for number in range(399, -1, -3) if futures[number].cancel()}
        kept = set(range(400)) - cancelled
        assert {futures[number].result(PATIENCE) for number in kept} == kept == list_begun(tmp_path)
        assert all(futures[number].cancelled() for number in cancelled)


def test_a_shutdown_cancels_what_has_not_begun_and_only_that(crew: Crew, tmp_path: Path) -> None:
    executor = gandy.Executor(f"unix:{crew.home}/foreman.sock")
    futures = [executor.submit(begin, tmp_path, number) for number in range(2_000)]
    until(lambda: len(list_begun(tmp_path)) == SLOTS)
    executor.shutdown(wait=False, cancel_futures=True)
    (tmp_path / "go").touch()
    executor.shutdown()
    begun = list_begun(tmp_path)
    assert {future.result() for future in futures if not future.cancelled()} == begun
    assert len(begun) == SLOTS


def test_a_map_that_is_left_cancels_the_rest(client: gandy.Client, tmp_path: Path) -> None:
    (tmp_path / "go").touch()
    values = client.map(begin, [tmp_path] * 5_000, range(5_000))
    assert next(values) == 0
    values.close()  # type: ignore[attr-defined]
    assert client.run(pow, 2, 2).result(PATIENCE) == 4
    assert len(list_begun(tmp_path)) < 5_000


# A job that is cancelled or waited for


def test_a_map_whose_job_is_cancelled_while_it_is_sent_raises_what_is_documented(
    client: gandy.Client, crew: Crew
) -> None:
    def list_open() -> list[int]:
        return [row.job for row in client.jobs([JobState.RUNNING]) if row.spec.name == "cut"]

    def items() -> Iterator[int]:
        yield from range(2_000)
        until(lambda: list_open() != [])
        for job in list_open():
            crew.run("job", "cancel", str(job))  # so the client hears of it while it sends
        yield from range(40_000)

    with pytest.raises(CancelledError):
        list(client.functions(name="cut").map(abs, items()))


def test_calls_of_a_job_that_is_cancelled_are_cancelled(client: gandy.Client, tmp_path: Path) -> None:
    futures = [client.run(begin, tmp_path, number) for number in range(20)]
    until(lambda: len(list_begun(tmp_path)) == SLOTS)
    client.job(futures[0].job).cancel()
    for future in futures:
        with pytest.raises(CancelledError):
            future.result(PATIENCE)
        assert future.cancelled()
    assert client.run(pow, 2, 3).result(PATIENCE) == 8  # in another job


def test_a_client_waits_for_a_job_of_its_own_calls(client: gandy.Client) -> None:
    future = client.run(pow, 2, 3)
    assert client.job(future.job).wait(PATIENCE).counts.finished == 1
    assert list(client.job(future.job).results()) == [8]
    later = client.run(pow, 2, 4)
    assert later.result(PATIENCE) == 16
    assert later.job != future.job


# One result, by its numbers


def double(number: int) -> int:
    if number < 0:
        raise ValueError("negative")
    return 2 * number


def test_a_result_is_asked_for_by_its_numbers_while_the_job_is_open(client: gandy.Client, crew: Crew) -> None:
    futures = [client.run(double, number) for number in (1, -1, 3)]
    job = futures[0].job
    assert client.result(job, futures[0].number) == 2  # no other one is waited for, and the job stays open
    with gandy.Client(f"unix:{crew.home}/foreman.sock") as another:
        assert another.result(job, futures[2].number, timeout="1min") == 6
        with pytest.raises(ValueError, match="negative"):
            another.job(job).result(futures[1].number)
        with pytest.raises(JobNotFound, match=f"job {job} has no task 9"):
            another.result(job, 9)
        with pytest.raises(ConfigError, match="runs commands"):
            another.result(another.submit("true"))
        assert another.job(job).status().state is JobState.RUNNING
    later = client.run(double, 4)
    assert (later.job, client.result(later.job, later.number)) == (job, 8)


def test_a_result_of_a_chunk_is_a_list(client: gandy.Client) -> None:
    assert list(client.functions(name="chunks").map(double, range(5), chunksize=2)) == [0, 2, 4, 6, 8]
    job = next(row.job for row in client.jobs() if row.spec.name == "chunks")
    assert [client.result(job, task) for task in (1, 2, 3)] == [[0, 2], [4, 6], [8]]


def test_a_large_result_is_fetched_from_its_worker(client: gandy.Client) -> None:
    future = client.run(bytes, 3_000_000)
    assert client.result(future.job, future.number) == bytes(3_000_000)


def test_a_result_that_does_not_come_in_time_goes_on(client: gandy.Client, tmp_path: Path) -> None:
    future = client.run(begin, tmp_path, 1)
    with pytest.raises(JobTimeout, match=f"task {future.number} of job {future.job} did not end within 0.1 seconds"):
        client.result(future.job, future.number, timeout=0.1)
    (tmp_path / "go").touch()
    assert client.result(future.job, future.number, timeout=PATIENCE) == 1 == future.result(PATIENCE)


def test_a_result_of_a_cancelled_task_is_an_error(client: gandy.Client, tmp_path: Path) -> None:
    future = client.run(begin, tmp_path, 1)
    until(lambda: list_begun(tmp_path) == {1})
    client.job(future.job).cancel([future.number])
    with pytest.raises(CancelledError):
        client.result(future.job, future.number)


# Coroutine functions


async def double_later(number: int) -> int:
    await asyncio.sleep(0)
    return double(number)


def test_coroutine_functions_run_to_their_end(client: gandy.Client, crew: Crew) -> None:
    assert client.run(double_later, 4).result(PATIENCE) == 8
    assert list(client.map(double_later, range(5), chunksize=2)) == [0, 2, 4, 6, 8]
    with pytest.raises(ValueError, match="negative") as caught:
        client.run(double_later, -1).result(PATIENCE)
    assert "asyncio" not in str(caught.value.__cause__)
    with gandy.Executor(f"unix:{crew.home}/foreman.sock") as executor:
        assert executor.submit(double_later, 3).result(PATIENCE) == 6


# With asyncio


Act = Callable[[gandy.AsyncClient], Awaitable[None]]


@asynccontextmanager
async def listening(crew: Crew) -> AsyncIterator[tuple[gandy.AsyncClient, list[dict[str, Any]]]]:
    """A client, and what the loop complains about."""
    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
    async with asyncio.timeout(PATIENCE), gandy.AsyncClient(f"unix:{crew.home}/foreman.sock") as client:
        yield client, complaints


def run_quietly(crew: Crew, act: Act) -> None:
    """Do it, and see that nothing is left behind that asyncio complains about."""

    async def go() -> None:
        async with listening(crew) as (client, complaints):
            await act(client)
        gc.collect()
        await asyncio.sleep(0)
        assert complaints == []

    asyncio.run(go())


def test_a_call_that_is_no_longer_awaited_is_killed(crew: Crew, tmp_path: Path) -> None:
    async def act(client: gandy.AsyncClient) -> None:
        call = client.run(begin, tmp_path, 1)
        await until_async(lambda: list_begun(tmp_path) == {1})
        process = find_process(tmp_path, 1)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(call, 0.01)
        await until_async(lambda: not is_alive(process))
        assert [await client.run(pow, 2, number) for number in range(SLOTS)] == [1, 2]

    run_quietly(crew, act)


@pytest.mark.parametrize("way", ["task", "await", "gather", "timeout"])
def test_cancelling_who_awaits_cancels_the_call(crew: Crew, tmp_path: Path, way: str) -> None:
    async def wait_for_it(client: gandy.AsyncClient) -> None:
        call = client.run(begin, tmp_path, 1)
        if way == "gather":
            await asyncio.gather(call, client.run(begin, tmp_path, 2))
        elif way == "task":
            await asyncio.create_task(call)
        else:
            await call

    async def act(client: gandy.AsyncClient) -> None:
        waiting = asyncio.create_task(wait_for_it(client))
        await until_async(lambda: 1 in list_begun(tmp_path))
        process = find_process(tmp_path, 1)
        if way == "timeout":
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.01):
                    await waiting
        else:
            waiting.cancel()
            await asyncio.wait({waiting})
        assert waiting.cancelled()
        await until_async(lambda: not is_alive(process))

    run_quietly(crew, act)


def test_calls_are_coroutines_and_futures(crew: Crew) -> None:
    async def act(client: gandy.AsyncClient) -> None:
        assert await asyncio.create_task(client.run(pow, 2, 1)) == 2
        async with asyncio.TaskGroup() as group:
            tasks = [group.create_task(client.run(pow, 2, number)) for number in range(5)]
        assert [task.result() for task in tasks] == [1, 2, 4, 8, 16]
        assert list(await asyncio.gather(client.run(pow, 3, 1), client.run(pow, 3, 2))) == [3, 9]
        assert await asyncio.wait_for(client.run(pow, 2, 5), PATIENCE) == 32
        assert await asyncio.shield(client.run(pow, 2, 6)) == 64
        done, _ = await asyncio.wait({asyncio.create_task(client.run(pow, 2, 7))})
        assert {future.result() for future in done} == {128}
        assert [await each for each in asyncio.as_completed([client.run(pow, 2, 8)])] == [256]
        call = client.run(pow, 2, 9)
        assert await call == await call == 512
        assert isinstance(call, Coroutine)

    run_quietly(crew, act)


def test_an_exception_comes_through_a_task(crew: Crew) -> None:
    async def act(client: gandy.AsyncClient) -> None:
        with pytest.raises(ValueError, match="invalid literal"):
            await asyncio.create_task(client.run(int, "seven"))
        with pytest.raises(RuntimeError, match="StopIteration"):
            await client.run(next, iter(()))
        with pytest.raises(ExceptionGroup) as raised:
            async with asyncio.TaskGroup() as group:
                group.create_task(client.run(int, "seven"))
        assert isinstance(raised.value.exceptions[0], ValueError)

    run_quietly(crew, act)


def test_a_block_that_is_cancelled_cancels_its_calls(crew: Crew, tmp_path: Path) -> None:
    async def work() -> None:
        async with gandy.AsyncClient(f"unix:{crew.home}/foreman.sock") as client:
            calls = [client.run(begin, tmp_path, number) for number in range(SLOTS)]
            await until_async(lambda: len(list_begun(tmp_path)) == SLOTS)
            await asyncio.sleep(PATIENCE)  # awaits none of them
        assert calls == []

    async def act() -> None:
        async with asyncio.timeout(PATIENCE):
            working = asyncio.create_task(work())
            await until_async(lambda: len(list_begun(tmp_path)) == SLOTS)
            working.cancel()
            await asyncio.wait({working})
            assert working.cancelled()
            await until_async(lambda: not any(is_alive(find_process(tmp_path, each)) for each in range(SLOTS)))

    asyncio.run(act())


def test_a_client_that_is_closed_leaves_no_complaint(crew: Crew, tmp_path: Path) -> None:
    async def act(client: gandy.AsyncClient) -> None:
        client.run(begin, tmp_path, 1)
        await until_async(lambda: list_begun(tmp_path) == {1})

    run_quietly(crew, act)
    (tmp_path / "go").touch()


def test_a_map_that_is_left_cancels_the_rest_with_asyncio(crew: Crew, tmp_path: Path) -> None:
    async def act(client: gandy.AsyncClient) -> None:
        (tmp_path / "go").touch()
        values = client.map(begin, [tmp_path] * 5_000, range(5_000))
        assert await anext(values) == 0
        await values.aclose()
        assert await client.run(pow, 2, 2) == 4
        assert len(list_begun(tmp_path)) < 5_000

    run_quietly(crew, act)


def test_a_result_is_asked_for_by_its_numbers_with_asyncio(crew: Crew) -> None:
    async def act(client: gandy.AsyncClient) -> None:
        call = client.run(double_later, 3)
        assert await client.result(await call.find_job(), call.number) == 6 == await call

    run_quietly(crew, act)


def test_a_client_waits_for_a_job_of_its_own_calls_with_asyncio(crew: Crew) -> None:
    async def act(client: gandy.AsyncClient) -> None:
        call = client.run(pow, 2, 3)
        assert await call == 8
        assert [value async for value in client.job(await call.find_job()).results()] == [8]

    run_quietly(crew, act)
