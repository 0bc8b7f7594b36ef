"""How tasks end by themselves, and what is known about it."""

import asyncio
import os
import resource
import signal
import sys
import time
from pathlib import Path

import pytest
from tests.integration.worker.runner_bench import a_bench, an_attempt, an_order, run_one

from gandy.core.model import AttemptKey, Cause, Command, Ending
from gandy.worker.runner import Runner
from gandy.worker.worker_folder import WorkerFolder


@pytest.mark.parametrize("code", [0, 1, 3, 127, 255])
@pytest.mark.parametrize("cwd", ["", "/"])
def test_exit_code_is_told(tmp_path: Path, code: int, cwd: str) -> None:
    ending, _ = run_one(tmp_path, f"exit {code}", cwd=cwd)
    assert (ending.cause, ending.exit_code, ending.signal, ending.note) == (Cause.EXIT, code, None, "")
    assert ending.is_success == (code == 0)


def test_program_that_the_shell_misses_is_an_ordinary_exit(tmp_path: Path) -> None:
    ending, _ = run_one(tmp_path, "PATH=/bin; no-such-program-here")
    assert (ending.cause, ending.exit_code) == (Cause.EXIT, 127)
    assert b"not found" in ending.tail


def test_signal_is_told_by_number_and_name(tmp_path: Path) -> None:
    ending, _ = run_one(tmp_path, "kill -s SEGV $$")
    assert (ending.cause, ending.exit_code, ending.signal) == (Cause.SIGNAL, None, signal.SIGSEGV)
    assert ending.note == "killed by SIGSEGV"


def test_signal_without_a_name_is_told(tmp_path: Path) -> None:
    ending, _ = run_one(tmp_path, "kill -40 $$")
    assert (ending.cause, ending.signal, ending.note) == (Cause.SIGNAL, 40, "killed by signal 40")


def test_kill_by_a_stranger_is_not_called_out_of_memory(tmp_path: Path) -> None:
    ending, _ = run_one(tmp_path, "kill -KILL $$")
    assert (ending.cause, ending.signal, ending.note) == (Cause.SIGNAL, signal.SIGKILL, "killed by SIGKILL")


@pytest.mark.parametrize("line", ["kill -KILL $$", "exit 137"])
def test_kill_by_the_kernel_is_called_out_of_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    counts = iter([4, 5])
    monkeypatch.setattr("gandy.worker.oom.OomCounter.read", lambda self: next(counts))
    ending, _ = run_one(tmp_path, line)
    assert ending.note == "killed by the kernel, which was out of memory"


def test_times_are_told(tmp_path: Path) -> None:
    before = time.time()
    ending, _ = run_one(tmp_path, "true")
    assert ending.started is not None
    assert ending.ended is not None
    assert before <= ending.started <= ending.ended <= time.time()


def test_peak_memory_is_told_where_it_exceeds_the_workers_own(tmp_path: Path) -> None:
    more = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024 + 100_000_000
    say = "import resource; print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)"
    ending, out = run_one(tmp_path, (sys.executable, "-c", f"x = b'x' * {more}; {say}"))
    assert ending.peak_memory_bytes is not None
    assert int(out) * 1024 <= ending.peak_memory_bytes < int(out) * 1024 + 10_000_000
    assert run_one(tmp_path, "true")[0].peak_memory_bytes is None


def test_tail_is_the_end_of_standard_error_as_bytes(tmp_path: Path) -> None:
    ending, out = run_one(tmp_path, r"printf 'out \377\n'; yes no | head -n 5000 >&2; printf 'err \377\376' >&2")
    assert out == b"out \xff\n"
    assert len(ending.tail) == 4096
    assert ending.tail.endswith(b"no\nerr \xff\xfe")


