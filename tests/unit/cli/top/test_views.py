"""What each view shows of a crew."""

from typing import Any

import pytest
from tests.unit.cli.top.scenes import NOW, a_job, a_scene, a_worker, show
from tests.unit.client.builders import a_row, a_task_row

from gandy.cli.top.job_view import draw_bars
from gandy.cli.top.lines import get_text
from gandy.cli.top.look import Change, TopLook, TopView
from gandy.cli.top.numbers import format_part, format_rate, format_us
from gandy.cli.top.scene import JobSeen, Scene
from gandy.cli.top.task_map import draw_map
from gandy.cli.top.workers_view import SECONDS, draw_lane
from gandy.core.extensions import MachineLoad
from gandy.core.model import Counts, JobState, TaskState
from gandy.core.requests import ForemanRow, ForemanStatus
from gandy.core.views import CallSpan, CommandGlance, CrewUpdate, Span, Totals
from gandy.ids import JobId, TaskNumber
from gandy.viewer.histograms import count_values
from gandy.viewer.summary import JobSample, make_summary

STATUS = ForemanStatus("1.2", 34, 90.0, "memory:", "disk full", ("unix:/s",), False, 2, 8, 3, 1, 1_000, 3)


def a_span(task: int, began: float, ended: float | None, state: TaskState = TaskState.FINISHED) -> Span:
    return Span("hut-1", JobId(7), TaskNumber(task), 1, state, NOW + began, None if ended is None else NOW + ended)


def text_of(scene: Scene, look: TopLook | None = None, width: int = 80, height: int = 24) -> str:
    return "\n".join(show(scene, look, width, height))


def a_job_scene(**seen: Any) -> tuple[Scene, TopLook]:
    scene = a_scene(a_job(7, waiting=411, running=16, finished=570, failed=3))
    scene.job = JobSeen(JobId(7), **seen)
    return scene, TopLook(TopView.JOB, JobId(7))


# The overview


def test_overview_has_numbers_of_the_crew() -> None:
    scene = a_scene(a_job(), workers=(a_worker(), a_worker("den", used=4)), waiting=1_234, running=6, calls_waiting=2)
    lines = show(scene)
    assert "6 running, 0 assigned, 1,234 waiting" in lines[1]
    assert lines[2].endswith("1 job has not ended")
    assert lines[3].endswith("2 waiting")
    assert lines[4].split()[:4] == ["slots", "6", "of", "8"]
    assert lines[4].endswith("2 workers connected")


def test_rates_are_shown_when_they_are_known() -> None:
    scene = a_scene()
    assert show(scene)[1].split()[1] == "-"
    scene.picture.tick(NOW)
    scene.picture.apply(CrewUpdate(NOW, 0, 0, 0, 0, 0, 0, Totals(finished=50, failed=5)), NOW + 5)
    scene.picture.tick(NOW + 5)
    lines = show(scene)
    assert lines[1].split()[:2] == ["tasks", "10/s"]
    assert lines[2].split()[:2] == ["failed", "1.0/s"]
    assert "█" in lines[1]


def test_wide_screens_show_more_of_the_past() -> None:
    scene = a_scene()
    for second in range(100):
        scene.picture.tick(NOW + second)
    assert [show(scene, width=width)[1].count("▁") for width in (60, 80, 100, 200)] == [10, 20, 40, 60]


def test_trouble_comes_first() -> None:
    lines = show(a_scene(a_job(7, JobState.FAILED, failed=3), workers=(a_worker(connected=False),)))
    assert lines[1] == "✗ Worker hut is away."
    assert lines[2] == "✗ Job 7: 3 of 3 tasks failed."


def test_only_the_worst_trouble_is_shown() -> None:
    lines = show(a_scene(*(a_job(number, JobState.FAILED, failed=1) for number in range(1, 9))))
    assert lines[6] == "  and 3 more"


