"""kill -9 in the middle of calls: callers hear of it, repeatable calls go on, and nothing runs without a caller."""

import asyncio
import signal
import subprocess
from collections import deque
from pathlib import Path

import pytest
from tests.e2e.crew import PATIENCE
from tests.e2e.kitchens import SOON, Kitchen, a_kitchen, read_lines
from tests.processes import is_alive
from tests.waiting import until, until_async

import gandy
from gandy.errors import LinkError, WorkerLost

CALLS = 100


def test_every_caller_of_a_killed_worker_hears_of_it(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=CALLS) as kitchen:
        book = tmp_path / "book"

        async def go(client: gandy.AsyncClient) -> None:
            async with gandy.AsyncClient(kitchen.address) as other:
                half = CALLS // 2
                calls = [client.call("hold_async", str(book), str(tmp_path / "never")) for _ in range(half)]
                calls += [other.call("hold_async", str(book), str(tmp_path / "never")) for _ in range(half)]
                await until_async(lambda: len(read_lines(book)) == CALLS)
                kitchen.workers[0].kill()
                errors = await asyncio.gather(*calls, return_exceptions=True)
                assert {type(error) for error in errors} == {WorkerLost}
                assert all("w1-" in str(error) for error in errors)

        kitchen.talk(go)
        assert kitchen.count_calls() == 0


