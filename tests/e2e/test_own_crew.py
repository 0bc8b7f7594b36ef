"""A crew that a program starts below itself: it works at once, and nothing is left of it, whatever ends the program."""

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from tests.e2e.crew import GANDY, PATIENCE
from tests.processes import is_alive, list_descendants
from tests.waiting import until

from gandy import AsyncCrew, Client, Crew, Executor, task
from gandy.errors import ConfigError, CrewFailed


def list_own(crew: Crew | AsyncCrew) -> list[int]:
    """The processes of a crew, which are below this one."""
    pids = [pid for pid in list_descendants(os.getpid()) if str(crew.folder).encode() in read_arguments(pid)]
    return pids + [found for pid in pids for found in list_descendants(pid)]


def read_arguments(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def until_dead(pids: list[int]) -> None:
    assert pids
    until(lambda: not any(map(is_alive, pids)))


def test_a_crew_works_until_the_end_of_the_block_and_leaves_nothing() -> None:
    with Crew(slots=2) as crew:
        assert crew.status().slots == 2
        assert crew.run(pow, 2, 10).result() == 1024
        assert list(crew.map(lambda number: number + 1, range(3))) == [1, 2, 3]
        assert crew.submit("true").wait().counts.finished == 1
        pids = list_own(crew)
        assert len(pids) >= 3  # guardian, worker, watchdog
    assert not any(map(is_alive, pids))
    assert not crew.folder.exists()
    assert not crew.is_running


def test_a_crew_on_asyncio_works_and_leaves_nothing() -> None:
    async def use(given: Crew | AsyncCrew) -> AsyncCrew:
        async with given as crew:
            assert await crew.run(pow, 2, 10) == 1024
            assert [value async for value in crew.map(abs, [-1, -2])] == [1, 2]
            other = await crew.client()
            assert (await other.status()).slots == 1
            await other.close()
            pids = list_own(crew)
            assert crew.is_running
        assert not any(map(is_alive, pids))
        assert not crew.folder.exists()
        return crew

    asyncio.run(use(AsyncCrew(slots=1)))
    asyncio.run(use(Crew(slots=1)))


def test_crews_side_by_side_know_nothing_of_one_another() -> None:
    with Crew(slots=1) as one, Crew(slots=2) as other:
        assert (one.status().slots, other.status().slots) == (1, 2)
        assert one.submit("true").id == other.submit("true").id == 1
        one.close()
        assert other.run(pow, 2, 3).result() == 8


def test_tasks_and_other_programs_find_the_crew() -> None:
    def count_jobs() -> int:
        with Client() as client:
            return len(list(client.jobs()))

    with Crew(slots=1) as crew:
        crew.submit("true").wait()
        assert crew.run(count_jobs).result() == 2
        done = subprocess.run(
            [GANDY, "job", "list", "--output", "quiet"], env={**os.environ, **crew.environment}, capture_output=True
        )
        assert done.stdout == b"2\n"  # the job that has not ended
        with Client(crew.address) as client, Executor(crew.address) as executor, crew.client() as third:
            assert client.status().pid == third.status().pid == crew.status().pid
            assert executor.submit(pow, 2, 3).result() == 8


@task
def add_one(number: int) -> int:
    return number + 1


def test_decorated_functions_use_the_crew_of_the_block() -> None:
    with Crew(slots=1) as crew:
        future = add_one.run(2)
        assert future.result() == crew.result(future.job, future.number) == 3
        assert [row.job for row in crew.jobs()] == [future.job]


def test_a_task_may_have_a_crew() -> None:
    def use_another() -> int:
        with Crew(slots=1) as inner:
            return int(inner.run(pow, 2, 3).result()) + inner.status().slots

    with Crew(slots=1) as crew:
        assert crew.run(use_another).result() == 9


def test_commands_can_be_called_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "doubling.py").write_text(
        "import gandy\nworker = gandy.Worker()\nprint('to the log')\n\n\n@worker.command\ndef double(n): return 2 * n\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with Crew(slots=2, reserve=1, commands=["doubling"], log=tmp_path / "log") as crew:
        assert crew.call("double", 4) == 8
    assert "to the log" in (tmp_path / "log").read_text()


def test_a_folder_keeps_jobs_for_the_next_crew(tmp_path: Path) -> None:
    folder = tmp_path / "kept"
    with Crew(slots=1, folder=folder) as crew:
        job = crew.submit("echo kept; sleep 600", tasks=2)
        until(lambda: b"kept" in b"".join(job.output(1)))
        pids = list_own(crew)
    assert not any(map(is_alive, pids))
    with crew:
        assert crew.job(job.id).status().counts.finished == 0
        assert crew.job(job.id).cancel().counts.cancelled == 2
        assert crew.run(pow, 2, 3).result() == 8
    assert (folder / "jobs.sqlite").exists()


# However the crew ends


def test_futures_fail_when_the_crew_is_closed() -> None:
    with Crew(slots=1) as crew:
        future = crew.run(time.sleep, 600)
        until(future.running)
    with pytest.raises(CrewFailed, match="the crew was closed"):
        future.result(PATIENCE)


@pytest.mark.parametrize("which", ["guardian", "worker"])
def test_futures_fail_when_the_crew_is_killed_and_nothing_is_left(which: str) -> None:
    with Crew(slots=1) as crew:
        future = crew.run(time.sleep, 600)
        until(future.running)
        pids = list_own(crew)
        guardian = next(
            pid for pid in list_descendants(os.getpid()) if str(crew.folder).encode() in read_arguments(pid)
        )
        os.kill(guardian if which == "guardian" else list_descendants(guardian)[0], signal.SIGKILL)
        with pytest.raises(CrewFailed, match="the crew was killed by SIGKILL"):
            future.result(PATIENCE)
        with pytest.raises(CrewFailed, match="the crew was killed by SIGKILL"):
            crew.status()
        until_dead(pids)
        assert not crew.folder.exists()
        assert not crew.is_running
        assert crew.start().run(pow, 2, 3).result() == 8


def test_a_crew_ends_with_the_last_reference_to_it() -> None:
    crew = Crew(slots=1).start()
    folder, pids = crew.folder, list_own(crew)
    del crew
    until_dead(pids)
    until(lambda: not folder.exists())


PROGRAM = """
import os, signal, subprocess, sys, time
import gandy

def hold(folder):
    stray = subprocess.Popen(["setsid", "sleep", "600"])
    (folder / "stray").write_text(str(stray.pid))
    time.sleep(600)

if __name__ == "__main__":
    crew = gandy.Crew(slots=3).start()
    if "pipes" in sys.argv and not os.fork():
        time.sleep(600)
    future = crew.run(hold, crew.folder)
    job = crew.submit("trap '' TERM; while :; do sleep 0.1; done")
    while not (crew.folder / "stray").exists() or not job.status().counts.running:
        time.sleep(0.01)
    print(crew.folder, flush=True)
    if "exit" in sys.argv:
        sys.exit(3)
    if "exec" in sys.argv:
        os.execv("/bin/sleep", ["sleep", "600"])
    with crew:
        future.result()
"""


@pytest.fixture
def program(tmp_path: Path) -> list[str]:
    path = tmp_path / "program.py"
    path.write_text(PROGRAM)
    return [sys.executable, str(path)]


class Started:
    """A program that has a crew, with a task that left its session and one that ignores SIGTERM."""

    def __init__(self, words: list[str]) -> None:
        self.process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        line = self.process.stdout.readline().strip()
        assert line, self.process.communicate()
        self.folder = Path(line)
        forked = [pid for pid in list_descendants(self.process.pid) if b"pipes" in read_arguments(pid)]
        self.pids = [pid for pid in list_descendants(self.process.pid) if pid not in forked]
        self.pids.append(int((self.folder / "stray").read_text()))
        self.forked = forked

    def until_gone(self) -> None:
        until_dead(self.pids)
        until(lambda: not self.folder.exists())
        assert all(map(is_alive, self.forked))

    def stop(self) -> None:
        for pid in [self.process.pid, *self.forked]:
            if is_alive(pid):
                os.kill(pid, signal.SIGKILL)
        self.process.communicate(timeout=PATIENCE)


def test_nothing_is_left_of_a_crew_whose_program_is_killed(program: list[str]) -> None:
    started = Started(program)
    try:
        assert len(started.pids) >= 6  # guardian, worker, watchdog, a slot process, its stray, a shell
        started.process.kill()
        started.until_gone()
    finally:
        started.stop()


def test_nothing_is_left_if_the_processes_of_the_crew_are_killed_too(program: list[str]) -> None:
    """As `killall -9 python` does. Only the watchdog is left, which is a shell."""
    started = Started(program)
    try:
        pythons = [pid for pid in started.pids if str(started.folder).encode() in read_arguments(pid)]
        for pid in (started.process.pid, *(pid for pid in pythons if b"gandy.crew.program" in read_arguments(pid))):
            os.kill(pid, signal.SIGKILL)
        started.until_gone()
    finally:
        started.stop()


@pytest.mark.parametrize("has_folder", [False, True])
def test_nothing_is_left_of_a_crew_whose_program_is_killed_while_it_starts(
    program: list[str], has_folder: bool
) -> None:
    process = subprocess.Popen(program, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    until(lambda: bool(list_descendants(process.pid)))
    until(lambda: b"gandy.crew.program" in read_arguments(list_descendants(process.pid)[0]))
    child = list_descendants(process.pid)[0]
    (options,) = [word for word in read_arguments(child).split(b"\0") if word.startswith(b"{")]
    folder = Path(json.loads(options)["folder"])
    if has_folder:
        until(folder.exists)
    pids = [child, *list_descendants(child)]
    process.kill()
    process.communicate(timeout=PATIENCE)
    until_dead(pids)
    until(lambda: not folder.exists())


def test_a_forked_process_that_holds_all_pipes_keeps_no_crew(program: list[str]) -> None:
    started = Started([*program, "pipes"])
    try:
        assert len(started.forked) == 1
        started.process.kill()
        started.until_gone()
    finally:
        started.stop()


def test_ctrl_c_ends_the_crew_before_the_program(program: list[str]) -> None:
    started = Started(program)
    started.process.send_signal(signal.SIGINT)
    _, errors = started.process.communicate(timeout=PATIENCE)
    assert started.process.returncode == -signal.SIGINT
    assert (
        "KeyboardInterrupt" in errors.splitlines()
    )  # then how many functions are cancelled, if it was not in the block
    assert not any(map(is_alive, started.pids))
    assert not started.folder.exists()


def test_a_program_that_ends_without_closing_its_crew_leaves_nothing(program: list[str]) -> None:
    started = Started([*program, "exit"])
    _, errors = started.process.communicate(timeout=PATIENCE)
    assert (started.process.returncode, errors) == (3, "")
    assert not any(map(is_alive, started.pids))
    assert not started.folder.exists()


def test_a_program_that_becomes_another_one_leaves_nothing(program: list[str]) -> None:
    """As programs do that start themselves again when their code changes."""
    started = Started([*program, "exec"])
    try:
        started.until_gone()
        assert is_alive(started.process.pid)
    finally:
        started.stop()


def test_a_forked_process_does_not_end_the_crew_of_its_parent() -> None:
    with Crew(slots=1) as crew:
        child = os.fork()
        if not child:
            try:
                crew.close()
            finally:
                os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert crew.run(pow, 2, 3).result() == 8


# A crew that does not start


def test_a_crew_that_was_not_started_says_how(tmp_path: Path) -> None:
    crew = Crew(slots=1)
    with pytest.raises(CrewFailed, match="start it by 'with', or with start"):
        crew.run(pow, 2, 3).result(PATIENCE)
    with pytest.raises(CrewFailed, match="start it by 'with', or with start"):
        crew.status()
    crew.close()


def test_what_is_wrong_with_an_option_is_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"a worker has 1 to .* slots, not 0"):
        Crew(slots=0).start()
    with pytest.raises(ConfigError, match="No module named 'no_such_module'"):
        Crew(slots=1, commands=["no_such_module"]).start()
    with pytest.raises(ConfigError, match=r"write commands=\['kitchen'\]"):
        Crew(slots=1, commands="kitchen")
    with pytest.raises(ConfigError, match="longer than 107 bytes"):
        Crew(slots=1, folder=tmp_path / ("long" * 30))
    with pytest.raises(ConfigError, match=r"cannot write the log of the crew to .*: Is a directory"):
        Crew(slots=1, log=tmp_path).start()


def test_a_folder_that_is_in_use_is_told(tmp_path: Path) -> None:
    with Crew(slots=1, folder=tmp_path), pytest.raises(CrewFailed, match="another foreman uses it"):
        Crew(slots=1, folder=tmp_path).start()


def test_a_crew_that_dies_at_its_start_is_quoted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\necho 'no module today' >&2\nexit 7\n")
    broken.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(broken))
    with pytest.raises(CrewFailed, match="the crew ended with exit code 7; its last words:\nno module today"):
        Crew(slots=1).start()
    monkeypatch.setattr(sys, "executable", str(tmp_path / "none"))
    with pytest.raises(CrewFailed, match=r"cannot start a crew with the Python at .*/none"):
        Crew(slots=1).start()


def test_a_start_that_is_cancelled_leaves_nothing() -> None:
    async def start(crew: AsyncCrew) -> None:
        starting = asyncio.ensure_future(crew.start())
        while not list_own(crew):
            await asyncio.sleep(0)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        assert not list_own(crew)
        assert not crew.folder.exists()

    asyncio.run(start(AsyncCrew(slots=1)))
