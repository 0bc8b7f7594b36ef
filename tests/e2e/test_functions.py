"""Python functions through a real crew: values, exceptions, maps, an executor, and kills in the middle of it."""

import asyncio
import hashlib
import json
import math
import operator
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import CancelledError, Future, as_completed
from pathlib import Path
from typing import Any, Final

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.e2e.members import Member, Site, a_site
from tests.processes import list_descendants
from tests.waiting import until

import gandy
from gandy.errors import ConfigError, TaskFailed
from gandy.functions import NotPicklable, RemoteTraceback

CALLS = int(os.environ.get("GANDY_KILL_CALLS", "800"))


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", "2"):
        yield crew


@pytest.fixture
def client(crew: Crew) -> Iterator[gandy.Client]:
    with gandy.Client(f"unix:{crew.home}/foreman.sock") as client:
        yield client


def fail(text: str) -> None:
    raise ValueError(text)


def test_task_gives_its_value(client: gandy.Client) -> None:
    assert client.run(math.hypot, 3, 4).result(PATIENCE) == 5.0
    assert client.run(int, "ff", base=16).result(PATIENCE) == 255
    twice = 2
    assert client.run(lambda value: value * twice, 21).result(PATIENCE) == 42


def test_exception_comes_back_as_itself_with_where_it_was_raised(client: gandy.Client) -> None:
    error = client.run(fail, "no").exception(PATIENCE)
    assert isinstance(error, ValueError)
    assert str(error) == "no"
    assert isinstance(error.__cause__, RemoteTraceback)
    assert "in fail" in str(error.__cause__)


def test_what_cannot_travel_is_named(client: gandy.Client) -> None:
    with pytest.raises(NotPicklable, match=r"argument 1 of print: a _thread\.lock"):
        client.run(print, threading.Lock())
    with pytest.raises(NotPicklable, match="lock"):
        client.run(threading.Lock).result(PATIENCE)


def test_large_arguments_go_whole(client: gandy.Client, crew: Crew) -> None:
    large = [os.urandom(size) for size in (100, 300_000, 5_000_000, 200)]
    calls = [client.run(_sum, data) for data in large]
    assert [call.result(PATIENCE) for call in calls] == [_sum(data) for data in large]
    table = os.urandom(2_000_000)
    assert list(client.map(lambda place: table[place], range(0, 100, 7))) == [
        table[place] for place in range(0, 100, 7)
    ]
    (crew.home / "arguments").chmod(0o700)  # they are there, and for one user only
    assert {path.stat().st_mode & 0o777 for path in (crew.home / "arguments").iterdir()} == {0o600}