def test_stream_of_a_killed_worker_ends_after_the_values_that_came(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen, gandy.Client(kitchen.address) as client:
        values = client.stream("endless", str(tmp_path / "book"), 10)
        next(values)
        kitchen.workers[0].kill()
        with pytest.raises(WorkerLost):
            deque(values, 0)


def test_repeatable_calls_of_a_killed_worker_succeed_elsewhere(tmp_path: Path) -> None:
    with a_kitchen(tmp_path) as kitchen:
        book, path = tmp_path / "book", tmp_path / "go"
        first = kitchen.hire("w1", CALLS)
        kitchen.hire("w2", CALLS)

        async def go(client: gandy.AsyncClient) -> None:
            calls = [client.call("hold_async", str(book), str(path), repeatable=True) for _ in range(CALLS)]
            await until_async(lambda: len(read_lines(book)) == CALLS)
            first.kill()
            await until_async(lambda: len(read_lines(book)) == CALLS + CALLS // 2)  # they had half of them each
            assert not any(call.done() for call in calls)
            path.touch()
            assert await asyncio.gather(*calls) == ["held"] * CALLS

        kitchen.talk(go)


def test_repeatable_call_with_large_arguments_succeeds_elsewhere(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen:
        book, path = tmp_path / "book", tmp_path / "go"

        async def go(client: gandy.AsyncClient) -> None:
            held = client.call("hold_async", str(book), str(path), repeatable=True)
            await until_async(lambda: read_lines(book) == ["began"])
            large = client.call("measure", bytes(5_000_000), repeatable=True)  # waits for the slot
            kitchen.workers[0].kill()
            path.touch()
            await asyncio.to_thread(kitchen.hire, "w2")
            assert (await held, await large) == ("held", 5_000_000)

        kitchen.talk(go)


READER = """
import gandy
with gandy.Client({address!r}) as client:
    values = client.stream({name!r}, {book!r}, 10)
    next(values)
    print("reads", flush=True)
    input()
"""

CALLER = """
import gandy
with gandy.Client({address!r}) as client:
    print("calls", flush=True)
    client.call({name!r}, {book!r}, "/never")
"""


def start(kitchen: Kitchen, program: str, name: str, book: Path) -> subprocess.Popen[bytes]:
    """A client that waits for something."""
    started = kitchen.start_program(program.format(address=kitchen.address, name=name, book=str(book)))
    assert started.stdout is not None
    assert started.stdout.readline()
    return started


def kill(client: subprocess.Popen[bytes]) -> None:
    client.kill()
    client.communicate(timeout=PATIENCE)


@pytest.mark.parametrize("name", ["endless", "endless_async"])
def test_generator_of_a_killed_client_ends(tmp_path: Path, name: str) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen:
        kill(start(kitchen, READER, name, tmp_path / "book"))
        until(lambda: read_lines(tmp_path / "book")[-1:] == ["closed"])
        with gandy.Client(kitchen.address) as client:
            assert client.call("add", 1, 2, timeout=SOON) == 3


def test_calls_of_a_killed_client_are_cancelled_and_those_that_wait_never_run(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen:
        first, second, third = (tmp_path / name for name in ("first", "second", "third"))
        running = start(kitchen, CALLER, "hold_async", first)
        until(lambda: read_lines(first) == ["began"])
        waiting = start(kitchen, CALLER, "hold_async", second)
        kill(waiting)
        kill(running)
        until(lambda: read_lines(first) == ["began", "cancelled", "ended"])
        isolated = start(kitchen, CALLER, "hold_isolated", third)
        until(lambda: len(read_lines(third)) == 1)
        kill(isolated)
        until(lambda: not is_alive(int(read_lines(third)[0])))
        until(lambda: kitchen.count_calls() == 0)
        assert read_lines(second) == []


def test_calls_outlive_the_foreman_where_they_may(tmp_path: Path) -> None:
    """Workers come back by themselves; who called hears of it, unless the call may be repeated."""
    with a_kitchen(tmp_path, slots=2) as kitchen:
        once, again, path = tmp_path / "once", tmp_path / "again", tmp_path / "go"

        async def go(client: gandy.AsyncClient) -> None:
            call = client.call("hold_async", str(once), str(path))
            repeatable = client.call("hold_async", str(again), str(path), repeatable=True)
            await until_async(lambda: read_lines(once) == read_lines(again) == ["began"])
            kitchen.foreman.kill()
            with pytest.raises(LinkError):
                await call
            with pytest.raises(LinkError, match="no foreman is running"):
                await client.call("ping")
            await until_async(lambda: read_lines(once) == ["began", "cancelled", "ended"])  # its caller was gone
            await asyncio.to_thread(kitchen.restart_foreman)
            assert await client.call("add", 1, 2) == 3  # also where the worker is not back yet
            await until_async(lambda: read_lines(again) == ["began", "cancelled", "ended", "began"])
            assert not repeatable.done()
            path.touch()
            assert await repeatable == "held"

        kitchen.talk(go)
        assert read_lines(once) == ["began", "cancelled", "ended"]


def test_stream_ends_with_the_foreman(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen, gandy.Client(kitchen.address) as client:
        book = tmp_path / "book"
        values = client.stream("endless", str(book), 10)
        next(values)
        kitchen.foreman.kill()
        with pytest.raises(LinkError):
            deque(values, 0)
        until(lambda: read_lines(book)[-1:] == ["closed"])
        kitchen.restart_foreman()
        assert client.call("add", 1, 2, timeout=SOON) == 3


@pytest.mark.parametrize("name", ["hold", "hold_async"])
def test_worker_that_is_drained_lets_its_calls_end(tmp_path: Path, name: str) -> None:
    with a_kitchen(tmp_path, slots=2) as kitchen:
        book, path = tmp_path / "book", tmp_path / "go"

        async def go(client: gandy.AsyncClient) -> None:
            call = client.call(name, str(book), str(path))
            await until_async(lambda: read_lines(book) == ["began"])
            await client.stop_worker("w1")
            await asyncio.to_thread(kitchen.hire, "w2")
            assert await client.call("get_pid") == kitchen.workers[1].busy_pid  # the other gets nothing new
            path.touch()
            assert await call in (b"xxxx", "held")

        kitchen.talk(go)
        assert kitchen.workers[0].process.wait(SOON) == 0
        assert "Traceback" not in kitchen.workers[0].log.read_text()


def test_worker_ends_though_a_function_does_not(tmp_path: Path) -> None:
    """A thread cannot be stopped, and must not keep the process."""
    with a_kitchen(tmp_path, slots=1) as kitchen, gandy.Client(kitchen.address) as client:
        book = tmp_path / "book"
        client.cast("hold", str(book), str(tmp_path / "never"))
        until(lambda: read_lines(book) == ["began"])
        (worker,) = kitchen.workers
        worker.process.send_signal(signal.SIGTERM)
        assert worker.process.wait(SOON) == 0


def test_worker_that_is_interrupted_leaves_no_process(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen, gandy.Client(kitchen.address) as client:
        book = tmp_path / "book"
        client.cast("hold_isolated", str(book), str(tmp_path / "never"))
        until(lambda: len(read_lines(book)) == 1)
        (worker,) = kitchen.workers
        worker.process.send_signal(signal.SIGINT)
        assert worker.process.wait(SOON) == 0
        assert not is_alive(int(read_lines(book)[0]))


def test_repeatable_call_whose_process_ends_with_its_worker_succeeds_elsewhere(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen:
        book, path = tmp_path / "book", tmp_path / "go"

        async def go(client: gandy.AsyncClient) -> None:
            call = client.call("hold_isolated", str(book), str(path), repeatable=True)
            await until_async(lambda: len(read_lines(book)) == 1)
            await asyncio.to_thread(kitchen.hire, "w2")
            kitchen.workers[0].process.send_signal(signal.SIGINT)
            await until_async(lambda: len(read_lines(book)) == 2)
            path.touch()
            assert await call == "held"

        kitchen.talk(go)
