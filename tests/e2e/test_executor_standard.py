"""The standard library's own tests of executors, run on a crew; then what they do not ask: exits, forks, threads.

They are taken from `test.test_concurrent_futures`, and none of their code is here. What differs on purpose is in two
tables: NAMES, where a crew raises another exception than a pool, and SKIPPED, with a reason for each test.
"""

import gc
import importlib
import importlib.util
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import time
import unittest
from collections.abc import Callable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor, as_completed, wait
from contextlib import ExitStack
from multiprocessing.context import BaseContext
from pathlib import Path
from pickle import UnpicklingError
from types import ModuleType
from typing import Any, Final
from unittest import mock

import cloudpickle  # type: ignore[import-untyped]
import pytest
from tests.e2e.crew import PATIENCE, Crew

import gandy
from gandy.client.futures import ExecutorFuture, FunctionFuture
from gandy.errors import ConfigError, LinkError, TaskFailed
from gandy.functions import NotPicklable, RemoteTraceback

PACKAGE: Final = "test.test_concurrent_futures"

# What the package consists of, where it is one (Python 3.12, and late versions of 3.11).
PARTS: Final = (
    "util",
    "executor",
    "test_as_completed",
    "test_deadlock",
    "test_future",
    "test_init",
    "test_process_pool",
    "test_shutdown",
    "test_wait",
)

# The classes of tests, and what each is about.
TAKEN: Final = (
    "ProcessPoolExecutorTest",  # with all of ExecutorTest
    "ProcessPoolShutdownTest",  # with all of ExecutorShutdownTest
    "WaitTests",
    "AsCompletedTests",
    "ExecutorDeadlockTest",
    "InitializerMixin",
    "FailingInitializerMixin",
)

# A pool is broken by the call that kills a process. Here that call fails, and the error tells more.
NAMES: Final = {
    "BrokenProcessPool": (TaskFailed, UnpicklingError, SystemExit),
    "PicklingError": NotPicklable,
}

ITSELF: Final = "makes a ProcessPoolExecutor itself, to look into it; a test below asks the same of a crew"
INSIDE: Final = "looks into the pool for processes, queues or threads, of which a crew has none in the client"
SHARED: Final = "shares a lock or a manager of multiprocessing, which only its own children can inherit"
NO_INITIALIZER: Final = "a crew takes no initializer: its processes were there before the program, and serve others too"
PRINTS: Final = "wants the program to print what the function prints, and to wait for it: that is output of the task"

SKIPPED: Final = {
    # ProcessPoolExecutorTest
    "test_killed_child": INSIDE,
    "test_saturation": SHARED,
    "test_idle_process_reuse_one": INSIDE,
    "test_idle_process_reuse_multiple": INSIDE,
    "test_ressources_gced_in_workers": SHARED,
    "test_python_finalization_error": INSIDE,
    "test_max_tasks_per_child": "a crew takes no max_tasks_per_child: `fresh` gives each call a process of its own",
    "test_max_tasks_per_child_defaults_to_spawn_context": "a crew takes no max_tasks_per_child",
    "test_max_tasks_early_shutdown": "a crew takes no max_tasks_per_child",
    # ProcessPoolShutdownTest
    "test_interpreter_shutdown": PRINTS,
    "test_hang_gh83386": PRINTS,
    "test_cancel_futures": "counts on a call that has begun before the shutdown, and here they may not even be sent",
    "test_processes_terminate": INSIDE,
    "test_context_manager_shutdown": ITSELF,
    "test_del_shutdown": ITSELF,
    "test_shutdown_no_wait": ITSELF,
    # ExecutorDeadlockTest
    "test_shutdown_deadlock_pickle": INSIDE,
    "test_gh105829_should_not_deadlock_if_wakeup_pipe_full": INSIDE,
    # InitializerMixin and FailingInitializerMixin
    "test_initializer": NO_INITIALIZER,
}


