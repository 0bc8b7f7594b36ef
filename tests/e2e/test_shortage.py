"""Workers that are really short of something: of files by their limit, of processes by a library that refuses them.

The limit of processes does not bind root, so the C library's `posix_spawn` is replaced in one worker.
"""

import resource
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from tests.e2e.crew import GANDY, PATIENCE
from tests.e2e.kitchens import Kitchen, a_kitchen
from tests.processes import find_busy
from tests.waiting import until

import gandy
from gandy.core.model import JobState

REFUSING = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <spawn.h>
#include <stdlib.h>
#include <unistd.h>

typedef int spawn_type(pid_t *, const char *, const posix_spawn_file_actions_t *, const posix_spawnattr_t *,
                       char *const[], char *const[]);

int posix_spawn(pid_t *pid, const char *path, const posix_spawn_file_actions_t *actions, const posix_spawnattr_t *attr,
                char *const argv[], char *const envp[]) {
    const char *fault = getenv("REFUSE_WHILE");
    if (fault && access(fault, F_OK) == 0) return EAGAIN;
    return ((spawn_type *)dlsym(RTLD_NEXT, "posix_spawn"))(pid, path, actions, attr, argv, envp);
}
"""


class Hired(NamedTuple):
    pid: int
    log: Path


@contextmanager
def a_worker(kitchen: Kitchen, name: str, slots: int, files: int, **env: str) -> Iterator[Hired]:
    """With so many files, soft and hard, and more in its environment."""
    log = kitchen.home / f"{name}.log"
    line = f"ulimit -n {files}; exec {GANDY} worker run --name {name} --slots {slots}"
    with (
        log.open("wb") as said,
        subprocess.Popen(["sh", "-c", line], env={**kitchen.environment, **env}, stderr=said) as process,
    ):
        try:
            until(lambda: name in list_problems(kitchen))
            yield Hired(find_busy(process.pid), log)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(PATIENCE)


def list_problems(kitchen: Kitchen) -> dict[str, str]:
    with gandy.Client(kitchen.address) as client:
        return {row.name: row.problem for row in client.workers()}


def check_output(kitchen: Kitchen, number: str) -> None:
    """Of 200 tasks that wrote their numbers to both streams."""
    for stream in ("out", "err"):
        with gandy.Client(kitchen.address) as client:
            job = client.job(int(number))
            said = {task: b"".join(job.output(task, stream)) for task in range(1, 201)}
        assert said == {task: b"%d on %s\n" % (task, stream.encode()) for task in range(1, 201)}


WRITING = "echo {task} on out; echo {task} on err >&2"


def test_worker_that_starts_with_few_files_has_few_slots_and_loses_no_output(tmp_path: Path) -> None:
    with a_kitchen(tmp_path) as kitchen, a_worker(kitchen, "poor", 12, files=32) as worker:
        assert "there are open files for only 1 of 12 slots" in worker.log.read_text()
        check_output(kitchen, kitchen.submit("--wait", "--tasks", "200", WRITING))


def test_worker_that_runs_out_of_files_neither_loses_nor_mixes_output(tmp_path: Path) -> None:
    with a_kitchen(tmp_path) as kitchen, a_worker(kitchen, "poor", 12, files=1024) as worker:
        used = len(list(Path(f"/proc/{worker.pid}/fd").iterdir()))
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (used + 3, 1024))
        number = kitchen.submit("--tasks", "200", f"sleep 0.0$(({{task}} % 7)); {WRITING}")
        with gandy.Client(kitchen.address) as client:
            until(lambda: "open files" in list_problems(kitchen)["poor"])
            assert client.job(int(number)).wait().state is JobState.FINISHED
        check_output(kitchen, number)
        assert "Traceback" not in worker.log.read_text()
        resource.prlimit(worker.pid, resource.RLIMIT_NOFILE, (1024, 1024))
        until(lambda: not list_problems(kitchen)["poor"])


def test_worker_without_enough_files_says_so_and_nothing_else(tmp_path: Path) -> None:
    with a_kitchen(tmp_path) as kitchen:
        line = f"ulimit -n 28; exec {GANDY} worker run"
        done = subprocess.run(["sh", "-c", line], env=kitchen.environment, capture_output=True, timeout=PATIENCE)
        assert done.returncode == 1
        assert done.stderr.decode().splitlines() == [
            "gandy: a worker needs 32 open files, and may have 28 here: raise it with ulimit -n"
        ]


def test_tasks_of_a_worker_that_cannot_start_processes_go_to_another(tmp_path: Path) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("there is no C compiler to make a library that refuses processes")
    (tmp_path / "refusing.c").write_text(REFUSING)
    library, fault = tmp_path / "refusing.so", tmp_path / "fault"
    subprocess.run([compiler, "-shared", "-fPIC", "-o", library, tmp_path / "refusing.c", "-ldl"], check=True)

    (tmp_path / "home").mkdir()
    environment = {"LD_PRELOAD": str(library), "REFUSE_WHILE": str(fault)}
    with a_kitchen(tmp_path / "home") as kitchen, a_worker(kitchen, "refused", 4, 1024, **environment):
        fault.touch()
        number = kitchen.submit("--tasks", "100", "echo {task}")
        until(lambda: "processes" in list_problems(kitchen)["refused"])
        kitchen.hire("w1", 2)
        with gandy.Client(kitchen.address) as client:
            job = client.job(int(number))
            row = job.wait()
            assert row.state is JobState.FINISHED
            attempts = [each for task in range(1, 101) for each in job.attempts(task)]
            # Each can go back once when it waits there, and then only those that the worker tries.
            assert len(attempts) <= 300
            assert {each.worker.rpartition("-")[0] for each in job.tasks()} == {"w1"}
            assert {(each.failures, each.crashes) for each in job.tasks()} == {(0, 0)}
        said = kitchen.run("job", "output", number).stdout.split()
        assert said == [b"%d" % task for task in range(1, 101)]
        assert b"worker refused is short of processes" in kitchen.run("worker", "list").stderr
        fault.unlink()
        until(lambda: not list_problems(kitchen)["refused"])
