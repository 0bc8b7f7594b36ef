"""The crew as it was, as JSON and as words. The keys of the JSON are a promise."""

import json

import pytest

from gandy.core.model import Counts, JobState
from gandy.core.past_crew import CrewThen
from gandy.core.views import JobGlance, WorkerGlance
from gandy.ids import JobId
from gandy.moments import Wall
from gandy.terminal import past_rows

AT = 1_700_000_000.0
JOB = JobGlance(
    JobId(7),
    "planets",
    JobState.RUNNING,
    False,
    Wall(AT - 7_200),
    Counts(waiting=1_000, running=2, finished=30, failed=1),
)
FORGOTTEN = JobGlance(JobId(6), "", JobState.PAUSED, True, Wall(0.0), Counts(waiting=4))


def a_worker(name: str, connected: bool = True, draining: bool = False, problem: str = "") -> WorkerGlance:
    return WorkerGlance(f"{name}-1", name, 8, 3, 0, 0, 0, connected, draining, 0.0, problem)


WORKERS = a_worker("a"), a_worker("b", connected=False), a_worker("c", draining=True), a_worker("d", problem="short")
THEN = CrewThen(Wall(AT), 2, 1_004, 1, 2, 5, 3, 24, 9, (JOB, FORGOTTEN), WORKERS)


def test_past_crew_as_json() -> None:
    told = json.loads(json.dumps(past_rows.past_to_json(THEN, Wall(AT + 9))))
    jobs, workers = told.pop("job_rows"), told.pop("worker_rows")
    assert told == {
        "asked": AT + 9,
        "recorded": AT,
        "is_stopped": False,
        "workers": 3,
        "slots": 24,
        "used": 9,
        "jobs": 2,
        "waiting": 1_004,
        "assigned": 1,
        "running": 2,
        "calls_waiting": 5,
    }
    assert jobs[0] == {
        "job": 7,
        "name": "planets",
        "state": "running",
        "held": False,
        "tasks": 1_033,
        "waiting": 1_000,
        "running": 2,
        "finished": 30,
        "failed": 1,
        "cancelled": 0,
        "assigned": 0,
        "submitted": AT - 7_200,
    }
    assert (jobs[1]["name"], jobs[1]["state"], jobs[1]["submitted"]) == ("", "paused", None)
    assert workers[0] == {"id": "a-1", "name": "a", "state": "ready", "slots": 8, "used": 3}


def test_past_crew_in_words() -> None:
    told = dict(past_rows.past_to_fields(THEN, Wall(AT + 9)))
    assert told["at"] == past_rows.format_moment(Wall(AT + 9)) != told["recorded"]
    assert (told["foreman"], told["workers"], told["slots"]) == ("", "3", "9 of 24 in use")
    assert (told["jobs"], told["calls"]) == ("2 not ended", "5 waiting")
    assert told["tasks"] == "2 running, 1 assigned, 1,004 waiting"
    rest = dict(past_rows.past_to_fields(CrewThen(Wall(AT), 0, 0, 0, 0, 0, 0, 0, 0, is_stopped=True), Wall(AT)))
    assert (rest["foreman"], rest["tasks"], rest["calls"]) == ("none ran", "0 running, 0 waiting", "")


def test_a_job_of_the_past_in_cells() -> None:
    cells = past_rows.past_job_to_cells(JOB, THEN)
    assert cells == ("7", "running", "1,033", "1,000", "2", "30", "1", "2 h", "planets")
    assert len(cells) == len(past_rows.JOB_HEADERS)
    assert past_rows.past_job_to_cells(FORGOTTEN, THEN)[-2:] == ("", past_rows.FORGOTTEN)


@pytest.mark.parametrize(("worker", "state"), list(zip(WORKERS, ["ready", "absent", "draining", "short"], strict=True)))
def test_a_worker_of_the_past_in_cells(worker: WorkerGlance, state: str) -> None:
    assert past_rows.past_worker_to_cells(worker) == (worker.name, state, "8", "3")
