"""Tasks that a worker has and has not begun are assigned; at every look, only what has begun is shown as running."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.crew import PATIENCE, Crew
from tests.waiting import until

import gandy
from gandy.core.model import JobState, TaskState

SLOTS = 2
TASKS = 8


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", str(SLOTS)):
        yield crew


@pytest.fixture
def client(crew: Crew) -> Iterator[gandy.Client]:
    with gandy.Client(f"unix:{crew.home}/foreman.sock") as client:
        yield client


def work(folder: Path, number: int) -> int:
    """Quick at first, so that the worker is given more than it has slots; then a second each."""
    (folder / f"{number}.began").touch()
    time.sleep(1.0 if number >= 0 else 0.0)
    (folder / f"{number}.ended").touch()
    return number


def list_numbers(folder: Path, suffix: str) -> set[int]:
    return {int(path.stem) for path in folder.glob(f"*.{suffix}") if int(path.stem) >= 0}


def watch(job: gandy.Job, folder: Path, to_number: Callable[[int], int], is_over: Callable[[], bool]) -> None:
    """Look again and again. There is time to see both slots run something, and no look shows more."""
    most = 0
    while not is_over():
        counts = job.status().counts
        running = {to_number(task.task) for task in job.tasks([TaskState.RUNNING])}
        assert {number for number in running if number >= 0} <= list_numbers(folder, "began")
        assert counts.running <= SLOTS
        most = max(most, counts.running)
    assert most == SLOTS


def test_a_shell_array_shows_exactly_what_its_slots_run(client: gandy.Client, tmp_path: Path) -> None:
    quick = 40
    line = f"""
        n=$((GANDY_TASK - {quick + 1}))
        touch {tmp_path}/$n.began
        [ $n -lt 0 ] || sleep 1
        touch {tmp_path}/$n.ended"""
    job = client.submit(line, tasks=quick + TASKS)
    watch(job, tmp_path, lambda task: task - quick - 1, lambda: job.status().state is JobState.FINISHED)
    assert list_numbers(tmp_path, "ended") == set(range(TASKS))


def test_a_map_shows_exactly_what_its_slots_run(client: gandy.Client, tmp_path: Path) -> None:
    quick = 40
    numbers = [*range(-quick, 0), *range(TASKS)]
    futures = [client.run(work, tmp_path, number) for number in numbers]
    job = client.job(futures[0].job)

    def is_over() -> bool:
        told = {numbers[place] for place, future in enumerate(futures) if future.running()}
        assert {number for number in told if number >= 0} <= list_numbers(tmp_path, "began")
        return futures[-1].done()

    watch(job, tmp_path, lambda task: numbers[task - 1], is_over)
    assert [future.result(PATIENCE) for future in futures] == numbers


def test_a_long_task_runs_and_those_behind_it_are_assigned_or_wait(client: gandy.Client, tmp_path: Path) -> None:
    """With every look, until it may end: exactly the slots, all the time."""
    gate = tmp_path / "gate"
    job = client.submit(f"[ $GANDY_TASK -le 40 ] || while [ ! -e {gate} ]; do sleep 0.01; done", tasks=60)
    until(lambda: job.status().counts.running == SLOTS)
    for _ in range(20):
        counts = job.status().counts
        assert (counts.running, counts.finished, counts.waiting + counts.assigned) == (SLOTS, 40, 18)
    gate.touch()
    assert job.wait().state is JobState.FINISHED


def test_no_more_of_a_large_map_seem_to_run_than_there_are_slots(crew: Crew, client: gandy.Client) -> None:
    values = client.map(abs, range(60_000), chunksize=1)
    looks: list[dict[str, Any]] = []
    while not looks or any(row["tasks"] > row["finished"] for row in looks[-1:]):
        looks += [row for row in crew.show("job", "list", "--all") if row["tasks"] == 60_000][:1]
        assert all(row["running"] <= SLOTS for row in looks)
    assert sum(values) == sum(range(60_000))