def _sum(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def test_arguments_that_are_gone_are_told(client: gandy.Client, crew: Crew) -> None:
    functions = client.functions(limit=1, tags=["nobody"], name="gone")
    call = functions.run(len, bytes(300_000))
    job = client.job(call.job)
    while not job.status().spec.tasks:
        time.sleep(0.01)
    for path in (crew.home / "arguments").iterdir():
        path.unlink()
    other = crew.running("worker", "run", "--name", "other", "--tag", "nobody")
    with other, pytest.raises(TaskFailed, match="no longer kept"):
        call.result(PATIENCE)


def test_large_results_come_whole(client: gandy.Client) -> None:
    functions = client.functions(name="large")
    values = [functions.run(os.urandom, size) for size in (100, 3_000_000, 20_000_000)]
    assert [len(value.result(PATIENCE)) for value in values] == [100, 3_000_000, 20_000_000]
    functions.close()
    (job,) = [row.job for row in client.jobs() if row.spec.name == "large"]
    assert list(client.job(job).results()) == [value.result() for value in values]


def test_modules_beside_the_program_are_found(crew: Crew, tmp_path: Path) -> None:
    (tmp_path / "beside.py").write_text("def double(number):\n    return 2 * number\n")
    program = "import beside, gandy\nwith gandy.Executor() as crew:\n    print(list(crew.map(beside.double, [1, 2])))\n"
    (tmp_path / "program.py").write_text(program)
    done = subprocess.run(
        [sys.executable, tmp_path / "program.py"], cwd="/", env=crew.environment, capture_output=True, check=False
    )
    assert (done.stdout, done.stderr) == (b"[2, 4]\n", b"")


def test_module_that_only_the_client_has_is_told(crew: Crew, tmp_path: Path) -> None:
    (tmp_path / "only_here.py").write_text("def tell():\n    return 1\n")
    program = (
        "import sys, gandy\n"
        f"sys.path.append({str(tmp_path)!r})\n"
        "import only_here\n"
        "sys.path.pop()\n"
        "with gandy.Executor() as crew:\n"
        "    print('\\n'.join(crew.submit(only_here.tell).exception().__notes__))\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], cwd="/", env=crew.environment, capture_output=True, check=False, text=True
    )
    advice, there, here = done.stdout.splitlines()
    assert "A module that only the client has can travel along" in advice
    assert re.fullmatch(r"On the worker there is Python 3\.\d+\.\S+, no installed package 'only_here'\.", there)
    assert re.fullmatch(r"Here there is Python 3\.\d+\.\S+, no installed package 'only_here'\.", here)


def test_edited_module_is_imported_anew(crew: Crew, tmp_path: Path) -> None:
    program = "import edited, gandy\nwith gandy.Executor() as crew:\n    print(crew.submit(edited.tell).result())\n"
    (tmp_path / "program.py").write_text(program)
    for word in ("before", "after it was edited"):
        (tmp_path / "edited.py").write_text(f"def tell():\n    return {word!r}\n")
        done = subprocess.run(
            [sys.executable, tmp_path / "program.py"], env=crew.environment, capture_output=True, check=False
        )
        assert (done.stdout.decode(), done.stderr) == (f"{word}\n", b"")


def test_map_keeps_the_order(client: gandy.Client) -> None:
    assert list(client.map(pow, range(50), [2] * 50)) == [number**2 for number in range(50)]
    assert list(client.map(operator.neg, range(100), chunksize=7)) == [-number for number in range(100)]
    assert sorted(client.map(operator.neg, range(20), ordered=False)) == sorted(-number for number in range(20))
    assert list(client.map(operator.neg, [])) == []


def test_error_in_a_map_comes_at_its_place(client: gandy.Client) -> None:
    values = client.map(operator.truediv, [6, 6, 6], [3, 0, 2])
    assert next(values) == 2.0
    with pytest.raises(ZeroDivisionError):
        next(values)


def test_dead_process_fails_its_task_only(client: gandy.Client) -> None:
    dead: Future[None] = client.run(os._exit, 3)
    alive = client.run(abs, -1)
    with pytest.raises(TaskFailed):
        dead.result(PATIENCE)
    assert alive.result(PATIENCE) == 1
    with pytest.raises(TaskFailed, match="SIGSEGV"):
        client.run(_kill_myself).result(PATIENCE)


def _kill_myself() -> None:
    os.kill(os.getpid(), signal.SIGSEGV)


@pytest.mark.parametrize("wrong", [{"timeout": 0}, {"retries": -1}, {"slots": 0}, {"memory": 0}, {"tags": "gpu"}])
def test_options_that_make_no_sense_are_told_at_once(client: gandy.Client, wrong: dict[str, Any]) -> None:
    with pytest.raises(ConfigError):
        client.functions(**wrong).run(abs, -1)


def test_options_hold_for_their_tasks(client: gandy.Client, tmp_path: Path) -> None:
    with pytest.raises(TaskFailed, match="took too long"):
        client.functions(timeout=0.2).run(time.sleep, 600).result(PATIENCE)
    marks = tmp_path / "marks"
    assert client.functions(retries=2).run(_fail_twice, str(marks)).result(PATIENCE) == 3
    assert client.functions(fresh=True).run(os.getpid).result(PATIENCE) != client.run(os.getpid).result(PATIENCE)


def _fail_twice(path: str) -> int:
    return _count_calls(path, failures=2)


def _count_calls(path: str, failures: int) -> int:
    with Path(path).open("a+") as file:
        file.write("x")
        file.seek(0)
        count = len(file.read())
    if count <= failures:
        raise RuntimeError("again")
    return count


def test_task_that_uses_too_much_memory_is_killed(client: gandy.Client) -> None:
    greedy = client.functions(memory=300_000_000)
    with pytest.raises(TaskFailed, match="used too much memory and was killed"):
        greedy.run(_hold, 400_000_000).result(PATIENCE)
    assert greedy.run(abs, -1).result(PATIENCE) == 1


def _hold(size: int) -> None:
    _held = bytearray(size)
    time.sleep(600)


def test_task_that_waits_can_be_cancelled(client: gandy.Client, tmp_path: Path) -> None:
    functions = client.functions(limit=1)
    go = tmp_path / "go"
    os.mkfifo(go)
    first, second = functions.run(Path.read_text, go), functions.run(abs, -1)
    while not first.running():
        time.sleep(0.01)
    assert second.cancel()
    go.write_text("done")
    assert first.result(PATIENCE) == "done"
    assert not first.cancel()
    with pytest.raises(CancelledError):
        second.result(PATIENCE)


def test_results_of_a_cancelled_call_raise_what_its_future_raises(client: gandy.Client) -> None:
    """And not the error of asyncio, which no `except Exception` catches."""
    functions = client.functions(limit=1)
    futures = [functions.run(time.sleep, 60) for _ in range(2)]
    client.job(futures[0].job).cancel()
    with pytest.raises(CancelledError, match="task 1 was cancelled"):
        list(client.job(futures[0].job).results())
    with pytest.raises(CancelledError):
        futures[0].result(PATIENCE)


def test_what_a_function_prints_is_the_output_of_its_task(client: gandy.Client, crew: Crew) -> None:
    functions = client.functions(name="chatty")
    functions.run(print, "hello").result(PATIENCE)
    (row,) = [row for row in client.jobs() if row.spec.name == "chatty"]
    assert b"".join(client.job(row.job).output(1)) == b"hello\n"
    assert row.spec.is_open
    functions.close()
    assert client.job(row.job).wait(PATIENCE).state is gandy.JobState.FINISHED


def test_results_can_be_had_later_from_another_process(client: gandy.Client, crew: Crew) -> None:
    with gandy.Client(f"unix:{crew.home}/foreman.sock") as other:
        list(other.functions(name="later").map(operator.neg, [1, 3], chunksize=1))
        other.functions(name="nothing").run(print).result(PATIENCE)
    (later,) = [row.job for row in client.jobs() if row.spec.name == "later"]
    (nothing,) = [row.job for row in client.jobs() if row.spec.name == "nothing"]
    assert list(client.job(later).results()) == [-1, -3]
    assert list(client.job(nothing).results()) == [None]
    with pytest.raises(ConfigError, match="runs commands"):
        list(client.submit("true").results())


def test_executor_is_one(crew: Crew) -> None:
    with gandy.Executor(f"unix:{crew.home}/foreman.sock") as executor:
        futures = [executor.submit(pow, number, 2) for number in range(10)]
        assert sorted(future.result() for future in as_completed(futures)) == [number**2 for number in range(10)]
        assert list(executor.map(operator.add, range(5), range(5), chunksize=2)) == [0, 2, 4, 6, 8]
    with pytest.raises(RuntimeError, match="after shutdown"):
        executor.submit(abs, 1)


@gandy.task(retries=2, name="stubborn")
def stubborn(path: str) -> int:
    return _count_calls(path, failures=1)  # a second pause takes four seconds


def test_task_knows_its_options(client: gandy.Client, tmp_path: Path) -> None:
    assert client.run(stubborn, str(tmp_path / "marks")).result(PATIENCE) == 2
    assert [row.spec.retries for row in client.jobs() if row.spec.name == "stubborn"] == [2]
    assert stubborn(str(tmp_path / "marks")) == 3  # it is still a function


def test_task_knows_its_options_in_an_executor(crew: Crew, tmp_path: Path) -> None:
    with gandy.Executor(f"unix:{crew.home}/foreman.sock", retries=0) as executor:
        assert executor.submit(stubborn, str(tmp_path / "marks")).result(PATIENCE) == 2
        assert list(executor.map(stubborn, [str(tmp_path / "others")])) == [2]
        assert executor.submit(abs, -1).result(PATIENCE) == 1


@gandy.task(name="verbs")
def triple(number: int) -> int:
    return 3 * number


@gandy.task
async def triple_later(number: int) -> int:
    await asyncio.sleep(0)
    return triple(number)


def test_decorated_function_lets_a_crew_run_it(client: gandy.Client) -> None:
    assert triple.run(2).result(PATIENCE) == triple.delay(number=2).result(PATIENCE) == triple(2) == 6
    assert list(triple.map(range(4), chunksize=2)) == [0, 3, 6, 9]
    assert triple_later.run(5).result(PATIENCE) == client.run(triple_later, 5).result(PATIENCE) == 15
    assert "verbs" in {row.spec.name for row in client.jobs()}  # with its options


OF_ITS_OWN: Final = """
import gandy

@gandy.task
def countdown(number):
    return number and countdown(number - 1)

@gandy.task(fresh=True)
def list_modules():
    import sys
    return [name for name in ("asyncio", "gandy.client") if name in sys.modules]

print(countdown.run(3).result(), list(countdown.map(range(3))), list_modules.delay().result())
"""


def test_decorated_function_finds_the_foreman_of_its_program(crew: Crew, tmp_path: Path) -> None:
    """It is sent as code, and a process that runs it need not import the client."""
    (tmp_path / "own.py").write_text(OF_ITS_OWN)
    done = subprocess.run([sys.executable, tmp_path / "own.py"], env=crew.environment, capture_output=True, timeout=60)
    assert (done.stdout, done.stderr) == (b"0 [0, 0, 0] []\n", b"")


def test_decorated_function_does_not_guess_between_crews(client: gandy.Client, tmp_path: Path) -> None:
    other = Crew(tmp_path)
    with other.running("up", "--slots", "1"), gandy.Client(f"unix:{tmp_path}/foreman.sock") as second:
        with pytest.raises(ConfigError, match="clients of several foremen are open"):
            triple.run(1)
        assert second.run(triple, 1).result(PATIENCE) == 3
    assert triple.run(1).result(PATIENCE) == 3


@gandy.task(retries=2, retry_on=(KeyError, OSError))
def fail_with(kind: str, folder: Path) -> None:
    """Count the attempts, and fail."""
    (folder / f"{kind}.{len(list(folder.glob(kind + '.*')))}").touch()
    if kind == "exit":
        os._exit(3)
    raise {"key": KeyError, "pipe": BrokenPipeError, "value": ValueError}[kind](kind)


async def fail_later(kind: str, folder: Path) -> None:
    fail_with(kind, folder)


@pytest.mark.parametrize(("kind", "attempts"), [("key", 3), ("pipe", 3), ("value", 1), ("exit", 3)])
def test_tasks_are_tried_again_after_given_exceptions_only(
    client: gandy.Client, crew: Crew, tmp_path: Path, kind: str, attempts: int
) -> None:
    def count(name: str) -> int:
        return len(list((tmp_path / name).iterdir()))

    functions = client.functions(retries=2, retry_on=LookupError)
    for name in ("task", "map", "functions", "async", "executor"):
        (tmp_path / name).mkdir()
    with gandy.Executor(f"unix:{crew.home}/foreman.sock", retries=2, retry_on=(LookupError, OSError)) as executor:
        own = client.run(fail_with, kind, tmp_path / "task")
        mapped = client.map(fail_with, [kind], [tmp_path / "map"])
        later = functions.run(fail_later, kind, tmp_path / "async")
        submitted = executor.submit(fail_later, kind, tmp_path / "executor")
        expected = {"key": KeyError, "pipe": BrokenPipeError, "value": ValueError, "exit": TaskFailed}[kind]
        for future in (own, later, submitted):
            assert isinstance(future.exception(PATIENCE), expected)
        with pytest.raises(expected):
            list(mapped)
    assert [count(name) for name in ("task", "map", "executor")] == [attempts] * 3
    assert count("async") == (1 if kind == "pipe" else attempts)  # it is no LookupError
    if kind == "value":
        (row,) = (row for row in client.job(own.job).tasks() if row.task == own.number)
        assert row.ending is not None
        assert (str(row.ending.cause), row.attempt, row.ending.note) == ("not_retried", 1, "ValueError: value")
        assert "an exception that is not retried" in " ".join(client.job(own.job).explain(own.number))


def test_retry_on_needs_exceptions_and_retries(client: gandy.Client) -> None:
    with pytest.raises(ConfigError, match=r"retry_on is 'OSError'; write exception classes"):
        client.functions(retries=3, retry_on="OSError").run(abs, -1)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"there is none: write retries=3, too"):
        client.functions(retry_on=OSError).run(abs, -1)