def test_each_job_has_a_line() -> None:
    scene = a_scene(a_job(7, waiting=60, running=2, finished=30, failed=8), a_job(8, JobState.FINISHED, finished=5))
    lines = show(scene, width=100)
    row = next(line for line in lines if line.startswith("▸"))
    assert row.split() == [
        "▸",
        "7",
        "running",
        "███▊",
        "38",
        "%",
        "100",
        "8",
        "0.4/s",
        "2",
        "min",
        "43",
        "s",
        "train",
    ]
    assert any(line.split() == ["8", "finished", "██████████", "100", "%", "5", "0", "train"] for line in lines)


def test_job_that_is_held_says_so() -> None:
    assert "held" in text_of(a_scene(a_job(7, waiting=60, held=True)))


def test_empty_crew_says_what_to_type() -> None:
    scene = a_scene()
    assert "gandy submit" in text_of(scene)
    assert "gandy worker run" in text_of(scene, TopLook(TopView.WORKERS))
    assert "gandy worker run --commands" in text_of(scene, TopLook(TopView.CALLS))


def test_crew_that_is_not_complete_is_not_called_empty() -> None:
    scene = Scene(a_scene().picture)
    for view in TopView:
        assert "gandy" not in text_of(scene, TopLook(view))


def test_filter_that_fits_nothing_says_so() -> None:
    scene = a_scene(a_job(), workers=(a_worker(),), commands=(CommandGlance("add", 1, 0),))
    for view in (TopView.OVERVIEW, TopView.WORKERS, TopView.CALLS):
        assert "No " in text_of(scene, TopLook(view, filters={view: "zzz"}))


def test_list_scrolls_to_the_chosen_job() -> None:
    scene = a_scene(*(a_job(number, waiting=1) for number in range(1, 101)))
    lines = show(scene, TopLook(chosen={TopView.OVERVIEW: JobId(50)}))
    assert len(lines) == 24
    assert any(line.startswith("▸     50") for line in lines)


# One job


def test_job_shows_progress_and_counts() -> None:
    scene, look = a_job_scene()
    lines = show(scene, look)
    assert lines[1] == "Job 7 train is running, submitted 1 min 40 s ago"
    assert lines[2].endswith(" 57 %  5.7/s, 1 min 15 s left")
    assert lines[3] == "1,000 tasks: 411 waiting, 16 running, 570 finished, 3 failed"


def test_open_job_with_a_priority_says_so() -> None:
    scene = a_scene(a_job(7, waiting=1, priority=5, is_open=True))
    scene.job = JobSeen(JobId(7))
    text = text_of(scene, TopLook(TopView.JOB, JobId(7)))
    assert "priority 5" in text
    assert "1 task: 1 waiting; more tasks may be added" in text


def test_job_shows_a_map_of_its_tasks() -> None:
    scene, look = a_job_scene(states=bytes([TaskState.FINISHED] * 400 + [TaskState.WAITING] * 600))
    lines = show(scene, look)
    assert lines[5] == "Tasks, each cell is 3 tasks"
    assert lines[6] == "█" * 80
    assert lines[7].startswith("█" * 53 + "▃" + "·")


def test_job_shows_failures_that_are_alike() -> None:
    failed = tuple(a_task_row(number, tail=f"no planet {number}".encode()) for number in range(1, 8))
    row = a_row(counts=Counts(failed=9), tasks=9)
    scene, look = a_job_scene(summary=make_summary(JobSample(row, failed, failed)))
    lines = show(scene, look)
    assert "Failures, from the first 7 of 9" in lines
    assert "      7 ✗ exit code 1: no planet <n>  (tasks 1, 2, 3, 4, 5…)" in lines


def test_job_shows_how_many_kinds_of_failures_there_are_besides() -> None:
    failed = tuple(a_task_row(number, tail=bytes([96 + number])) for number in range(1, 12))
    scene, look = a_job_scene(summary=make_summary(JobSample(a_row(counts=Counts(failed=11)), (), failed)))
    assert "  and 3 others" in show(scene, look, height=40)


