"""Jobs from the command line, with a real crew in real processes."""

import json
import os
import pty
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.waiting import until

from gandy import Client, __version__
from gandy.core.model import JobState


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", "4"):
        yield crew


def test_array_runs_and_its_output_comes_in_order(crew: Crew) -> None:
    done = crew.run("submit", "--tasks", "100", "--wait", "--", "sh", "-c", "echo $GANDY_TASK")
    job = done.stdout.decode().removeprefix("job ").strip()
    assert f"job {job} is finished: 100 of 100 tasks done".encode() in done.stderr
    assert crew.run("job", "output", job).stdout.split() == [str(task).encode() for task in range(1, 101)]


def test_lines_are_tasks(crew: Crew) -> None:
    job = crew.submit("--each-line", "-", "--wait", "--", "echo", "{task}:{line}", data="a b\n'ü'\n".encode())
    assert crew.run("job", "output", job).stdout.decode() == "1:a b\n2:'ü'\n"


def test_more_lines_than_fit_a_frame_are_one_job(crew: Crew) -> None:
    lines = b"".join(b"%05d%s\n" % (number, b"x" * 994) for number in range(1, 18_001))
    job = crew.submit("--each-line", "-", "--hold", "--", "echo {line} | cut -c 1-6", data=lines)
    shown = json.loads(crew.run("job", "show", job, "--output", "json").stdout)
    assert shown["tasks"] == shown["waiting"] == 18_000
    crew.run("job", "cancel", job)
    crew.run("job", "retry", job, "--task", "18000")
    crew.run("job", "release", job)
    crew.run("job", "wait", job, code=3)
    assert crew.run("job", "output", job, "--task", "18000").stdout == b"18000x\n"


@pytest.mark.parametrize("leave", ["", "setsid -w ", "env -i setsid -w "], ids=["group", "session", "daemon"])
def test_task_that_uses_too_much_memory_is_killed(crew: Crew, leave: str) -> None:
    greedy = f"{leave}{sys.executable} -c 'held = bytearray(400_000_000); import time; time.sleep(600)'"
    job = crew.submit("--memory", "300M", greedy)
    crew.run("job", "wait", job, code=1)
    told = crew.run("job", "explain", job).stdout
    assert re.search(
        rb"used too much memory and was killed \([34]\d\d,\d+,\d+ bytes, and 300,000,000 is its limit\)", told
    )


def test_output_of_many_tasks_is_that_of_each(crew: Crew) -> None:
    """Silent ones, short ones, and some that are longer than an answer may be."""
    line = "case $((GANDY_TASK % 300)) in 7) seq 900000;; *3) ;; *) echo $GANDY_TASK;; esac; echo e$GANDY_TASK >&2"
    job = crew.submit("--tasks", "620", "--wait", line)
    long = b"".join(b"%d\n" % number for number in range(1, 900_001))
    expected = [long if task % 300 == 7 else b"" if task % 10 == 3 else b"%d\n" % task for task in range(1, 621)]
    assert crew.run("job", "output", job).stdout == b"".join(expected)
    errors = b"".join(b"e%d\n" % task for task in range(1, 621))
    assert crew.run("job", "output", job, "--stderr").stdout == errors


def test_output_that_is_not_here_does_not_hide_the_rest(crew: Crew, tmp_path: Path) -> None:
    line = f"[ $GANDY_TASK -lt 3 ] || until [ -e {tmp_path}/go ]; do sleep 0.05; done; echo $GANDY_TASK"
    job = crew.submit("--tasks", "40", "--tag", "either", line)
    worker = ("worker", "run", "--slots", "1", "--tag", "either", "--name")
    with crew.running(*worker, "left"):
        until(lambda: crew.show("job", "show", job)[0]["finished"] == 2)
    (tmp_path / "go").touch()
    with crew.running(*worker, "stays"):
        crew.run("job", "wait", job)
        shown = crew.run("job", "output", job, code=1)
    assert shown.stdout.split() == [b"%d" % task for task in range(3, 41)]
    assert [b"what task %d wrote is on worker left" % task in shown.stderr for task in (1, 2, 3)] == [True, True, False]


def test_output_is_byte_for_byte(crew: Crew) -> None:
    job = crew.submit("--wait", r"printf '\377\000\r\n'; echo oops >&2")
    assert crew.run("job", "output", job).stdout == b"\xff\x00\r\n"
    assert crew.run("job", "output", job, "--task", "1", "--stderr").stdout == b"oops\n"


