"""Calls of commands through real processes: values, errors, streams, deadlines, and many at once."""

import asyncio
import math
import os
import threading
from collections import deque
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import pytest
from tests.e2e.crew import PATIENCE
from tests.e2e.kitchens import SOON, Kitchen, a_kitchen, read_lines
from tests.processes import is_alive
from tests.waiting import until, until_async

import gandy
from gandy.core.model import JobState
from gandy.errors import CallFailed, CallTimeout, LinkError, UnknownCommand
from gandy.functions import NotPicklable, RemoteTraceback
from gandy.limits import MAX_PIECE_BYTES
from gandy.wire.calls import FRAME_COST, WINDOW_BYTES

SLOTS = 4
LARGE = 30_000_000  # bytes


@pytest.fixture(scope="module")
def kitchen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Kitchen]:
    with a_kitchen(tmp_path_factory.mktemp("home"), slots=SLOTS) as kitchen:
        yield kitchen


@pytest.fixture
def client(kitchen: Kitchen) -> Iterator[gandy.Client]:
    with gandy.Client(kitchen.address) as client:
        yield client


@pytest.fixture
def own_kitchen(tmp_path: Path) -> Iterator[Kitchen]:
    """For tests that would leave others without slots, should they fail. Every slot comes back."""
    with a_kitchen(tmp_path, slots=SLOTS) as kitchen:
        yield kitchen
        until(lambda: kitchen.count_calls() == 0)


@pytest.fixture
def own_client(own_kitchen: Kitchen) -> Iterator[gandy.Client]:
    with gandy.Client(own_kitchen.address) as client:
        yield client


# Values


@pytest.mark.parametrize("name", ["echo", "later"])
@pytest.mark.parametrize("value", [None, True, 0, -(2**63), 2**64 - 1, 0.5, "ü", [1, [2]], {"a": {"b": 1}}, bytes(256)])
def test_value_comes_back_as_it_was(client: gandy.Client, name: str, value: object) -> None:
    assert client.call(name, value) == value


def test_call_gives_its_value_however_the_command_runs(client: gandy.Client) -> None:
    assert client.call("ping") == "pong"
    assert client.call("add", 1, 2) == 3
    assert client.call("later", 3) == 3
    squared, pid = client.call("square", 7)
    assert squared == 49
    assert pid not in (os.getpid(), client.call("get_pid"))


def test_call_can_be_awaited(kitchen: Kitchen) -> None:
    async def go(client: gandy.AsyncClient) -> None:
        added, waited, (squared, _) = await asyncio.gather(
            client.call("add", 1, 2), client.call("later", 3), client.call("square", 7)
        )
        assert (added, waited, squared) == (3, 3, 49)

    kitchen.talk(go)


@pytest.mark.parametrize("name", ["count", "count_async"])
@pytest.mark.parametrize("length", [0, 1, 5_000])
def test_generator_is_a_stream(kitchen: Kitchen, client: gandy.Client, name: str, length: int) -> None:
    async def go(client: gandy.AsyncClient) -> list[int]:
        return [value async for value in client.stream(name, length)]

    assert list(client.stream(name, length)) == kitchen.talk(go) == list(range(length))


def test_built_in_stream_has_so_many_bytes(client: gandy.Client) -> None:
    assert b"".join(client.stream("stream", 100_001)) == b"\1" * 100_001
    assert list(client.stream("stream", 0)) == []


def test_stream_of_what_gives_one_value_has_one(client: gandy.Client) -> None:
    assert list(client.stream("add", 1, 2)) == list(client.stream("later", 3)) == [3]
    assert list(client.stream("ping")) == ["pong"]


def test_bytes_pass_untouched_wherever_they_are(client: gandy.Client) -> None:
    every = bytes(range(256))
    assert client.call("echo", [every, {"deep": every}, "text"]) == [every, {"deep": every}, "text"]
    assert client.call("add", every, b"\xff\x00") == every + b"\xff\x00"


def test_pickles_carry_what_msgpack_cannot(client: gandy.Client) -> None:
    assert client.call("add", 1j, 2, pickle=True) == 2 + 1j
    assert client.call("echo", {1, 2}, pickle=True) == {1, 2}
    assert client.call("square", 3, pickle=True)[0] == 9
    assert list(client.stream("count", 3, pickle=True)) == [0, 1, 2]