def _import_standard_tests() -> list[ModuleType]:
    try:
        whole = importlib.import_module(PACKAGE)
    except ModuleNotFoundError:
        return _borrow_standard_tests()
    return [importlib.import_module(f"{PACKAGE}.{part}") for part in PARTS] if hasattr(whole, "__path__") else [whole]


def _borrow_standard_tests() -> list[ModuleType]:
    """Python 3.11.7 forgets to install them: take those of 3.10, where pyenv has put it beside this one."""
    beside = Path(sys.base_prefix).parent.glob("3.10.*/lib/python3.10/test/test_concurrent_futures.py")
    path = next(beside, None) if sys.version_info[:2] == (3, 11) else None
    spec = path and importlib.util.spec_from_file_location(PACKAGE, path)
    if not spec or spec.loader is None:
        return []
    module = sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [module]


STANDARD: Final = _import_standard_tests()


@pytest.fixture(scope="module", autouse=True)
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    """Executors without an address find it. Functions of tests that workers cannot import travel by value."""
    crew = Crew(tmp_path_factory.mktemp("home"))
    by_value = [module for module in STANDARD if not _is_installed(module)]
    with crew.running("up", "--slots", "4"), pytest.MonkeyPatch.context() as patch:
        patch.setenv("GANDY_FOREMAN", f"unix:{crew.home}/foreman.sock")
        crew.environment["GANDY_FOREMAN"] = f"unix:{crew.home}/foreman.sock"
        for module in by_value:
            cloudpickle.register_pickle_by_value(module)
        yield crew
        for module in by_value:
            cloudpickle.unregister_pickle_by_value(module)


def _is_installed(module: ModuleType) -> bool:
    return str(module.__file__).startswith(sys.base_prefix + os.sep)


def _find(name: str) -> Any:
    return next(getattr(module, name) for module in STANDARD if hasattr(module, name))


# The standard tests


class StandardExecutor(gandy.Executor):
    """Takes what a process pool takes."""

    def __init__(self, max_workers: int | None = None, mp_context: BaseContext | None = None) -> None:
        super().__init__(max_workers=max_workers)


class OnCrew:
    """Stands where the mixins for pools stand."""

    executor_type = StandardExecutor

    def get_context(self) -> BaseContext:
        return multiprocessing.get_context("spawn")

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        with ExitStack() as stack:
            stack.enter_context(mock.patch("concurrent.futures.process._RemoteTraceback", RemoteTraceback))
            for module in STANDARD:
                for name in NAMES.keys() & vars(module):
                    stack.enter_context(mock.patch.object(module, name, NAMES[name]))
                if hasattr(module, "assert_python_ok"):
                    translated = _translating(module.assert_python_ok)
                    stack.enter_context(mock.patch.object(module, "assert_python_ok", translated))
            ran: unittest.TestResult | None = super().run(result)  # type: ignore[misc]
            return ran


def _translating(run_python: Callable[..., Any]) -> Callable[..., Any]:
    """Programs of the standard tests, with the one changed line."""

    def run(option: str, program: str) -> Any:
        name = StandardExecutor.__name__
        program = program.replace(f"from concurrent.futures import {name}", "from gandy import Executor")
        return run_python(option, program.replace(f"{name}(5)", "Executor(max_workers=5)"))

    return run


class _NoQueue:
    def add(self, task: bytes, future: object) -> None: ...

    def cancel(self, number: int) -> bool:
        return False


class _NoJob:
    """For futures that belong to no job."""

    def __init__(self) -> None:
        self.queue = _NoQueue()
        self.futures_lock = threading.RLock()
        self.is_on_loop = True  # so that `cancel` sends no request


class _Future(ExecutorFuture[Any]):
    def __init__(self) -> None:
        super().__init__(_NoJob(), b"")  # type: ignore[arg-type]


_Future.__name__ = "Future"  # errors show it, and the tests read them


