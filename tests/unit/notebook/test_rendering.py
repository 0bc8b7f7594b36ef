"""What notebooks show says the same as text and as HTML, and nothing in it is markup that a user or a peer chose."""

from html.parser import HTMLParser
from typing import Any

import pytest

from gandy.core.model import Counts, JobSpec, JobState
from gandy.core.requests import ForemanStatus, WorkerRow
from gandy.core.rows import JobRow
from gandy.ids import JobId
from gandy.moments import Wall
from gandy.notebook.rendering import (
    NAME_WIDTH,
    VALUE_WIDTH,
    Rendering,
    describe_counts,
    format_bar,
    render_crew,
    render_error,
    render_future,
    render_job,
    render_text,
)

EVIL = "<script>alert(1)</script>&\"'"


class Page(HTMLParser):
    """The tags and the text of HTML."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.text = ""
        self.open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: Any) -> None:
        self.tags.append(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def read(rendering: Rendering) -> Page:
    page = Page(rendering.html)
    assert page.open == []
    assert "script" not in page.tags
    return page


def make_row(name: str = "", state: JobState = JobState.RUNNING, **counts: int) -> JobRow:
    spec = JobSpec(command="true", name=name)
    return JobRow(JobId(7), spec, state, False, Wall(1.0), Wall(2.0), Counts(**counts))


def make_status() -> ForemanStatus:
    return ForemanStatus("1", 1, 1.0, "memory:", "", (), False, 1, 4, 3, 1, 5, 3)


def make_worker(name: str, *, connected: bool = True) -> WorkerRow:
    return WorkerRow(name, name, 4, 3, 3, (), connected, False, 0.0)


def test_a_job_is_shown_with_its_counts() -> None:
    rendering = render_job(make_row("render", finished=1_000, failed=2, running=3, waiting=995))
    assert rendering.text == "Job 7 render: running; 2,000 tasks: 1,000 finished, 2 failed, 3 running, 995 waiting"
    page = read(rendering)
    assert "Job 7 render · running" in page.text
    assert "2,000 tasks: 1,000 finished, 2 failed, 3 running, 995 waiting" in page.text


@pytest.mark.parametrize("state", JobState)
def test_the_last_view_of_a_job_is_that_of_its_end(state: JobState) -> None:
    is_over = state in (JobState.FINISHED, JobState.FAILED, JobState.CANCELLED)
    assert render_job(make_row(state=state)).is_last is is_over


def test_a_bar_has_a_part_for_each_state_but_waiting() -> None:
    assert "width:50.00%" in format_bar(Counts(finished=1, waiting=1))
    assert format_bar(Counts(finished=1, failed=1, cancelled=1, running=1, assigned=1)).count("width:20.00%") == 5
    assert "width" not in format_bar(Counts(waiting=1)).partition(">")[2]
    assert "width" not in format_bar(Counts()).partition(">")[2]


def test_one_task_is_not_called_tasks() -> None:
    assert describe_counts(Counts(running=1)) == "1 task: 1 running"
    assert describe_counts(Counts()) == "0 tasks"


def test_names_values_and_errors_are_no_markup() -> None:
    renderings = [
        render_job(make_row(EVIL)),
        render_crew(EVIL, make_status(), [make_worker(EVIL)], [make_row(EVIL)]),
        render_future("Task 1", "finished", EVIL),
        render_future("Task 1", "failed", error=ValueError(EVIL)),
        render_error(EVIL, ValueError(EVIL)),
        render_text(EVIL),
    ]
    for rendering in renderings:
        assert "<script>" in rendering.text
        assert "<script>alert(1)</script>&" in read(rendering).text


def test_control_characters_and_long_texts_are_cut() -> None:
    rendering = render_job(make_row("\x1b[31m" + "long" * 100))
    assert "\x1b" not in rendering.text + rendering.html
    assert len(rendering.text) < NAME_WIDTH + 40
    assert len(render_future("Task 1", "finished", "x" * 10**6).text) < VALUE_WIDTH + 40


def test_a_value_that_cannot_be_shown_is_named() -> None:
    class Odd:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    rendering = render_future("Task 1", "finished", Odd())
    assert rendering.text == "Task 1: finished; <Odd, which cannot be shown: RuntimeError>"


@pytest.mark.parametrize("state", ["waiting", "running", "not done", "finished", "failed", "cancelled"])
def test_the_last_view_of_a_future_is_that_of_its_end(state: str) -> None:
    assert render_future("Task 1", state).is_last is (state in ("finished", "failed", "cancelled"))


def test_a_crew_is_shown_with_its_workers_and_jobs() -> None:
    workers = [make_worker("here"), make_worker("gone", connected=False)]
    rendering = render_crew("Client", make_status(), workers, [make_row("render", running=3)])
    assert rendering.text.splitlines() == [
        "Client: 1 worker, 3 of 4 slots in use, 1 job not done",
        "  worker here: 3 of 4 slots in use",
        "  Job 7 render: running; 3 tasks: 3 running",
    ]
    page = read(rendering)
    assert (page.tags.count("table"), "gone" in page.text, rendering.is_last) == (2, False, False)


def test_a_crew_without_workers_and_jobs_has_no_tables_and_changes_no_more() -> None:
    rendering = render_crew("Client", make_status(), [], [])
    assert ("table" in read(rendering).tags, rendering.is_last) == (False, True)