def test_what_cannot_be_sent_fails_at_the_sender(client: gandy.Client) -> None:
    with pytest.raises(TypeError, match="cannot be sent as msgpack"):
        client.call("echo", object())
    with pytest.raises(NotPicklable):
        client.call("echo", threading.Lock(), pickle=True)
    with pytest.raises(CallFailed, match="the value of give_object cannot be sent as msgpack"):
        client.call("give_object")
    with pytest.raises(ValueError, match="name has 1 to 255 bytes"):
        client.call("x" * 256)
    with pytest.raises(TypeError, match="keyword argument 'speed'"):
        client.call("ping", speed=9)  # type: ignore[call-arg]


@pytest.mark.parametrize("size", [65_520, 65_536, 65_537, WINDOW_BYTES, WINDOW_BYTES + 1, 1_000_000, LARGE])
@pytest.mark.parametrize("name", ["echo", "later"])
def test_large_arguments_and_values_go_whole(client: gandy.Client, name: str, size: int) -> None:
    data = os.urandom(min(size, 1_000_000)) * -(-size // 1_000_000)
    assert client.call(name, data[:size]) == data[:size]


def test_large_values_of_processes_go_whole(client: gandy.Client) -> None:
    assert client.call("make_isolated", 5_000_000) == b"x" * 5_000_000
    assert client.call("add", b"x" * 5_000_000, b"y", pickle=True) == b"x" * 5_000_000 + b"y"


def test_values_that_are_larger_than_the_window_are_streamed_whole(client: gandy.Client, tmp_path: Path) -> None:
    values = client.stream("write_many", str(tmp_path / "book"), 10, 2_000_000)
    assert [len(value) for value in values] == [2_000_000] * 10


def test_large_calls_do_not_keep_small_ones_of_others_waiting(kitchen: Kitchen, client: gandy.Client) -> None:
    """Small ones come and go while the large one is under way: before its first byte has left, until it has ended."""
    text = f"""
import gandy
with gandy.Client({kitchen.address!r}) as client:
    data = bytes({LARGE})
    print("began", flush=True)
    assert client.call("later", data) == data
    print("ended", flush=True)
"""
    with kitchen.start_program(text) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == b"began\n"
        os.set_blocking(program.stdout.fileno(), False)
        count = 0
        while program.stdout.read() is None:
            assert client.call("add", count, 1) == count + 1
            count += 1
        assert program.wait(PATIENCE) == 0
    assert count > 20


# Errors


@pytest.mark.parametrize("name", ["fail", "fail_isolated"])
def test_failed_call_tells_what_was_raised_and_where(client: gandy.Client, name: str) -> None:
    with pytest.raises(CallFailed) as caught:
        client.call(name, "no")
    assert caught.value.kind == "ValueError"
    assert str(caught.value) == "ValueError: no"
    assert f"in {name}" in caught.value.trace
    assert any(f"in {name}" in note for note in caught.value.__notes__)


def test_failed_call_tells_the_notes_of_what_was_raised(client: gandy.Client) -> None:
    with pytest.raises(CallFailed) as caught:
        client.call("fail", "no")
    assert "a note from the worker" in caught.value.trace


def test_failed_coroutine_tells_what_was_raised(kitchen: Kitchen) -> None:
    async def go(client: gandy.AsyncClient) -> None:
        with pytest.raises(CallFailed, match=r"^KeyError: 'no'") as caught:
            await client.call("fail_async", "no")
        assert caught.value.kind == "KeyError"

    kitchen.talk(go)


@pytest.mark.parametrize("name", ["fail", "fail_isolated"])
def test_with_pickles_an_exception_comes_back_as_itself(client: gandy.Client, name: str) -> None:
    with pytest.raises(ValueError, match=r"^no") as caught:
        client.call(name, "no", pickle=True)
    assert isinstance(caught.value.__cause__, RemoteTraceback)
    assert f"in {name}" in str(caught.value.__cause__)


def test_with_pickles_an_exception_keeps_its_notes(client: gandy.Client) -> None:
    with pytest.raises(ValueError) as caught:
        client.call("fail", "no", pickle=True)
    assert caught.value.__notes__ == ["a note from the worker"]


def test_exception_that_no_future_takes_does_not_break_the_link(own_kitchen: Kitchen) -> None:
    async def go(client: gandy.AsyncClient) -> None:
        other = client.call("later", "other")
        with pytest.raises(Exception, match="StopIteration"):
            await asyncio.wait_for(client.call("stop_iteration", pickle=True), SOON)
        assert await other == "other"

    own_kitchen.talk(go)


def test_exception_with_text_that_is_no_text_is_told(own_client: gandy.Client) -> None:
    """As of a file whose name is not UTF-8."""
    for _ in range(SLOTS + 1):  # and no slot is lost
        with pytest.raises(CallFailed, match="ValueError") as caught:
            own_client.call("fail_about_file", b"dish-\xe9", timeout=SOON)
        assert caught.value.kind == "ValueError"


def test_wrong_arguments_are_the_callers_error(client: gandy.Client) -> None:
    with pytest.raises(CallFailed, match="missing 1 required positional argument"):
        client.call("add", 1)
    with pytest.raises(CallFailed, match="takes 0 positional arguments but 1 was given"):
        client.call("ping", 1)


def test_call_of_a_generator_says_that_it_is_a_stream(client: gandy.Client) -> None:
    for name in ("count", "count_async"):
        with pytest.raises(CallFailed, match=r"returns a stream: use stream\(\)"):
            client.call(name, 3)


# Streams


@pytest.mark.parametrize("name", ["endless", "endless_async"])
@pytest.mark.parametrize("size", [1, 500_000])
def test_stream_that_is_closed_early_ends_the_generator(
    client: gandy.Client, tmp_path: Path, name: str, size: int
) -> None:
    book = tmp_path / "book"
    values = client.stream(name, str(book), size)
    assert len(next(values)) == size
    values.close()  # type: ignore[attr-defined]
    until(lambda: read_lines(book)[-1:] == ["closed"])


@pytest.mark.parametrize("name", ["endless", "endless_async"])
def test_stream_that_is_left_early_ends_the_generator(kitchen: Kitchen, tmp_path: Path, name: str) -> None:
    book = tmp_path / "book"

    async def go(client: gandy.AsyncClient) -> None:
        async with client.stream(name, str(book), 10) as values:
            async for _ in values:
                break
        await until_async(lambda: read_lines(book)[-1:] == ["closed"])

    kitchen.talk(go)


@pytest.mark.parametrize("name", ["count_and_fail", "count_and_fail_async"])
@pytest.mark.parametrize("length", [0, 3, 5_000])
def test_error_in_a_stream_comes_after_the_values_before_it(client: gandy.Client, name: str, length: int) -> None:
    values = client.stream(name, length)
    assert [next(values) for _ in range(length)] == list(range(length))
    with pytest.raises(CallFailed, match="ValueError: no more"):
        next(values)


@pytest.mark.parametrize("name", ["endless", "endless_async"])
@pytest.mark.parametrize("size", [1, 20_000, 3_000_000])
def test_slow_reader_stops_the_producer(client: gandy.Client, tmp_path: Path, name: str, size: int) -> None:
    book = tmp_path / "book"
    pieces = -(-size // MAX_PIECE_BYTES)
    window = -(-WINDOW_BYTES // (size + 5 + pieces * FRAME_COST))  # values that fill it; msgpack adds up to 5 bytes
    values = client.stream(name, str(book), size)
    next(values)
    until(lambda: len(read_lines(book)) >= window)
    for number in range(100):  # whatever was on its way has arrived
        assert client.call("add", number, 0) == number
    assert len(read_lines(book)) <= 1.1 * window + 5
    for _ in range(2 * window):
        next(values)
    assert window < len(read_lines(book)) <= 4.5 * window + 10
    values.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("name", ["endless", "endless_async"])
def test_stream_that_takes_too_long_ends_with_that(client: gandy.Client, tmp_path: Path, name: str) -> None:
    book = tmp_path / "book"
    values = client.stream(name, str(book), 10, timeout=0.5)
    with pytest.raises(CallTimeout):
        deque(values, 0)
    until(lambda: read_lines(book)[-1:] == ["closed"])


def test_stream_that_is_closed_before_there_is_a_link_never_runs(own_kitchen: Kitchen, tmp_path: Path) -> None:
    book = tmp_path / "book"

    async def go() -> None:
        client = gandy.AsyncClient(own_kitchen.address)
        await client.stream("endless_async", str(book), 100_000).aclose()
        async with client:
            assert [await client.call("later", number) for number in range(10)] == list(range(10))
            assert own_kitchen.count_calls() == 0

    asyncio.run(asyncio.wait_for(go(), PATIENCE))
    assert read_lines(book) == []


def test_many_streams_at_once_do_not_wait_for_each_other(kitchen: Kitchen, tmp_path: Path) -> None:
    """The first one is never read to its end, and all the others are."""

    async def drain(values: AsyncIterator[bytes]) -> int:
        return sum([len(value) async for value in values])

    async def go(client: gandy.AsyncClient) -> list[int]:
        async with client.stream("endless", str(tmp_path / "book"), 50_000) as stopped:
            await anext(stopped)
            sums = await asyncio.gather(*(drain(client.stream("stream", 1_000_000)) for _ in range(20)))
            await anext(stopped)
        return sums

    assert kitchen.talk(go) == [1_000_000] * 20


# Casts


def test_cast_runs_and_says_nothing(client: gandy.Client, tmp_path: Path) -> None:
    book = tmp_path / "book"
    for text in ("one", "two"):
        client.cast("write", str(book), text)
    client.cast("fail", "no client hears of it")
    until(lambda: sorted(read_lines(book)) == ["one", "two"])


def test_cast_with_large_arguments_runs(client: gandy.Client, tmp_path: Path) -> None:
    book = tmp_path / "book"
    client.cast("write", str(book), "x" * 3_000_000)
    until(lambda: read_lines(book) == ["x" * 3_000_000])


@pytest.mark.parametrize("size", [1, 100_000])
def test_cast_of_a_generator_runs_to_its_end(own_client: gandy.Client, tmp_path: Path, size: int) -> None:
    book = tmp_path / "book"
    own_client.cast("write_many", str(book), 30, size)
    until(lambda: read_lines(book)[-1:] == ["closed"])


@pytest.mark.parametrize("name", ["make", "make_isolated"])
def test_cast_whose_value_is_large_returns_its_slot(own_kitchen: Kitchen, own_client: gandy.Client, name: str) -> None:
    for _ in range(SLOTS + 1):
        own_client.cast(name, 1_000_000)
    assert own_client.call("add", 1, 2, timeout=SOON) == 3


# Deadlines and cancellation


def test_coroutine_that_takes_too_long_is_cancelled(client: gandy.Client, tmp_path: Path) -> None:
    book = tmp_path / "book"
    with pytest.raises(CallTimeout, match="hold_async did not end in time"):
        client.call("hold_async", str(book), str(tmp_path / "never"), timeout=1)
    until(lambda: read_lines(book) == ["began", "cancelled", "ended"])


@pytest.mark.parametrize("timeout", [None, 10**12, math.inf])
def test_time_may_be_endless(client: gandy.Client, timeout: float | None) -> None:
    assert client.call("add", 1, 2, timeout=timeout) == 3
    assert list(client.stream("count", 2, timeout=timeout)) == [0, 1]


def test_call_that_is_cancelled_is_cancelled_on_the_worker(kitchen: Kitchen, tmp_path: Path) -> None:
    book = tmp_path / "book"

    async def go(client: gandy.AsyncClient) -> None:
        async def wait() -> Any:
            return await client.call("hold_async", str(book), str(tmp_path / "never"))

        waiting = asyncio.create_task(wait())
        await until_async(lambda: read_lines(book) == ["began"])
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await until_async(lambda: read_lines(book) == ["began", "cancelled", "ended"])

    kitchen.talk(go)


@pytest.mark.parametrize("size", [4, 1_000_000])
def test_function_whose_caller_gave_up_returns_its_slot_when_it_ends(
    own_kitchen: Kitchen, own_client: gandy.Client, tmp_path: Path, size: int
) -> None:
    book, go = tmp_path / "book", tmp_path / "go"
    for _ in range(SLOTS):
        with pytest.raises(CallTimeout):
            own_client.call("hold", str(book), str(go), size, timeout=0.3)
    assert own_kitchen.count_calls() == SLOTS  # a thread cannot be stopped
    go.touch()
    assert own_client.call("add", 1, 2, timeout=SOON) == 3
    until(lambda: own_kitchen.count_calls() == 0)


def test_large_arguments_can_be_cancelled_half_way(own_kitchen: Kitchen) -> None:
    async def go(client: gandy.AsyncClient) -> None:
        for _ in range(SLOTS + 1):
            large = client.call("measure", bytes(LARGE))
            await asyncio.gather(*(client.call("ping") for _ in range(3)))
            large.cancel()
        assert await client.call("add", 1, 2) == 3
        await until_async(lambda: own_kitchen.count_calls() == 0)

    own_kitchen.talk(go)


def test_expired_call_never_reaches_a_worker(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen, gandy.Client(kitchen.address) as client:
        book, other, go = tmp_path / "book", tmp_path / "other", tmp_path / "go"
        client.cast("hold", str(book), str(go))
        until(lambda: read_lines(book) == ["began"])
        with pytest.raises(CallTimeout):
            client.call("write", str(other), "late", timeout=0.1)
        go.touch()
        assert client.call("add", 1, 2) == 3
        assert read_lines(other) == []


def test_isolated_call_that_is_cancelled_is_killed(kitchen: Kitchen, tmp_path: Path) -> None:
    book = tmp_path / "book"

    async def go(client: gandy.AsyncClient) -> None:
        call = client.call("hold_isolated", str(book), str(tmp_path / "never"))
        await until_async(lambda: len(read_lines(book)) == 1)
        call.cancel()
        await until_async(lambda: not is_alive(int(read_lines(book)[0])))
        assert (await client.call("square", 3))[0] == 9

    kitchen.talk(go)


def test_crash_of_a_process_fails_its_call_only(kitchen: Kitchen, tmp_path: Path) -> None:
    book, path = tmp_path / "book", tmp_path / "go"

    async def go(client: gandy.AsyncClient) -> None:
        held = client.call("hold_isolated", str(book), str(path))
        await until_async(lambda: len(read_lines(book)) == 1)
        with pytest.raises(CallFailed, match=r"its process died: .*SIGSEGV"):
            await client.call("crash")
        path.touch()
        assert await held == "held"
        assert (await client.call("square", 3))[0] == 9

    kitchen.talk(go)


# Many


def test_thousand_calls_in_flight_from_one_client_all_end(kitchen: Kitchen, tmp_path: Path) -> None:
    """All of them wait while the slots are held, so they are under way at the same time."""
    book, path = tmp_path / "book", tmp_path / "go"

    async def go(client: gandy.AsyncClient) -> None:
        held = [client.call("hold", str(book), str(path)) for _ in range(SLOTS)]
        await until_async(lambda: len(read_lines(book)) == SLOTS)
        calls = [client.call("add", number, 1) for number in range(1_000)]
        await client.workers()  # the foreman has read all that was written before
        assert not any(call.done() for call in calls)
        path.touch()
        await asyncio.gather(*held)
        assert await asyncio.gather(*calls) == list(range(1, 1_001))

    kitchen.talk(go)


def test_calls_that_wait_go_out_in_their_order(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, slots=1) as kitchen:
        book, order, path = tmp_path / "book", tmp_path / "order", tmp_path / "go"

        async def go(client: gandy.AsyncClient) -> None:
            held = client.call("hold", str(book), str(path))
            await until_async(lambda: read_lines(book) == ["began"])
            calls = [client.call("write", str(order), str(number)) for number in range(50)]
            path.touch()
            await asyncio.gather(held, *calls)

        kitchen.talk(go)
        assert read_lines(order) == [str(number) for number in range(50)]


# Several workers


def test_call_all_asks_every_worker_that_offers_it(tmp_path: Path) -> None:
    with a_kitchen(tmp_path) as kitchen, gandy.Client(kitchen.address) as client:
        pids = [kitchen.hire(name).busy_pid for name in ("w1", "w2")]
        replies = client.call_all("get_pid")
        assert [(reply.worker, reply.get()) for reply in replies] == list(zip(("w1", "w2"), pids, strict=True))
        for reply in client.call_all("fail", "no"):
            assert isinstance(reply.error, CallFailed)
            with pytest.raises(CallFailed, match="ValueError: no"):
                reply.get()
        assert [type(reply.error) for reply in client.call_all("fail", "no", pickle=True)] == [ValueError] * 2
        large = client.call_all("later", bytes(1_000_000))
        assert [len(reply.get()) for reply in large] == [1_000_000] * 2
        assert {client.call("get_pid") for _ in range(4)} == set(pids)  # the least recently used one comes first


PROGRAM = """
import gandy
worker = gandy.Worker(name="w1", slots=2)

@worker.command
def install(name: str) -> None:
    worker.command(name=name)(lambda: name)

@worker.command
def uninstall(name: str) -> None:
    worker.remove(name)

if __name__ == "__main__":
    worker.run()
"""


@pytest.mark.parametrize("is_program", [True, False], ids=["program", "module"])
def test_commands_come_and_go_while_the_worker_runs(tmp_path: Path, is_program: bool) -> None:
    with a_kitchen(tmp_path) as kitchen, gandy.Client(kitchen.address) as client:
        (tmp_path / "menu.py").write_text(PROGRAM)
        kitchen.environment["PYTHONPATH"] = str(tmp_path)
        if is_program:
            program = kitchen.start_program(PROGRAM)
            kitchen.until_offered("install")
        else:
            kitchen.hire(commands="menu")
        try:
            client.call("install", "soup")
            assert client.call("soup", timeout=SOON) == "soup"
            assert "soup" in kitchen.list_offers("w1")
            client.call("uninstall", "soup")
            assert "soup" not in kitchen.list_offers("w1")
            with pytest.raises(UnknownCommand):
                client.call_all("soup")
            client.call("install", "soup")
            assert client.call("soup", timeout=SOON) == "soup"
        finally:
            if is_program:
                program.terminate()
                _, said = program.communicate(timeout=PATIENCE)
                assert (program.returncode, b"Traceback" in said) == (0, False)


SERVICE: Final = """
import os, threading
import gandy
worker = gandy.Worker(name="adder", slots=2)
together = threading.Barrier(2)

@worker.command
def meet() -> int:
    return together.wait()

@worker.command(isolate=True)
def alone() -> int:
    return os.getpid()

worker.run()
"""


def test_program_with_commands_takes_no_jobs(tmp_path: Path) -> None:
    with a_kitchen(tmp_path) as kitchen, gandy.Client(kitchen.address) as client:
        program = kitchen.start_program(SERVICE)
        kitchen.until_offered("meet", "adder")
        try:
            jobs = [client.submit("true", tasks=50), client.submit("true")]
            function = client.run(pow, 2, 3)
            with ThreadPoolExecutor(2) as pool:  # both slots answer calls
                assert sorted(pool.map(lambda _: client.call("meet", timeout=SOON), range(2))) == [0, 1]
            assert client.call("alone", timeout=SOON) != program.pid
            assert ["only answer calls" in " ".join(job.explain()) for job in jobs] == [True, True]
            assert [job.status().counts.waiting for job in jobs] == [50, 1]
            kitchen.hire("w2")
            assert [job.wait(SOON).state for job in jobs] == [JobState.FINISHED] * 2
            assert function.result(SOON) == 8
            assert {task.worker for task in jobs[0].tasks()} == {next(iter(jobs[1].tasks())).worker}
            client.stop_worker("adder")
        finally:
            program.terminate()
            _, said = program.communicate(timeout=PATIENCE)
        assert (program.returncode, b"Traceback" in said) == (0, False)


# Clients that end


def test_repeatable_call_ends_with_its_client(own_kitchen: Kitchen, tmp_path: Path) -> None:
    book = tmp_path / "book"

    async def go() -> None:
        client = gandy.AsyncClient(own_kitchen.address)
        call = client.call("hold_async", str(book), str(tmp_path / "never"), repeatable=True)
        await until_async(lambda: read_lines(book) == ["began"])
        await client.close()
        with pytest.raises(LinkError):
            await call
        await until_async(lambda: read_lines(book) == ["began", "cancelled", "ended"])

    asyncio.run(asyncio.wait_for(go(), SOON))


def test_client_can_be_used_by_many_threads(kitchen: Kitchen, client: gandy.Client) -> None:
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda number: client.call("add", number, 1), range(200))) == list(range(1, 201))


# What no worker offers. These come last: a foreman that has just begun waits for workers that may be on their way.


def test_unknown_command_is_told(client: gandy.Client) -> None:
    with pytest.raises(UnknownCommand, match="no worker offers the command dance"):
        client.call("dance")
    with pytest.raises(UnknownCommand, match="dance"):
        list(client.stream("dance"))
    with pytest.raises(UnknownCommand, match="dance"):
        client.call_all("dance")
    client.cast("dance")  # no client hears of it


def test_large_cast_that_no_worker_takes_does_not_hang(kitchen: Kitchen) -> None:
    async def go(client: gandy.AsyncClient) -> None:
        with pytest.raises(UnknownCommand):
            await client.call("dance")
        await asyncio.wait_for(client.cast("dance", bytes(3_000_000)), SOON)
        assert await client.call("ping") == "pong"

    kitchen.talk(go)