def test_job_shows_durations_and_memory() -> None:
    tasks = tuple(a_task_row(number, TaskState.FINISHED, peak_memory_bytes=2_000_000) for number in range(1, 4))
    scene, look = a_job_scene(summary=make_summary(JobSample(a_row(counts=Counts(finished=3), tasks=3), tasks, ())))
    text = text_of(scene, look, width=100)
    assert "\nTook\n" in text
    assert "half ≤ 1 min 30 s, 99 % ≤ 1 min 30 s, most 1 min 30 s" in text
    assert "memory   1.8 MB █ 2.1 MB; half ≤ 2.0 MB" in text


def test_job_that_waits_says_why() -> None:
    scene, look = a_job_scene(
        explained=("Job 7 is running: 411 waiting.", "All slots are taken: 4 of 4.", "Task 3: exit")
    )
    lines = show(scene, look)
    assert lines[lines.index("Why tasks wait") + 1] == "  All slots are taken: 4 of 4."
    assert not any("Job 7 is running: 411" in line or "Task 3" in line for line in lines)


def test_job_that_is_not_in_the_picture_is_shown_as_it_was_found() -> None:
    scene = a_scene()
    scene.job = JobSeen(JobId(3), a_job(3, JobState.FINISHED, finished=2))
    assert show(scene, TopLook(TopView.JOB, JobId(3)))[3] == "2 tasks: 2 finished"


def test_job_that_was_not_found_yet_is_looked_for() -> None:
    scene = a_scene()
    assert "No job is chosen" in text_of(scene, TopLook(TopView.JOB))
    scene.job = JobSeen(JobId(3))
    assert "Looking for job 3" in text_of(scene, TopLook(TopView.JOB, JobId(3)))
    scene.job.problem = "there is no job 3"
    assert show(scene, TopLook(TopView.JOB, JobId(3)))[1] == "there is no job 3"


def test_view_of_a_job_scrolls_to_its_end_and_not_beyond() -> None:
    scene, look = a_job_scene(explained=tuple(f"Reason {number}." for number in range(50)))
    look.scroll = 1_000
    lines = show(scene, look)
    assert lines[-2] == "  Reason 49."
    assert look.scroll < 50


# The map


def test_cell_shows_the_worst_of_its_tasks() -> None:
    waiting, running, finished = TaskState.WAITING, TaskState.RUNNING, TaskState.FINISHED
    cells = [
        ([finished, TaskState.FAILED, running], "✗"),
        ([finished, running, TaskState.ASSIGNED], "▒"),
        ([TaskState.ASSIGNED, waiting, finished], "░"),
        ([finished, finished, finished], "█"),
        ([finished, TaskState.CANCELLED, finished], "○"),
        ([TaskState.CANCELLED, waiting, waiting], "○"),
        ([waiting, waiting, waiting], "·"),
        ([finished, finished, waiting], "▆"),
    ]
    lines, size = draw_map(bytes(state for states, _ in cells for state in states), width=4, rows=2)
    assert size == 3
    assert "".join(map(get_text, lines)) == "".join(mark for _, mark in cells)


def test_map_of_a_million_tasks_fits() -> None:
    lines, size = draw_map(bytes(1_000_000), width=80, rows=8)
    assert (len(lines), size) == (8, 1_563)


def test_map_of_no_tasks_is_empty() -> None:
    assert draw_map(b"", 80, 8) == ([], 1)


# Workers


def test_worker_has_a_lane_for_each_slot() -> None:
    spans = (a_span(1, -30.0, -15.0), a_span(2, -12.0, None, TaskState.RUNNING))
    calls = (CallSpan("hut-1", 5, "render", NOW - 9.0), CallSpan("hut-1", 4, "render", NOW - 50.0, NOW - 40.0, True))
    scene = a_scene(workers=(a_worker(tags=("gpu",)),), spans=spans, calls=calls)
    lines = show(scene, TopLook(TopView.WORKERS))
    assert lines[1].startswith("hut          ready    ████     2 of 4 slots, 2 running, 1 waiting  1.0  gpu")
    assert [line[:4] for line in lines[2:6]] == ["   1", "   2", "   3", "   4"]
    assert lines[2].endswith("▒  7/2 12 s")
    assert "▓" in lines[2]
    assert "✗" in lines[2]
    assert lines[3].endswith("▒  render 9.0 s")
    assert lines[6].endswith("task or call, time")