class WithOurFutures:
    """Tests of futures, which make them themselves."""

    def run(self, result: unittest.TestResult | None = None) -> unittest.TestResult | None:
        log, printer = logging.getLogger("concurrent.futures"), logging.lastResort
        assert printer is not None
        with ExitStack() as stack:
            log.addHandler(printer)  # which pytest has displaced
            stack.callback(log.removeHandler, printer)
            for module in STANDARD:
                if hasattr(module, "Future"):
                    stack.enter_context(mock.patch.object(module, "Future", _Future))
            ran: unittest.TestResult | None = super().run(result)  # type: ignore[misc]
            return ran


def _make_case(name: str, *bases: type) -> type:
    skipped = {test: unittest.skip(reason)(lambda self: None) for test, reason in SKIPPED.items()}
    known = {test: skip for test, skip in skipped.items() if any(hasattr(base, test) for base in bases)}
    return type(name, bases, {"__module__": __name__, **known})


if STANDARD:
    for _name in TAKEN:
        _case = f"TestCrew{_name.removeprefix('ProcessPool').removesuffix('Mixin')}"
        globals()[_case] = _make_case(_case, OnCrew, _find(_name), _find("ExecutorMixin"), _find("BaseTestCase"))
    TestFuture = _make_case("TestFuture", WithOurFutures, _find("FutureTests"))


@pytest.mark.skipif(not STANDARD, reason=f"this Python has no {PACKAGE}: install its test suite")
def test_standard_tests_are_there() -> None:
    assert all(_find(name) is not None for name in TAKEN)


# What they do not ask, or ask of a pool's inside


@pytest.fixture
def pipe(tmp_path: Path) -> Path:
    """A reader waits until it is written to."""
    path = tmp_path / "pipe"
    os.mkfifo(path)
    return path


def _await_start(future: Future[Any]) -> None:
    while not future.running():
        time.sleep(0.01)


def test_arguments_of_pools_are_taken_or_explained(tmp_path: Path) -> None:
    with gandy.Executor(max_workers=1) as executor:
        assert executor.submit(abs, -1).result(PATIENCE) == 1
    with pytest.raises(TypeError, match="say max_workers=5"):
        gandy.Executor(5)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="the same"):
        gandy.Executor(max_workers=5, limit=5)
    with pytest.raises(ConfigError, match="has no initializer: set up"):
        gandy.Executor(initializer=print)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no option retires"):
        gandy.Executor(retires=5)  # type: ignore[arg-type]
    with pytest.raises(LinkError, match="gandy up"):
        gandy.Executor(f"unix:{tmp_path}/nobody")


def test_cancelled_call_wakes_a_wait_for_many(pipe: Path) -> None:
    with gandy.Executor(max_workers=1) as executor:
        first, second, third = executor.submit(Path.read_text, pipe), executor.submit(abs, -1), executor.submit(abs, -2)
        _await_start(first)
        assert second.cancel()
        assert second.cancel()
        assert not first.cancel()
        assert wait([second], PATIENCE).done == {second}
        assert list(as_completed([second], PATIENCE)) == [second]
        pipe.write_text("done")
        assert (first.result(PATIENCE), third.result(PATIENCE)) == ("done", 2)


def test_shutdown_cancels_what_has_not_begun(pipe: Path) -> None:
    executor = gandy.Executor(max_workers=1)
    first, *others = executor.submit(Path.read_text, pipe), *(executor.submit(abs, number) for number in range(20))
    _await_start(first)
    executor.shutdown(wait=False, cancel_futures=True)
    assert wait(others, PATIENCE).done == set(others)
    assert all(future.cancelled() for future in others)
    assert not first.done()
    pipe.write_text("done")
    executor.shutdown()
    assert first.result(0) == "done"


def test_shutdown_without_waiting_can_be_waited_for_later(pipe: Path) -> None:
    with gandy.Executor() as executor:
        future = executor.submit(Path.read_text, pipe)
        executor.shutdown(wait=False)
        executor.shutdown(wait=False)
        with pytest.raises(RuntimeError, match="after shutdown"):
            executor.submit(abs, -1)
        pipe.write_text("done")
    assert future.result(0) == "done"
    assert not any(thread.name.startswith("gandy") and thread.is_alive() for thread in threading.enumerate())


