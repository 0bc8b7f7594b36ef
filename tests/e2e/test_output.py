"""`gandy job output` where some of it is missing: the rest is printed, the reason is told, and the exit code is 1."""

from pathlib import Path

import pytest
from tests.e2e.kitchens import a_kitchen
from tests.waiting import until


@pytest.mark.parametrize("words", [(), ("--task", "1")], ids=["all", "one"])
def test_output_of_a_cancelled_task_is_printed(tmp_path: Path, words: tuple[str, ...]) -> None:
    with a_kitchen(tmp_path, 1) as kitchen:
        number = kitchen.submit("echo begun; echo wrong >&2; sleep 600")
        until(lambda: kitchen.run("job", "output", number, "--stderr").stdout == b"wrong\n")
        kitchen.run("job", "cancel", number)
        assert kitchen.run("job", "output", number, *words).stdout == b"begun\n"
        assert kitchen.run("job", "output", number, "--stderr", *words).stdout == b"wrong\n"


def test_output_of_several_tasks_is_printed_but_for_what_is_missing(tmp_path: Path) -> None:
    with a_kitchen(tmp_path, 1) as kitchen:
        number = kitchen.submit("--wait", "--tasks", "3", "echo {task}")
        assert kitchen.run("job", "output", number).stdout == b"1\n2\n3\n"
        (kept,) = (tmp_path / "output" / "w1").glob(f"{number}-*/0/2.1.out")
        kept.unlink()
        done = kitchen.run("job", "output", number, code=1)
        assert done.stdout == b"1\n3\n"
        assert done.stderr.startswith(b"gandy: what task 2 wrote is no longer kept")
        done = kitchen.run("job", "output", number, "--task", "2", code=1)
        assert (done.stdout, b"no longer kept" in done.stderr) == (b"", True)