@pytest.mark.parametrize(
    ("changes", "state"),
    [
        ({"connected": False}, "absent"),
        ({"draining": True}, "draining"),
        ({"problem": "disk"}, "short"),
        ({"silent_seconds": 7.0}, "silent for 7.0 s"),
        ({"calls": 3}, "3 calls"),
        ({"machine": MachineLoad(1.5, 8, 2_000, 9_000)}, "load 1.5 on 8 cores, 2.0 kB of 9.0 kB"),
        ({"machine": MachineLoad(1.5)}, "waiting, load 1.5"),
    ],
)
def test_worker_says_how_it_is(changes: dict[str, Any], state: str) -> None:
    assert state in text_of(a_scene(workers=(a_worker(**changes),)), TopLook(TopView.WORKERS), width=120)


def test_lanes_of_the_chosen_worker_are_shown_if_there_is_no_room_for_all() -> None:
    workers = tuple(a_worker(f"hut{number:02}", slots=8) for number in range(10))
    look = TopLook(TopView.WORKERS, chosen={TopView.WORKERS: "hut05-1"})
    lines = show(a_scene(workers=workers), look)
    place = next(number for number, line in enumerate(lines) if line.startswith("hut05"))
    assert lines[place + 1].startswith("   1")
    assert lines[place + 9].startswith("hut06")


def test_worker_has_no_more_lanes_than_slots() -> None:
    spans = tuple(a_span(number, -30.0, -15.0) for number in range(1, 7))
    lines = show(a_scene(workers=(a_worker(slots=2),), spans=spans), TopLook(TopView.WORKERS))
    assert [line[:4] for line in lines[2:5]] == ["   1", "   2", "    "]


def test_lane_shows_the_last_minute() -> None:
    failed, cancelled = TaskState.FAILED, TaskState.CANCELLED
    spans = [
        a_span(1, -2 * SECONDS, -SECONDS / 2),
        a_span(2, -SECONDS / 2, -SECONDS * 0.3),
        a_span(3, -SECONDS * 0.3, -SECONDS * 0.2, failed),
        a_span(4, -SECONDS * 0.2, -SECONDS * 0.1, cancelled),
        a_span(5, -SECONDS * 0.1, None, TaskState.RUNNING),
    ]
    assert "".join(cell.text for cell in draw_lane(spans, NOW, 10)) == "▓▓▓▓▓██✗○▒"


def test_short_attempt_is_seen_and_hides_no_failure() -> None:
    spans = [a_span(1, -30.0, -30.0, TaskState.WAITING), a_span(2, -29.9, -29.8), a_span(3, 0.0, 0.0)]
    assert "".join(cell.text for cell in draw_lane(spans, NOW, 10)) == "     ✗   ▓"


# Calls and foremen


def test_commands_have_percentiles() -> None:
    buckets = count_values([120] * 99 + [4_000])
    scene = a_scene(commands=(CommandGlance("add", 2, 3, 100, 1, buckets),))
    lines = show(scene, TopLook(TopView.CALLS))
    assert lines[2].split() == ["add", "2", "3", "0/s", "120", "µs", "120", "µs", "1", "100"]


def test_foremen_and_what_the_asked_one_says() -> None:
    scene = a_scene()
    scene.status = STATUS
    scene.foremen = (ForemanRow("0adf36421", "first", "1.2", ("unix:/s",), (1, 2), 3, 4.0, 0.1, is_here=True),)
    lines = show(scene, TopLook(TopView.FOREMEN), width=120)
    assert "trouble     disk full" in lines
    assert any(line.startswith("first  0adf3642") for line in lines)


