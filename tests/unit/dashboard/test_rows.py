"""The crew as one object, and what changes of it."""

from msgspec import UNSET
from tests.unit.dashboard.pictures import NOW, a_glance, a_picture, a_span, a_worker, an_update

from gandy.core.extensions import MachineLoad
from gandy.core.model import Counts, JobState
from gandy.core.views import CallSpan, CommandGlance
from gandy.dashboard.limits import MAX_CREW_JOBS, MAX_CREW_SPANS, MAX_SPAN_AGE
from gandy.dashboard.rows import Surroundings, make_change, make_crew

ABOUT = Surroundings(NOW + 1, "", 1)


def test_crew_has_the_newest_jobs_and_attempts() -> None:
    picture = a_picture(*(a_glance(job) for job in range(1, MAX_CREW_JOBS + 3)))
    spans = tuple(a_span(task, NOW - MAX_SPAN_AGE + 2 + task / 100) for task in range(1, MAX_CREW_SPANS + 11))
    for first in range(0, len(spans), 200):
        picture.apply(an_update(spans=spans[first : first + 200]), NOW)
    crew = make_crew(picture, ABOUT)
    assert [job.job for job in crew.jobs] == list(range(MAX_CREW_JOBS + 2, 2, -1))
    assert len(crew.spans) == MAX_CREW_SPANS
    assert crew.spans[-1].task == spans[-1].task
    assert (crew.forgotten, crew.left, crew.gone_commands) == (UNSET, UNSET, UNSET)


def test_old_attempts_are_not_shown_and_those_that_run_are() -> None:
    picture = a_picture()
    old = a_span(1, NOW - MAX_SPAN_AGE - 5)
    picture.apply(an_update(spans=(old, a_span(2, NOW - 1_000, ends=False))), NOW)
    assert [(span.task, span.state, span.ended) for span in make_crew(picture, ABOUT).spans] == [(2, "running", None)]


def test_calls_are_shown_in_lanes_beside_attempts() -> None:
    picture = a_picture()
    ended, failed = CallSpan("w", 1, "ping", NOW - 9, NOW - 8), CallSpan("w", 2, "ping", NOW - 9, NOW - 8, True)
    old, runs = CallSpan("w", 3, "ping", NOW - 999, NOW - MAX_SPAN_AGE - 1), CallSpan("w", 4, "ping", NOW - 999)
    picture.apply(an_update(spans=(a_span(1, NOW),), calls=(old, runs, ended, failed)), NOW)
    crew = make_crew(picture, ABOUT)
    assert [(call.number, call.state, call.lane) for call in crew.calls] == [
        (1, "finished", 0),
        (2, "failed", 2),
        (4, "running", 1),
    ]
    change = make_change(picture, picture.take_changes(), ABOUT)
    assert sorted(call.number for call in change.calls) == [1, 2, 3, 4]


def test_change_has_what_changed_and_names_what_is_gone() -> None:
    picture = a_picture(a_glance(1), a_glance(2))
    command = CommandGlance("ping", 1, 0, 4, 1, (0,) * 40 + (4,))
    picture.apply(an_update(workers=(a_worker("a"), a_worker("b")), commands=(command,)), NOW)
    picture.take_changes()
    picture.apply(an_update(jobs=(a_glance(2, JobState.FAILED),), forgotten=(1,), left=("b",)), NOW)
    change = make_change(picture, picture.take_changes(), ABOUT)
    assert [(job.job, job.state) for job in change.jobs] == [(2, "failed")]
    assert (change.forgotten, change.left, change.workers) == ((1,), ("b",), ())
    assert make_crew(picture, ABOUT).commands[0].p50_us is not None


def test_workers_have_one_state() -> None:
    picture = a_picture()
    workers = (
        a_worker("absent", connected=False, problem="disk"),
        a_worker("draining", draining=True, problem="disk"),
        a_worker("short", problem="disk"),
        a_worker("ready"),
    )
    picture.apply(an_update(workers=workers), NOW)
    crew = make_crew(picture, ABOUT)
    assert {worker.name: worker.state for worker in crew.workers} == {name: name for name in (w.name for w in workers)}
    assert crew.slots == 6  # of those that are connected


def test_machine_of_a_worker_is_shown_as_far_as_it_is_known() -> None:
    picture = a_picture()
    machines = {"a": MachineLoad(0.0, 8, 5, 9), "b": MachineLoad(1.5), "c": None}
    picture.apply(an_update(workers=tuple(a_worker(name, machine=its) for name, its in machines.items())), NOW)
    shown = [
        (worker.load, worker.cores, worker.memory_bytes, worker.memory_total_bytes)
        for worker in make_crew(picture, ABOUT).workers
    ]
    assert shown == [(0.0, 8, 5, 9), (1.5, None, None, None), (None, None, None, None)]


def test_job_that_has_ended_has_no_pace() -> None:
    picture = a_picture(a_glance(1))
    for second in range(6):
        running = a_glance(1, counts=Counts(waiting=100 - second * 10, finished=second * 10))
        picture.apply(an_update(jobs=(running,)), NOW + second)
    (job,) = make_crew(picture, Surroundings(NOW + 5)).jobs
    assert (round(job.rate), job.left_seconds) == (10, 50 / job.rate)
    picture.apply(an_update(jobs=(a_glance(1, JobState.CANCELLED),)), NOW + 5)
    (job,) = make_crew(picture, Surroundings(NOW + 5)).jobs
    assert (job.rate, job.left_seconds) == (0.0, None)