NOT_STARTED: dict[str, tuple[Command, str, str]] = {
    "missing program": (("no-such-program",), "", "cannot run no-such-program: no such program"),
    "missing program elsewhere": (("no-such-program",), "/", "cannot run no-such-program: no such program"),
    "missing path": (("/no/such/program",), "", "cannot run /no/such/program: No such file or directory"),
    "not a program": (("/etc/passwd",), "", "cannot run /etc/passwd: Permission denied"),
    "missing folder": ("true", "/no/such/folder", "cannot change to /no/such/folder: No such file or directory"),
    "not a folder": ("true", "/etc/passwd", "cannot change to /etc/passwd: Not a directory"),
    "too long": (("true", "x" * 3_000_000), "", "cannot run true: Argument list too long"),
    "too long elsewhere": ("x" * 3_000_000, "/", "cannot run sh: Argument list too long"),
    "zero byte": ("echo \0", "", "cannot run: embedded null byte"),
    "no command": ((), "", "cannot run: the command is empty"),
    "zero byte in the folder": ("true", "/a\0b", "cannot run: embedded null byte"),
    "zero byte in the folder, and no program": (("no-such-program",), "/a\0b", "cannot run: embedded null byte"),
}


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("case", NOT_STARTED)
def test_what_cannot_start_says_why(tmp_path: Path, case: str) -> None:
    command, cwd, note = NOT_STARTED[case]
    ending, _ = run_one(tmp_path, command, cwd=cwd)
    assert (ending.cause, ending.note) == (Cause.NOT_STARTED, note)
    assert ending.started is None
    assert list((tmp_path / "open").iterdir()) == []


@pytest.mark.parametrize("name", ["", "A=B", "A\0B"])
def test_variable_that_cannot_be_says_so(tmp_path: Path, name: str) -> None:
    ending, _ = run_one(tmp_path, "true", env={name: "value"})
    assert ending.cause is Cause.NOT_STARTED
    assert ending.note in ("cannot run: illegal environment variable name", "cannot run: embedded null byte")


def test_books_of_what_is_over_are_kept_when_the_user_says_so(tmp_path: Path) -> None:
    async def go() -> None:
        over: asyncio.Queue[AttemptKey] = asyncio.Queue()
        async with a_bench(tmp_path, on_over=over.put_nowait) as bench:
            for task in (1, 2):
                bench.runner.start(an_order(f"echo {task}; exit {task}", task))
                assert await over.get() == an_attempt(task)
                assert an_attempt(task) not in bench.runner.running
            assert bench.endings == {}
            await bench.runner.running.wait_idle()
            bench.runner.finished.report()
            assert [ending.exit_code for ending in bench.endings.values()] == [1, 2]
            assert [bench.output(task) for task in (1, 2)] == [b"1\n", b"2\n"]

    asyncio.run(go())


def test_output_of_what_is_over_can_be_read_before_its_books_are_kept(tmp_path: Path) -> None:
    async def go() -> None:
        over: asyncio.Queue[AttemptKey] = asyncio.Queue()
        async with a_bench(tmp_path, on_over=over.put_nowait) as bench:
            bench.runner.start(an_order("echo said"))
            await over.get()
            piece = bench.runner.read(an_attempt(), "out", 0, 100)
            assert piece == (b"said\n", True, False)

    asyncio.run(go())


def test_one_ending_that_is_not_taken_does_not_keep_others_back(tmp_path: Path) -> None:
    async def go() -> None:
        told: list[AttemptKey] = []

        def on_end(attempt: AttemptKey, _ending: Ending) -> None:
            if attempt == an_attempt(1):
                raise ValueError("not this one")
            told.append(attempt)

        over: asyncio.Queue[AttemptKey] = asyncio.Queue()
        runner = Runner(WorkerFolder(tmp_path), on_end, on_over=over.put_nowait)
        for task in (1, 2):
            runner.start(an_order("true", task))
            await over.get()
        with pytest.raises(ValueError, match="not this one"):
            runner.finished.report()
        await asyncio.sleep(0)
        runner.close()
        assert told == [an_attempt(2)]

    asyncio.run(go())