def test_problem_of_the_foremen_is_shown() -> None:
    scene = a_scene()
    scene.problems[TopView.FOREMEN] = "it is away"
    assert show(scene, TopLook(TopView.FOREMEN))[1] == "it is away"


# Around the views


def test_problem_is_shown_above_everything() -> None:
    scene = a_scene()
    scene.problem = "no foreman answers"
    assert show(scene)[1] == "✗ Trying again: no foreman answers"


def test_view_that_is_shown_is_marked_without_colours() -> None:
    assert show(a_scene(), TopLook(TopView.CALLS))[0].startswith(" 1 Overview  2 Job  3 Workers [4 Calls] 5 Foremen ")


def test_footer_shows_question_filter_message_and_keys() -> None:
    scene = a_scene(a_job())
    assert show(scene, TopLook(question=Change("cancel", JobId(7))))[-1] == "Cancel job 7? y/n"
    assert show(scene, TopLook(is_filtering=True, filters={TopView.OVERVIEW: "tea"}))[-1].startswith("filter: tea ")
    assert show(scene, TopLook(message="done"))[-1] == "done"
    assert show(scene, TopLook(filters={TopView.OVERVIEW: "tea"}))[-1].startswith("filter: tea  ↑↓ move")
    assert "h hold" in show(scene)[-1]
    assert "Esc back" in show(scene, TopLook(TopView.WORKERS))[-1]


def test_observer_is_shown_no_keys_that_change_something() -> None:
    scene = a_scene(a_job())
    scene.can_change = False
    assert "hold" not in show(scene)[-1]


def test_help_lists_the_keys() -> None:
    assert any(line.startswith("  q ") for line in show(a_scene(), TopLook(shows_help=True)))


@pytest.mark.parametrize("size", [(1, 1), (2, 2), (10, 3), (20, 5), (39, 12), (80, 24), (200, 60)])
def test_every_view_fits_every_screen(size: tuple[int, int]) -> None:
    width, height = size
    scene = a_scene(
        *(a_job(number, title="x" * 80, waiting=1) for number in range(1, 100)),
        workers=tuple(a_worker(f"h漢{number}" * 9, problem="y" * 99) for number in range(50)),
        commands=tuple(CommandGlance("\x1b[2J" * 9 + str(number), 1, 0) for number in range(50)),
        spans=(a_span(1, -30.0, -15.0), a_span(2, -12.0, None, TaskState.RUNNING)),
    )
    failed = (a_task_row(tail=b"\x1b[2J" + b"z" * 300),)
    scene.job = JobSeen(JobId(7), states=bytes(99), explained=("why " * 99,))
    scene.job.summary = make_summary(JobSample(a_row(counts=Counts(failed=1)), failed, failed))
    scene.status = STATUS
    scene.foremen = (ForemanRow("0adf36421", "first" * 9, "1.2", ("unix:/s",), (1, 2), 3, 4.0, 0.1),)
    for view in TopView:
        for look in (TopLook(view, JobId(7)), TopLook(view, JobId(7), is_filtering=True, filters={view: "x" * 60})):
            lines = show(scene, look, width, height)
            assert len(lines) == height
            assert all(line.isprintable() for line in lines)


def test_numbers_are_short() -> None:
    assert [format_rate(rate) for rate in (0.0, 0.05, 0.5, 12.3, 8_812.4)] == [
        "0/s",
        "3.0/min",
        "0.5/s",
        "12/s",
        "8,812/s",
    ]
    times = [format_us(value) for value in (None, 7, 1_234, 2_500_000, 90e6)]
    assert times == ["-", "7 µs", "1.23 ms", "2.5 s", "1 min 30 s"]
    assert [format_part(part, 3) for part in (0, 2, 3)] == ["0 %", "66 %", "100 %"]
    assert format_part(0, 0) == ""


def test_bars_are_added_up_if_there_are_many() -> None:
    assert draw_bars([1, 0, 8], 28) == "▁ █"
    assert draw_bars([1] * 56, 28) == "█" * 28