def test_abandoned_executor_gives_its_values_and_closes_its_jobs(crew: Crew) -> None:
    executor = gandy.Executor()
    values, future = executor.map(abs, range(-5, 5)), executor.submit(abs, -7)
    del executor
    gc.collect()
    assert list(values) == [5, 4, 3, 2, 1, 0, 1, 2, 3, 4]
    assert future.result(PATIENCE) == 7
    with gandy.Client() as client:
        assert isinstance(future, FunctionFuture)
        assert client.job(future.job).wait(PATIENCE).state is gandy.JobState.FINISHED


def test_thousands_of_futures_from_many_threads_come_back_right() -> None:
    count = 5_000
    with gandy.Executor() as executor, ThreadPoolExecutor(8) as threads:
        futures = list(threads.map(lambda number: executor.submit(pow, number, 2), range(count)))
        assert [future.result(PATIENCE) for future in futures] == [number**2 for number in range(count)]


class _Bomb:
    """A process that opens it leaves."""

    def __reduce__(self) -> tuple[Any, ...]:
        return sys.exit, (3,)


def test_result_that_cannot_be_opened_harms_no_other() -> None:
    with gandy.Executor() as executor:
        with pytest.raises(SystemExit):
            executor.submit(_Bomb).result(PATIENCE)
        assert isinstance(executor.submit(id, threading.Lock()).exception(PATIENCE), NotPicklable)
        assert executor.submit(abs, -1).result(PATIENCE) == 1


class _Witness:
    """Tells through a pipe that a worker has let it go."""

    def __init__(self, pipe: Path) -> None:
        self.pipe = pipe
        self.home = os.getpid()

    def __del__(self) -> None:
        if os.getpid() != self.home:
            self.pipe.write_text("gone")


def test_worker_lets_go_of_arguments(pipe: Path) -> None:
    with gandy.Executor() as executor, ThreadPoolExecutor(1) as reader:
        told = reader.submit(pipe.read_text)
        try:
            executor.submit(id, _Witness(pipe)).result(PATIENCE)
            assert told.result(PATIENCE) == "gone"
        finally:
            os.close(os.open(pipe, os.O_RDWR | os.O_NONBLOCK))  # wakes a task that still waits for the other end


def test_executor_outlives_a_job_that_a_user_cancels(pipe: Path) -> None:
    with gandy.Executor() as executor, gandy.Client() as client:
        future = executor.submit(Path.read_text, pipe)
        assert isinstance(future, FunctionFuture)
        _await_start(future)
        client.job(future.job).cancel()
        with pytest.raises(CancelledError):
            future.result(PATIENCE)
        assert future.cancelled()
        assert executor.submit(abs, -1).result(PATIENCE) == 1


def test_future_of_a_closed_client_says_so(pipe: Path) -> None:
    with gandy.Client() as client:
        future = client.run(Path.read_text, pipe)
        _await_start(future)
    with pytest.raises(LinkError, match="goes on"):
        future.result(PATIENCE)
    pipe.write_text("no task reads it")


def test_iterable_that_fails_leaves_nothing_queued() -> None:
    def give() -> Iterator[int]:
        yield 1
        raise KeyError("no more")

    with gandy.Executor() as executor, pytest.raises(KeyError):
        executor.map(abs, give())


# Programs that end


def _start(crew: Crew, program: str, *words: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program, *words],  # it is told of forks
        env=crew.environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )


def _await_sleep(pid: int) -> None:
    """Until its main thread waits for good: Python loses a signal that comes while it takes a lock."""
    status, seen, now = Path(f"/proc/{pid}/status"), "", ""
    while status.exists() and not ("State:\tS" in now and now == seen):  # with the same count of switches
        time.sleep(0.05)  # who waits for the interpreter's lock wakes ten times meanwhile
        seen, now = now, status.read_text()