def test_output_that_a_task_made_a_folder_of_is_told_and_cleared_away(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            line = "f=$(readlink /proc/$$/fd/2); rm $f; mkdir -p $f/deep"
            assert (await bench.run(line)).note == "its standard error is missing: the file was replaced"
            assert (await bench.run("echo fine", task=2)).is_success
            assert bench.output(2) == b"fine\n"

    asyncio.run(go())


def test_output_that_cannot_be_moved_yet_can_be_read_and_is_moved_later(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            (tmp_path / "1").write_text("in the way")
            ending = await bench.run("echo out; echo last words >&2")
            assert ending.is_success
            assert (ending.out_bytes, ending.err_bytes, ending.tail, ending.note) == (4, 11, b"last words\n", "")
            assert (await bench.run("echo other", task=2)).is_success
            assert (bench.output(), bench.output(2)) == (b"out\n", b"other\n")
            bench.runner.folder.outputs.move_rest()
            (tmp_path / "1").unlink()
            bench.runner.folder.outputs.move_rest()
            assert (bench.output(), bench.output(2)) == (b"out\n", b"other\n")
            assert {path.name for path in (tmp_path / "1" / "0").iterdir()} == {"1.1.out", "1.1.err", "2.1.out"}

    asyncio.run(go())


def test_ending_is_never_told_within_start(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            bench.runner.start(an_order(("no-such-program",)))
            assert bench.endings == {}
            await bench.ending_of(an_attempt())

    asyncio.run(go())


def test_attempt_runs_once(tmp_path: Path) -> None:
    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            bench.runner.start(an_order("sleep 60"))
            with pytest.raises(ValueError, match="runs already"):
                bench.runner.start(an_order("sleep 60"))
            bench.runner.kill(an_attempt(), Cause.CANCELLED)
            await bench.runner.running.wait_idle()

    asyncio.run(go())


def test_two_hundred_tasks_eight_at_a_time(tmp_path: Path) -> None:
    async def go() -> None:
        numbers = iter(range(1, 201))
        codes: dict[int, int | None] = {}
        most = 0

        def start_next() -> None:
            nonlocal most
            if number := next(numbers, None):
                runner.start(an_order("echo $GANDY_TASK; exit $((GANDY_TASK % 7))", number))
                most = max(most, len(runner.running))

        def on_end(attempt: AttemptKey, ending: Ending) -> None:
            codes[attempt.task] = ending.exit_code
            start_next()

        runner = Runner(WorkerFolder(tmp_path), on_end)
        for _ in range(8):
            start_next()
        await runner.running.wait_idle()
        assert codes == {number: number % 7 for number in range(1, 201)}
        assert most == 8
        assert all(runner.read(an_attempt(n), "out", 0, 99).data == b"%d\n" % n for n in range(1, 201))
        runner.close()

    asyncio.run(go())


def test_other_children_of_the_process_are_left_alone(tmp_path: Path) -> None:
    async def go() -> None:
        stranger = os.posix_spawn("/bin/sh", ["sh", "-c", "exit 9"], os.environ)
        async with a_bench(tmp_path) as bench:
            process = await asyncio.create_subprocess_exec("sh", "-c", "exit 8")
            await bench.run("exit 7")
            assert await process.wait() == 8
        assert os.waitstatus_to_exitcode(os.waitpid(stranger, 0)[1]) == 9

    asyncio.run(go())


def test_signals_that_the_worker_ignores_from_the_start_are_ignored_in_tasks_and_others_are_not(tmp_path: Path) -> None:
    before = {number: signal.signal(number, signal.SIG_IGN) for number in (signal.SIGHUP, signal.SIGPIPE)}
    try:
        assert run_one(tmp_path / "1", "kill -HUP $$; echo on")[1] == b"on\n"
        for name in ("PIPE", "USR1", "TERM"):
            assert run_one(tmp_path / name, f"kill -{name} $$")[0].note == f"killed by SIG{name}"
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def test_exit_codes_are_known_even_if_child_signals_were_ignored(tmp_path: Path) -> None:
    before = signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    try:
        assert run_one(tmp_path, "exit 5")[0].exit_code == 5
    finally:
        signal.signal(signal.SIGCHLD, before)