def test_failure_is_the_result_and_is_explained(crew: Crew) -> None:
    done = crew.run("submit", "--tasks", "3", "--wait", "--output", "json", "echo why >&2; exit 4", code=1)
    row = json.loads(done.stdout)
    job = str(row["job"])
    assert (row["state"], row["failed"]) == ("failed", 3)
    assert f"job {job}: 3 of 3 tasks failed; 'gandy job explain {job}' says how".encode() in done.stderr
    explained = crew.run("job", "explain", job, "--task", "2").stdout
    assert b"exit code 4" in explained
    assert b"why" in explained
    tasks = crew.show("job", "show", job, "--tasks")
    assert [(task["task"], task["exit_code"], task["tail"]) for task in tasks] == [(n, 4, "why\n") for n in (1, 2, 3)]
    assert [attempt["attempt"] for attempt in crew.show("job", "show", job, "--task", "1")] == [1]
    assert crew.run("job", "wait", job, code=1).stdout == b""


def test_retry_of_what_finished_says_so_and_changes_nothing(crew: Crew) -> None:
    job = crew.submit("--wait", "true")
    refused = crew.run("job", "retry", job, code=1)
    assert f"job {job} is finished: no task failed or was cancelled, so there is nothing to retry" in str(
        refused.stderr
    )
    refused = crew.run("job", "retry", job, "--task", "1", code=1)
    assert b"there is nothing to retry" in refused.stderr
    after = crew.submit("--after", job, "true")
    assert crew.run("job", "wait", after).returncode == 0
    assert crew.run("job", "forget", job).stdout == f"job {job} is forgotten\n".encode()


def test_a_job_that_is_retried_still_waits_for_the_one_before_it(crew: Crew) -> None:
    before = crew.submit("--hold", "true")
    job = crew.submit("--after", before, "true")
    crew.run("job", "cancel", job)
    crew.run("job", "retry", job)
    assert "waits for job" in crew.run("job", "explain", job).stdout.decode()
    crew.run("job", "release", before)
    crew.run("job", "wait", job)