def _wait_job(name: str) -> list[Any]:
    """The values of a job that some program left."""
    with gandy.Client() as client:
        (job,) = [row.job for row in client.jobs() if row.spec.name == name]
        assert client.job(job).wait(PATIENCE).state is gandy.JobState.FINISHED
        return list(client.job(job).results())


LEAVE: Final = """
import sys
from pathlib import Path
import gandy
calls = gandy.Executor(name="left") if sys.argv[1] == "Executor" else gandy.Client().functions(name="left by a client")
run = getattr(calls, "submit", None) or calls.run
run(Path.read_text, Path(sys.argv[2]))
for number in range(3_000):
    run(abs, -number)
"""


@pytest.mark.parametrize(("face", "name"), [("Executor", "left"), ("Client", "left by a client")])
def test_program_that_ends_has_queued_its_calls(crew: Crew, pipe: Path, face: str, name: str) -> None:
    with _start(crew, LEAVE, face, str(pipe)) as program:
        assert program.communicate(timeout=PATIENCE) == ("", "")
        assert program.returncode == 0
    pipe.write_text("done")  # the first call still runs
    assert _wait_job(name) == ["done", *range(3_000)]


INTERRUPTED: Final = """
import sys, time
from pathlib import Path
import gandy

def read(path, number):
    Path(path, str(number)).touch()
    time.sleep(3_600)

where, folder = sys.argv[1:]

def go(run):
    futures = [run(read, folder, number) for number in range(6)]
    while sum(future.running() for future in futures) < 4:
        time.sleep(0.01)
    print("waiting", flush=True)
    return futures

if where == "client":
    with gandy.Client() as client:
        go(client.functions(name=where).run)[0].result()
elif where == "open client":
    client = gandy.Client()
    go(client.functions(name=where).run)[0].result()
elif where == "map":
    client = gandy.Client()
    try:
        values = client.functions(name=where).map(read, [folder] * 6, range(6))
        while len(list(Path(folder).iterdir())) < 4:
            time.sleep(0.01)
        print("waiting", flush=True)
        list(values)
    finally:
        client.close()
else:
    with gandy.Executor(name=where) as executor:
        futures = go(executor.submit)
        if where == "result":
            futures[0].result()
"""


@pytest.mark.parametrize("where", ["result", "shutdown", "client", "open client", "map"])
def test_interrupted_program_ends_and_cancels_its_calls(crew: Crew, tmp_path: Path, where: str) -> None:
    with _start(crew, INTERRUPTED, where, str(tmp_path)) as program:
        assert program.stdout is not None
        assert program.stdout.readline() == "waiting\n"
        _await_sleep(program.pid)
        program.send_signal(signal.SIGINT)
        _, errors = program.communicate(timeout=PATIENCE)
    assert program.returncode == -signal.SIGINT
    assert errors.count("Traceback") == 1
    assert ("6 function tasks that had not ended are cancelled" in errors) == (where != "map")
    with gandy.Client() as client:
        (job,) = [row.job for row in client.jobs() if row.spec.name == where]
        row = client.job(job).wait(PATIENCE)
        assert (row.counts.cancelled, row.counts.total) == (6, 6)


FORKED: Final = """
import os, sys
import gandy
with gandy.Executor() as executor:
    assert executor.submit(abs, -1).result() == 1
    waiting = executor.submit(abs, -2)
    child = os.fork()
    if not child:
        try:
            executor.submit(abs, -3)
        except RuntimeError as error:
            print(error, flush=True)
        with gandy.Executor() as another:
            print(another.submit(abs, -4).result(), flush=True)
        sys.exit(5)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 5
    print(waiting.result(), executor.submit(abs, -6).result())
"""


def test_forked_child_ends_and_leaves_the_parent_its_executor(crew: Crew) -> None:
    with _start(crew, FORKED) as program:
        printed, errors = program.communicate(timeout=PATIENCE)
    assert errors == ""
    assert printed == "this belongs to the process that was forked: make another one here\n4\n2 6\n"
    assert program.returncode == 0