def test_unknown_options_of_tasks_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"@gandy.task has no option speed$"):
        gandy.task(speed=9)  # type: ignore[call-overload]
    with pytest.raises(ConfigError, match=r"@gandy.task has no option tag; did you mean tags\?"):
        gandy.task(tag="gpu")  # type: ignore[call-overload]


def test_function_from_the_command_line(crew: Crew, tmp_path: Path) -> None:
    assert crew.run("run", "--wait", "math:hypot", "3", "4").stdout == b"5.0\n"
    assert crew.run("run", "os:path.join", "a", '"b"', "--wait").stdout == b'"a/b"\n'
    assert crew.run("run", "--wait", "builtins:abs", "--", "-7").stdout == b"7\n"
    assert b"--wiat" in crew.run("run", "builtins:abs", "7", "--wiat", code=2).stderr
    assert crew.run("run", "--wait", "builtins:complex", "1").stdout == b"(1+0j)\n"
    (tmp_path / "mine.py").write_text("def shout(word, line):\n    return (word + line).upper()\n")
    said = ("run", "--wait", "--cwd", str(tmp_path), "--each-line", "-", "mine:shout", "oh ")
    assert crew.run(*said, data=b"no\nyes\n").stdout == b'"OH NO"\n"OH YES"\n'


def test_function_that_fails_from_the_command_line(crew: Crew) -> None:
    done = crew.run("run", "--wait", "--each-line", "-", "builtins:int", data=b"1\nx\n3\n", code=1)
    assert done.stdout == b"1\n3\n"
    assert b"gandy: task 2: ValueError: invalid literal for int()" in done.stderr
    job = crew.run("run", "--output", "quiet", "os:no_such_function").stdout.decode().strip()
    crew.run("job", "wait", job, code=1)
    assert b"raised an exception (AttributeError: module 'os'" in crew.run("job", "explain", job).stdout
    assert b"is not a function" in crew.run("run", "math", code=1).stderr
    assert json.loads(crew.run("run", "--output", "json", "time:time").stdout)["job"] > int(job)


