"""A job of higher rank, and a task of several slots, behind more short tasks than a user would wait for."""

from pathlib import Path

import pytest
from tests.e2e.crew import Crew

SLOTS = 4


UNEQUAL = "[ $((GANDY_TASK % 7)) != 0 ] || sleep 1"


@pytest.mark.parametrize("work", [("true",), ("sleep", "0.1"), ("sh", "-c", UNEQUAL)])
def test_priority_and_large_tasks_do_not_wait_for_an_endless_array(work: tuple[str, ...], tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("up", "--slots", str(SLOTS)):
        array = crew.submit("--tasks", "1000000", "--", *work)
        for options in ((), ("--slots", str(SLOTS))):
            crew.run("submit", "--wait", "--priority", "9", *options, "--", "true")
        (row,) = crew.show("job", "show", array)
        assert row["waiting"] > 0, row
        crew.run("job", "cancel", array)


def test_a_task_that_kills_its_worker_is_stopped_alone(tmp_path: Path) -> None:
    crew = Crew(tmp_path)
    with crew.running("foreman", "run"):
        workers = [crew.start("worker", "run", "--slots", "4", "--name", "w")]
        killer = crew.submit("--", "sh", "-c", "sleep 0.3; kill -9 $PPID; sleep 5")
        harmless = crew.submit("--tasks", "12", "--", "sleep", "0.5")
        while crew.show("job", "show", killer)[0]["state"] not in ("failed", "finished"):
            workers[-1].wait()
            workers.append(crew.start("worker", "run", "--slots", "4", "--name", "w"))
        crew.run("job", "wait", harmless)
        assert crew.show("job", "show", killer)[0]["state"] == "failed"
        assert crew.show("job", "show", harmless)[0]["state"] == "finished"
        workers[-1].terminate()
        for worker in workers:
            worker.communicate()
    assert len(workers) <= 7
