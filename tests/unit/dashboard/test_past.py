"""The crew as it was, in the keys of the crew as it is."""

from typing import Any

import pytest
from tests.unit.dashboard.pictures import NOW, a_glance, a_worker

from gandy.core.past_crew import CrewThen
from gandy.dashboard.past import STOPPED, make_past_crew
from gandy.viewer.series import Point


def a_crew(**what: Any) -> CrewThen:
    numbers = {"waiting": 10, "assigned": 1, "running": 2, "calls_waiting": 3, "connected": 1, "slots": 2, "used": 1}
    return CrewThen(**{"at": NOW, "unfinished": 1, **numbers, **what})


def test_past_crew_has_the_jobs_and_workers_of_its_samples() -> None:
    crew = make_past_crew(
        a_crew(jobs=(a_glance(1),), workers=(a_worker("here"), a_worker("gone", connected=False))), ()
    )
    assert (crew.at, crew.problem, crew.unfinished, crew.waiting, crew.running) == (NOW, "", 1, 10, 2)
    assert [(job.job, job.name, job.state, job.tasks, job.left_seconds) for job in crew.jobs] == [
        (1, "job 1", "running", 10, None)
    ]
    assert [(worker.name, worker.state, worker.used) for worker in crew.workers] == [
        ("here", "ready", 1),
        ("gone", "absent", 1),
    ]


@pytest.mark.parametrize("rates", [(4.0, 0.5, 9.0), None])
def test_rates_of_the_past_are_those_of_the_last_point(rates: tuple[float, float, float] | None) -> None:
    before = Point(NOW - 10, 1.0, 1.0, 1.0, 1.0, 2, 0, 1)
    points = () if rates is None else (before, Point(NOW, *rates, 1.0, 2, 0, 1))
    crew = make_past_crew(a_crew(), points)
    assert (crew.rates.finished, crew.rates.failed, crew.rates.calls) == (rates or (0.0, 0.0, 0.0))
    assert crew.points == points


def test_time_without_a_foreman_is_told() -> None:
    assert make_past_crew(a_crew(is_stopped=True), ()).problem == STOPPED