def test_async_twins(crew: Crew) -> None:
    async def go() -> None:
        async with gandy.AsyncClient(f"unix:{crew.home}/foreman.sock") as client:
            assert await asyncio.gather(*(client.run(pow, number, 2) for number in range(5))) == [0, 1, 4, 9, 16]
            assert [value async for value in client.map(operator.neg, range(10), chunksize=3)] == [
                -number for number in range(10)
            ]
            later = client.map(operator.neg, range(10), ordered=False)
            assert sorted([value async for value in later]) == sorted(-number for number in range(10))
            with pytest.raises(ZeroDivisionError):
                await client.functions(retries=0).run(operator.truediv, 1, 0)

    asyncio.run(asyncio.wait_for(go(), PATIENCE))


def test_values_are_kept_for_a_while_only(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    address = f"unix:{crew.home}/foreman.sock"
    forgetful = ("foreman", "run", "--keep-results", "0")
    with crew.running(*forgetful), crew.running("worker", "run"), gandy.Client(address) as client:
        functions = client.functions(name="old")
        assert functions.run(abs, -1).result(PATIENCE) == 1  # a client that waits gets it
        functions.close()

    def is_dropped() -> bool:
        try:
            list(client.job(1).results())
        except TaskFailed as error:
            return "no longer kept" in str(error)
        return False

    with crew.running(*forgetful), gandy.Client(address) as client:
        until(is_dropped, PATIENCE)


def _square(number: int) -> int:
    time.sleep(0.001)
    return number * number


def _find_slots(worker: Member) -> list[int]:
    lines = {pid: Path(f"/proc/{pid}/cmdline").read_bytes() for pid in list_descendants(worker.process.pid)}
    return [pid for pid, line in lines.items() if b"gandy.worker.slot" in line]


def _kill_some(site: Site, step: int) -> None:
    """In turns a foreman, a worker, and a process in which a function runs."""
    worker = site.workers[step % len(site.workers)]
    match step % 3:
        case 0:
            site.foreman.kill()
            site.foreman.start()
        case 1:
            worker.kill()
            worker.start()
        case _:
            for pid in _find_slots(worker)[:1]:
                os.kill(pid, signal.SIGKILL)


def test_large_results_survive_the_death_of_the_foreman(tmp_path: Path) -> None:
    with a_site(tmp_path, workers=1) as site, gandy.Client(f"unix:{site.home}/foreman.sock") as client:
        values = client.map(_repeat, range(6))
        for number, value in enumerate(values):
            assert value == _repeat(number)
            if number % 2 == 0:
                site.foreman.kill()
                site.foreman.start()


def _repeat(number: int) -> bytes:
    return bytes([number]) * 6_000_000


def test_map_survives_the_death_of_all_processes(tmp_path: Path) -> None:
    with a_site(tmp_path, workers=2) as site, gandy.Client(f"unix:{site.home}/foreman.sock") as client:
        values = client.functions(retries=10).map(_square, range(CALLS), chunksize=2)
        seen, kills = [], -1
        for number, value in enumerate(values):
            seen.append(value)
            if number % (CALLS // 8) == CALLS // 10:
                _kill_some(site, kills := kills + 1)
        assert seen == [number * number for number in range(CALLS)]
