"""What a task sees: its arguments, its environment, its descriptors."""

import asyncio
import os
import shutil
import sys
import threading
from pathlib import Path

import msgspec
import pytest
from tests.integration.worker.runner_bench import a_bench, an_order, run_one, run_shell

from gandy.core.model import Cause, Command
from gandy.worker.order import Order
from gandy.worker.output import OutputFiles
from gandy.worker.spawn import Spawner

HOSTILE = [
    "'; touch hacked; '",
    '"; touch hacked; "',
    "$(touch hacked)",
    "`touch hacked`",
    "; touch hacked",
    "| touch hacked #",
    "a\ntouch hacked\n",
    "* ? [a-z] ~ \\ $HOME {task} {line}",
    "  spaces  around  ",
    "",
    "plain",
    "naïve \udcff",
]
LINES = dict(enumerate(HOSTILE, start=1))


def as_bytes(line: str) -> bytes:
    return os.fsencode(line)


def test_line_is_one_word_whatever_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    printed = run_shell(tmp_path / "out", "printf '<%s>' {line} end", LINES)
    assert printed == {task: b"<" + as_bytes(line) + b"><end>" for task, line in LINES.items()}
    assert not (tmp_path / "hacked").exists()


@pytest.mark.parametrize(
    "command",
    ['rm -f "{line}"', "echo '{line}'", 'echo "$(echo "{line}")"', "eval {line}", ("sh", "-c", "cat {line}")],
    ids=str,
)
def test_task_whose_line_would_be_code_is_not_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command
) -> None:
    (tmp_path / "kept").touch()
    monkeypatch.chdir(tmp_path)
    ending, _ = run_one(tmp_path / "out", command, line="a *")
    assert (tmp_path / "kept").exists()
    assert ending.cause is Cause.NOT_STARTED
    assert "GANDY_LINE" in ending.note


def test_line_can_be_run_as_code_on_purpose(tmp_path: Path) -> None:
    assert run_shell(tmp_path, 'eval "$GANDY_LINE"', {1: "echo $((6 * 7)) 'a  b'"}) == {1: b"42 a  b\n"}


def test_line_in_an_argument_is_taken_as_it_is(tmp_path: Path) -> None:
    line = "a b; $(c) {task}"
    _, out = run_one(tmp_path, ("printf", "<%s>", "{line}", "x{line}y", "{task}/{job}"), line=line)
    assert out == b"<a b; $(c) {task}><xa b; $(c) {task}y><1/{job}>"


def test_other_braces_stay(tmp_path: Path) -> None:
    _, out = run_one(tmp_path, "x=5; echo ${x} '{}' {a} {line} {task} { task }")
    assert out == b"5 {} {a} {line} 1 { task }\n"


def test_environment_names_the_task(tmp_path: Path) -> None:
    line = 'echo "$GANDY_JOB $GANDY_TASK $GANDY_ATTEMPT $GANDY_TASKS $GANDY_JOB_NAME $GANDY_LINE $MINE"'
    _, out = run_one(tmp_path, line, line="a  b", job_name="my job", tasks=9, env={"MINE": "yes", "GANDY_JOB": "99"})
    assert out == b"1 1 1 9 my job a  b yes\n"


def test_environment_is_the_workers_own_and_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FROM_WORKER", "kept")
    monkeypatch.setenv("GANDY_LINE", "of an outer task")
    _, out = run_one(tmp_path, 'echo "$FROM_WORKER ${GANDY_LINE-none}"')
    assert out == b"kept none\n"


@pytest.mark.usefixtures("folders")
def test_program_is_looked_for_in_the_path_of_the_job(tmp_path: Path) -> None:
    program = tmp_path / "bin" / "hello-there"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\necho hello\n")
    program.chmod(0o755)
    for cwd in ("", "/"):
        _, out = run_one(tmp_path / "out", ("hello-there",), cwd=cwd, env={"PATH": f"{program.parent}:/bin:/usr/bin"})
        assert out == b"hello\n"


def test_program_that_moved_is_looked_for_again(tmp_path: Path) -> None:
    folders = [tmp_path / name for name in ("first", "second")]
    env = {"PATH": f"{folders[0]}:{folders[1]}"}
    for folder in folders:
        folder.mkdir()
    program = folders[0] / "wanderer"
    program.write_text("#!/bin/sh\necho $0\n")
    program.chmod(0o755)
    assert run_one(tmp_path / "out", ("wanderer",), env=env)[1] == f"{program}\n".encode()
    moved = program.rename(folders[1] / "wanderer")
    assert run_one(tmp_path / "out", ("wanderer",), env=env)[1] == f"{moved}\n".encode()
    moved.unlink()
    assert run_one(tmp_path / "out", ("wanderer",), env=env)[0].note == "cannot run wanderer: no such program"


