"""Function tasks in slot processes: values, exceptions, output, environment."""

import asyncio
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from tests.integration.worker import functions
from tests.integration.worker.function_bench import FunctionBench, run_with_bench
from tests.integration.worker.runner_bench import an_attempt
from tests.processes import is_alive
from tests.waiting import until_async

from gandy.core.model import Cause
from gandy.functions import NotPicklable, RemoteError, RemoteTraceback, open_result, pack_function, pack_items
from gandy.worker.order import Order, PythonOrder


def test_value_comes_back(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        ending = await bench.end(functions.add, 1, 2)
        assert (ending.cause, ending.exit_code, ending.signal, ending.note) == (Cause.EXIT, 0, None, "")
        assert open_result(ending.result) == 3
        assert ending.started is not None
        assert ending.ended is not None
        assert ending.started <= ending.ended
        assert await bench.value(lambda x: x * 2, "ab") == "abab"
        assert await bench.value(functions.nothing) is None

    run_with_bench(tmp_path, go)


def test_next_task_gets_the_same_process(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        first = await bench.value(functions.who)
        assert bench.runner.pool.pids == [first]
        assert await bench.value(functions.who) == first
        assert isinstance(await bench.error(functions.raise_custom), functions.CustomError)
        assert await bench.value(functions.who) == first
        both = await asyncio.gather(bench.value(functions.who), bench.value(functions.who))
        assert first in both
        assert len(set(both)) == 2
        # The one used last comes first.
        assert await bench.value(functions.who) in both

    run_with_bench(tmp_path, go)


def test_exception_comes_back_as_itself_with_its_traceback(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        ending = await bench.end(functions.raise_custom)
        assert (ending.cause, ending.exit_code, ending.note) == (Cause.RAISED, None, "CustomError: 7")
        assert ending.tail.startswith(b"Traceback (most recent call last):\n")
        assert ending.tail.endswith(b"CustomError: 7\n")
        assert b"slot.py" not in ending.tail
        error = await bench.error(functions.raise_custom)
        assert isinstance(error, functions.CustomError)
        assert (error.code, error.hint) == (7, "try the other one")
        assert isinstance(error.__cause__, RemoteTraceback)
        assert "in raise_custom" in error.__cause__.tb

    run_with_bench(tmp_path, go)


def test_cause_and_notes_come_along(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        error = await bench.error(functions.raise_with_cause)
        assert (type(error), error.args, error.__notes__) == (ValueError, ("bad",), ["a note"])
        assert isinstance(error.__cause__, KeyError)
        assert isinstance(error.__cause__.__cause__, RemoteTraceback)

    run_with_bench(tmp_path, go)


@pytest.mark.parametrize(
    ("function", "name", "text"),
    [
        (functions.raise_stubborn, "StubbornError", "too stubborn"),
        (functions.raise_picky, "PickyError", "this and that"),
    ],
)
def test_exception_that_cannot_travel_is_told_in_words(tmp_path: Path, function: Any, name: str, text: str) -> None:
    async def go(bench: FunctionBench) -> None:
        error = await bench.error(function)
        assert isinstance(error, RemoteError)
        assert error.class_name == f"tests.integration.worker.functions.{name}"
        assert error.text == text
        assert f"in {function.__name__}" in error.trace

    run_with_bench(tmp_path, go)


@pytest.mark.parametrize(("code", "note"), [(3, "SystemExit: 3"), (0, "SystemExit: 0"), (None, "SystemExit")])
def test_sys_exit_is_an_exception_and_the_process_stays(tmp_path: Path, code: int | None, note: str) -> None:
    async def go(bench: FunctionBench) -> None:
        pid = await bench.value(functions.who)
        ending = await bench.end(functions.leave, code)
        assert (ending.cause, ending.note, ending.is_success) == (Cause.RAISED, note, False)
        error = await bench.error(functions.leave, code)
        assert isinstance(error, SystemExit)
        assert error.code == code
        assert await bench.value(functions.who) == pid

    run_with_bench(tmp_path, go)


def test_result_that_cannot_be_pickled_is_named(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        error = await bench.error(functions.make_lock)
        assert isinstance(error, NotPicklable)
        expected = "cannot pickle the result of make_lock: a _thread.lock inside dict key 'x', item 0 of a list"
        assert str(error).startswith(expected)

    run_with_bench(tmp_path, go)


def test_module_that_the_worker_lacks_gives_advice(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        python = PythonOrder(b"\x80\x05cno_such_module\nfunction\n.")
        bench.runner.start(Order(attempt=an_attempt(1), command="a task", python=python))
        ending = await bench.bench.ending_of(an_attempt(1))
        assert (ending.cause, ending.note) == (Cause.RAISED, "ModuleNotFoundError: No module named 'no_such_module'")
        assert b"register_pickle_by_value" in ending.tail

    run_with_bench(tmp_path, go)


@pytest.mark.parametrize("how", ["print", "write", "child", "c"])
def test_output_goes_to_the_task_that_wrote_it(tmp_path: Path, how: str) -> None:
    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.say, "one", how)
        await bench.value(functions.nothing)
        await bench.value(functions.say, "three\n3", how)
        await bench.value(functions.say, "four", how)
        assert [bench.bench.output(task) for task in range(1, 5)] == [b"one", b"", b"three\n3", b"four"]
        assert len(bench.runner.pool.pids) == 1

    run_with_bench(tmp_path, go)


def test_tail_is_the_end_of_standard_error(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        assert (await bench.end(functions.say, "last words", "stderr")).tail == b"last words"
        assert (await bench.end(functions.nothing)).tail == b""
        assert bench.bench.output(1) == b""

    run_with_bench(tmp_path, go)


def test_output_of_two_at_the_same_time_stays_apart(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        texts = [f"{number}\n" * 1000 for number in range(20)]
        await asyncio.gather(*(bench.value(functions.say, text) for text in texts))
        assert [bench.bench.output(task + 1).decode() for task in range(20)] == texts

    run_with_bench(tmp_path, go)


def test_output_can_be_followed_and_survives_a_death(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        ending = await bench.end(functions.say_and_die, "before")
        assert (ending.cause, ending.exit_code) == (Cause.EXIT, 1)
        assert bench.bench.output() == b"before\n"

    run_with_bench(tmp_path, go)


def test_silent_tasks_leave_no_files(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        for _ in range(5):
            await bench.value(functions.nothing)
        assert {path.name for path in (tmp_path / "open").iterdir()} == {"1.0.out", "1.0.err"}
        assert not (tmp_path / "1").exists()

    run_with_bench(tmp_path, go)


def test_environment_and_folder_are_the_tasks_own(tmp_path: Path) -> None:
    names = ("GANDY_JOB", "GANDY_TASK", "GANDY_ATTEMPT", "GANDY_TASKS", "GANDY_JOB_NAME", "COLOUR", "SPOILED", "PATH")

    async def go(bench: FunctionBench) -> None:
        here, plain = await bench.value(functions.read_environment, *names)
        more: dict[str, Any] = {"env": {"COLOUR": "red", "PATH": "/bin"}, "cwd": str(tmp_path), "job_name": "paint"}
        there, painted = await bench.value(functions.read_environment, *names, **more, tasks=9)
        assert there == str(tmp_path)
        assert painted["COLOUR"] == "red"
        assert painted["PATH"] == "/bin"
        assert [painted[name] for name in names[:5]] == ["1", "2", "1", "9", "paint"]
        assert await bench.value(functions.read_environment, *names) == (here, {**plain, "GANDY_TASK": "3"})

    run_with_bench(tmp_path / "out", go)


def test_what_a_function_spoils_is_mended_for_the_next_job(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        before = await bench.value(functions.read_environment, "SPOILED", "PATH")
        await bench.value(functions.spoil_environment)
        assert await bench.value(functions.read_environment, "SPOILED", "PATH", job=2) == before
        await bench.value(functions.say, "still here")
        assert bench.bench.output(4) == b"still here"
        assert len(bench.runner.pool.pids) == 1

    run_with_bench(tmp_path, go)


def test_modules_are_found_in_the_folder_of_the_task(tmp_path: Path) -> None:
    (tmp_path / "neighbour.py").write_text("def greet():\n    return 'hello'\n")

    def call_neighbour() -> str:
        import neighbour  # type: ignore[import-not-found]

        return str(neighbour.greet())

    async def go(bench: FunctionBench) -> None:
        assert await bench.value(call_neighbour, cwd=str(tmp_path)) == "hello"

    run_with_bench(tmp_path / "out", go)


def test_folder_that_is_missing_is_told(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        pid = await bench.value(functions.who)
        ending = await bench.end(functions.nothing, cwd="/no/such/folder")
        assert ending.cause is Cause.NOT_STARTED
        assert ending.note == "cannot run: cannot change to /no/such/folder: No such file or directory"
        assert ending.started is None
        assert await bench.value(functions.who) == pid

    run_with_bench(tmp_path, go)


def test_environment_that_cannot_be_is_refused_each_time(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        for _ in range(2):
            ending = await bench.end(functions.nothing, env={"COLOUR": "re\0d"})
            assert ending.cause is Cause.NOT_STARTED
            assert ending.note == "cannot run: embedded null byte"
        await bench.value(functions.nothing)

    run_with_bench(tmp_path, go)


def test_environment_does_not_grow_with_each_task(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        assert await bench.value(functions.weigh_environments, 100_000) < 1_000_000

    run_with_bench(tmp_path, go)


def test_times_are_those_of_the_function_itself(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        await bench.value(functions.nothing)
        before = time.time()
        ending = await bench.end(time.sleep, 0.05)
        assert ending.started is not None
        assert ending.ended is not None
        assert before <= ending.started <= ending.ended - 0.05
        assert ending.ended <= time.time()

    run_with_bench(tmp_path, go)


def test_shared_function_is_opened_once_for_each_job(tmp_path: Path) -> None:
    shared = pack_function(functions.Counted())

    async def run(bench: FunctionBench, job: int, task: int) -> list[tuple[int, int]]:
        python = PythonOrder(pack_items([(task,), (task + 100,)]), bytes(bytearray(shared)))
        bench.runner.start(Order(attempt=an_attempt(task, job), command="a task", python=python))
        ending = await bench.bench.ending_of(an_attempt(task, job))
        assert ending.is_success
        values: list[tuple[int, int]] = open_result(ending.result)
        return values

    async def go(bench: FunctionBench) -> None:
        assert await run(bench, 1, 1) == [(1, 1), (101, 1)]
        assert await run(bench, 1, 2) == [(2, 1), (102, 1)]
        for job in (2, 3, 4, 5):  # as many as are kept
            await run(bench, job, 1)
        assert await run(bench, 5, 2) == [(2, 5), (102, 5)]
        assert await run(bench, 1, 3) == [(3, 6), (103, 6)]

    run_with_bench(tmp_path, go)


def test_shared_function_that_changed_is_sent_again(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        for number, function in enumerate((functions.double, functions.echo), 1):
            python = PythonOrder(pack_items([(4,)]), pack_function(function))
            bench.runner.start(Order(attempt=an_attempt(number), command="a task", python=python))
            ending = await bench.bench.ending_of(an_attempt(number))
            assert open_result(ending.result) == [8 if function is functions.double else 4]

    run_with_bench(tmp_path, go)


def test_a_hundred_megabytes_go_there_and_back_while_others_run(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        big = bytearray(100_000_000)
        coming = bench.start(functions.write_into, big)
        assert await bench.value(functions.add, 1, 1) == 2  # the loop is not blocked
        result = open_result((await coming).result)
        assert len(result) == len(big)
        assert result[0] == 1

    run_with_bench(tmp_path, go)


def test_peak_memory_is_of_this_task_alone(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        # More than what this process had, below which nothing can be known.
        size = 600_000_000
        peak = (await bench.end(functions.use_memory, size)).peak_memory_bytes
        if peak is None:
            pytest.skip("this kernel does not let a process reset its peak")
        assert size < peak < size + 500_000_000
        later = (await bench.end(functions.use_memory, 50_000_000)).peak_memory_bytes
        assert later is None or later < size

    run_with_bench(tmp_path, go)


def test_thread_that_lives_on_does_no_harm(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        pid = await bench.value(functions.start_thread)
        assert await bench.value(functions.who) == pid

    before = set(threading.enumerate())  # other tests may have left some that end by themselves
    run_with_bench(tmp_path, go)
    assert set(threading.enumerate()) <= before


def test_children_left_behind_end_with_their_task(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        pid = await bench.value(functions.who)
        child = await bench.value(functions.abandon_child)
        assert not is_alive(child)
        assert not is_alive(pid)
        assert await bench.value(functions.who) != pid

    run_with_bench(tmp_path, go)


def test_two_hundred_quick_tasks_through_two_slots(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        values: dict[int, Any] = {}

        async def work() -> None:
            while bench.last < 200:
                number = bench.last + 1
                values[number] = await bench.value(functions.echo, number)

        await asyncio.gather(work(), work())
        assert values == {number: number for number in range(1, 201)}
        assert len(bench.runner.pool.pids) == 2

    run_with_bench(tmp_path, go)


def test_runner_runs_shell_tasks_beside_function_tasks(tmp_path: Path) -> None:
    async def go(bench: FunctionBench) -> None:
        assert await bench.value(functions.add, 1, 2) == 3
        ending = await bench.bench.run("echo shell; kill -s HUP $$", task=77)
        assert ending.signal == signal.SIGHUP
        assert bench.bench.output(77) == b"shell\n"

    run_with_bench(tmp_path, go)


def test_idle_processes_end_after_a_while(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.worker.idle_processes.IDLE_SECONDS", 0.05)

    async def go(bench: FunctionBench) -> None:
        pid = await bench.value(functions.who)
        await until_async(lambda: not is_alive(pid))
        await until_async(lambda: list((tmp_path / "open").iterdir()) == [])
        assert bench.runner.pool.pids == []
        assert await bench.value(functions.who) != pid

    run_with_bench(tmp_path, go)