def test_retry_tries_again(crew: Crew, tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    job = crew.submit(f"test -e {mark}")
    crew.run("job", "wait", job, code=1)
    mark.touch()
    crew.run("job", "retry", job)
    crew.run("job", "wait", job)
    assert [attempt["state"] for attempt in crew.show("job", "show", job, "--task", "1")] == ["failed", "finished"]


def test_held_job_waits_for_its_release(crew: Crew) -> None:
    job = crew.submit("--hold", "--name", "held one", "true")
    assert b"held" in crew.run("job", "explain", job).stdout
    assert [row["job"] for row in crew.show("job", "list", "--state", "paused")] == [int(job)]
    assert b"held one" in crew.run("job", "list").stdout
    crew.run("job", "release", job)
    crew.run("job", "wait", job)
    assert int(job) not in [row["job"] for row in crew.show("job", "list")]
    assert int(job) in [row["job"] for row in crew.show("job", "list", "--all")]


def test_cancelled_job_is_told_by_the_exit_code(crew: Crew) -> None:
    job = crew.submit("--tasks", "2", "sleep", "600")
    assert crew.run("job", "cancel", job, "--task", "2").stdout == f"job {job} is running\n".encode()
    assert crew.run("job", "cancel", job).stdout == f"job {job} is cancelled\n".encode()
    crew.run("job", "wait", job, code=3)
    crew.run("job", "forget", job)
    assert f"no job {job}".encode() in crew.run("job", "show", job, code=1).stderr


def test_job_waits_for_another(crew: Crew) -> None:
    first = crew.submit("--hold", "true")
    second = crew.submit("--after", first, "true")
    assert f"waits for job {first}".encode() in crew.run("job", "explain", second).stdout
    crew.run("job", "release", first)
    crew.run("job", "wait", first, second)


def test_job_file_is_submitted(crew: Crew, tmp_path: Path) -> None:
    path = tmp_path / "job.toml"
    path.write_text('command = "echo $WORD {line}; pwd"\neach-line = ["a"]\ncwd = "."\nenv = {WORD = "x"}\n')
    job = crew.submit("--file", str(path), "--wait")
    assert crew.run("job", "output", job).stdout.decode() == f"x a\n{tmp_path}\n"


def test_output_is_followed_until_the_task_ends(crew: Crew, tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    job = crew.submit(f"echo begun; cat {pipe}")
    with crew.start("job", "output", job, "-f") as follower:
        assert follower.stdout is not None
        assert follower.stdout.readline() == b"begun\n"
        pipe.write_bytes(b"more\n")
        assert follower.communicate(timeout=PATIENCE) == (b"more\n", b"")
    assert follower.returncode == 0


def test_interrupted_wait_leaves_the_job(crew: Crew) -> None:
    with crew.start("submit", "--wait", "--", "sleep", "600") as waiting:
        assert waiting.stderr is not None
        assert b"0 of 1 tasks done" in waiting.stderr.readline()
        waiting.send_signal(signal.SIGINT)
        out, err = waiting.communicate(timeout=PATIENCE)
    job = out.decode().removeprefix("job ").strip()
    assert waiting.returncode == 130
    assert f"job {job} goes on; 'gandy job wait {job}' waits again".encode() in err
    assert crew.show("job", "show", job)[0]["state"] in ("waiting", "running")
    crew.run("job", "cancel", job)


def test_terminal_shows_a_bar(crew: Crew) -> None:
    ours, theirs = pty.openpty()
    try:
        with crew.start("submit", "--tasks", "20", "--wait", "true", stderr=theirs) as process:
            assert process.wait(PATIENCE) == 0
        drawn = os.read(ours, 1_000_000).decode()
    finally:
        os.close(ours)
        os.close(theirs)
    assert "20/20" in drawn.rpartition("is finished")[2]


def test_crew_is_told(crew: Crew) -> None:
    (status,) = crew.show("status")
    assert (status["workers"], status["slots"], status["insecure"]) == (1, 4, False)
    assert b"4 in use" in crew.run("status").stdout
    (worker,) = crew.show("worker", "list")
    assert (worker["slots"], worker["connected"]) == (4, True)
    assert crew.run("worker", "list", "--output", "quiet").stdout.decode().strip() == worker["name"]
    assert crew.show("worker", "show", worker["name"])[0]["id"] == worker["id"]
    shown = crew.run("worker", "show", worker["id"]).stdout.decode()
    assert re.search(rf"^version +{re.escape(__version__)}$", shown, re.MULTILINE)
    assert b"no worker is called nobody" in crew.run("worker", "show", "nobody", code=1).stderr


@pytest.mark.parametrize(
    "words",
    [
        ("show", "9999"),
        ("show", "9999", "--tasks"),
        ("wait", "9999"),
        ("output", "9999"),
        ("output", "9999", "--task", "1", "-f"),
        ("cancel", "9999"),
        ("hold", "9999"),
        ("release", "9999"),
        ("retry", "9999"),
        ("explain", "9999"),
        ("forget", "9999"),
    ],
    ids=" ".join,
)
def test_job_that_is_not_there_is_told(crew: Crew, words: tuple[str, ...]) -> None:
    assert crew.run("job", *words, code=1).stderr == b"gandy: there is no job 9999\n"


def test_one_bad_number_does_not_keep_the_others(crew: Crew) -> None:
    job = crew.submit("--hold", "true")
    done = crew.run("job", "cancel", "9999", job, code=1)
    assert done.stdout == f"job {job} is cancelled\n".encode()


def test_worker_that_is_not_there_is_told(crew: Crew) -> None:
    assert b"nobody" in crew.run("worker", "stop", "nobody", code=1).stderr


@pytest.mark.parametrize("words", [("status",), ("submit", "true"), ("job", "list"), ("worker", "list")], ids=" ".join)
def test_no_foreman_is_told_with_what_to_do(tmp_path: Path, words: tuple[str, ...]) -> None:
    error = f"gandy: no foreman is running at unix:{tmp_path}/foreman.sock; start one with 'gandy up'\n"
    assert Crew(tmp_path).run(*words, code=1).stderr == error.encode()


def test_program_uses_the_same_crew(crew: Crew) -> None:
    with Client(f"unix:{crew.home}/foreman.sock") as client:
        job = client.submit("echo $GANDY_TASK", tasks=5)
        assert job.wait(timeout=PATIENCE).state is JobState.FINISHED
        assert b"".join(piece for task in job.tasks() for piece in job.output(task.task)) == b"1\n2\n3\n4\n5\n"
        assert job.id in {row.job for row in client.jobs()}


def test_wait_survives_a_foreman_that_is_killed(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with (
        crew.running("foreman", "run") as first,
        crew.running("worker", "run", "--slots", "2"),
        crew.start("submit", "--wait", f"cat {pipe}") as waiting,
    ):
        assert waiting.stderr is not None
        while b"1 running" not in waiting.stderr.readline():
            pass
        first.kill()
        with crew.running("foreman", "run"):
            pipe.write_bytes(b"on\n")  # returns when the task reads: it has outlived its foreman
            out, _ = waiting.communicate(timeout=PATIENCE)
            job = out.decode().removeprefix("job ").strip()
            assert waiting.returncode == 0
            assert crew.run("job", "output", job).stdout == b"on\n"
            assert [row["attempt"] for row in crew.show("job", "show", job, "--task", "1")] == [1]


def test_foreman_stops_when_told(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run", "--store", "memory:") as process:
        assert crew.show("foreman", "stop") == [{"foreman": f"unix:{tmp_path}/foreman.sock", "drain": False}]
        assert process.wait(PATIENCE) == 0