def test_program_is_looked_for_again_where_a_folder_of_the_path_became_a_file(tmp_path: Path) -> None:
    for name in ("one", "two"):
        program = tmp_path / name / "settler"
        program.parent.mkdir()
        program.write_text(f"#!/bin/sh\necho {name}\n")
        program.chmod(0o755)
    env = {"PATH": f"{tmp_path / 'one'}:{tmp_path / 'two'}:/bin"}
    assert run_one(tmp_path / "out", ("settler",), env=env)[1] == b"one\n"
    shutil.rmtree(tmp_path / "one")
    (tmp_path / "one").write_text("a file now")
    assert run_one(tmp_path / "out", ("settler",), env=env)[1] == b"two\n"


@pytest.mark.usefixtures("folders")
def test_program_is_looked_for_from_a_relative_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "sub" / "bin" / "here"
    program.parent.mkdir(parents=True)
    program.write_text("#!/bin/sh\necho found\n")
    program.chmod(0o755)
    monkeypatch.chdir(tmp_path)
    assert run_one(tmp_path / "out", ("here",), cwd="sub", env={"PATH": "bin:/bin"})[1] == b"found\n"


@pytest.mark.usefixtures("folders")
def test_program_is_looked_for_from_the_folder_where_it_begins(tmp_path: Path) -> None:
    for name in ("one", "two"):
        program = tmp_path / name / "bin" / "where"
        program.parent.mkdir(parents=True)
        program.write_text(f"#!/bin/sh\necho {name}\n")
        program.chmod(0o755)
        for command in ("where", "bin/where"):
            cwd, env = str(tmp_path / name), {"PATH": "/bin:bin"}
            assert run_one(tmp_path / "out", (command,), cwd=cwd, env=env)[1] == f"{name}\n".encode()


@pytest.mark.usefixtures("folders")
def test_each_task_has_its_own_part_of_what_its_job_shares(tmp_path: Path) -> None:
    say = 'echo "$GANDY_JOB $GANDY_TASKS $GANDY_JOB_NAME $GANDY_TASK $GANDY_ATTEMPT ${GANDY_LINE-none} $MORE" {task}'

    async def go() -> None:
        async with a_bench(tmp_path) as bench:
            for cwd, more, line in [
                ("", "a", "one"),
                ("", "a", None),
                ("/", "b", "two"),
                ("", "c", None),
                ("", "c", "x"),
            ]:
                task = len(bench.endings) + 1
                await bench.run(say, task, job_name="name", tasks=9, line=line, cwd=cwd, env={"MORE": more})
                assert bench.output(task).decode() == f"1 9 name {task} 1 {line or 'none'} {more} {task}\n"

    asyncio.run(go())


@pytest.mark.usefixtures("folders")
def test_working_directory(tmp_path: Path) -> None:
    _, out = run_one(tmp_path / "out", ("pwd",), cwd=str(tmp_path))
    assert out == os.fsencode(tmp_path) + b"\n"
    _, out = run_one(tmp_path / "out", "pwd")
    assert out == os.fsencode(Path.cwd()) + b"\n"


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("cwd", ["", "/"])
def test_descriptors_of_the_worker_are_not_inherited(tmp_path: Path, cwd: str) -> None:
    inheritable = os.open("/etc/passwd", os.O_RDONLY)
    os.set_inheritable(inheritable, True)
    try:
        # `ls` itself opens the folder that it lists, as 3.
        _, out = run_one(tmp_path, ("ls", "/proc/self/fd"), cwd=cwd)
    finally:
        os.close(inheritable)
    assert out.split() == [b"0", b"1", b"2", b"3"]


def test_input_is_empty(tmp_path: Path) -> None:
    assert run_one(tmp_path, "cat; echo done")[1] == b"done\n"


@pytest.mark.usefixtures("folders")
@pytest.mark.parametrize("cwd", ["", "/"])
def test_broken_pipes_kill_as_in_any_shell(tmp_path: Path, cwd: str) -> None:
    _, out = run_one(tmp_path, "(yes; echo $? >&2) | head -n 1; trap", cwd=cwd)
    assert out == b"y\n"


@pytest.mark.usefixtures("folders")
def test_group_is_the_tasks_own(tmp_path: Path) -> None:
    for cwd in ("", "/"):
        _, out = run_one(tmp_path, "echo $$ $(ps -o pgid= -p $$)", cwd=cwd)
        pid, group = map(int, out.split())
        assert pid == group != os.getpgid(0)


def test_order_survives_the_wire() -> None:
    for command in ("echo {line}", ("echo", "{line}")):
        order = an_order(command, line="x", timeout=1.5, env={"A": "b"})
        assert msgspec.msgpack.decode(msgspec.msgpack.encode(order), type=Order) == order


def test_workers_in_several_threads_are_told_their_own_processes(tmp_path: Path) -> None:
    pids: list[list[int]] = [[], []]

    def spawn_some(number: int) -> None:
        spawner = Spawner()
        sheets = OutputFiles(f"{tmp_path}/{number}.out", f"{tmp_path}/{number}.err")
        pids[number] += [spawner.spawn(an_order(("true",)), sheets) for _ in range(300)]
        spawner.close()

    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-5)
    try:
        threads = [threading.Thread(target=spawn_some, args=(number,)) for number in (0, 1)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(before)
    told = [pid for some in pids for pid in some]
    for pid in set(told):
        os.waitpid(pid, 0)
    assert len(set(told)) == len(told)
