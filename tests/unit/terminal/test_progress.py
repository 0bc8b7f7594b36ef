"""Waiting for jobs: lines, a bar, and the exit code."""

import sys
from collections.abc import Iterator

import click
import pytest
from tests.screens import Screen
from tests.unit.client.builders import a_row

from gandy.core.model import Counts, JobState
from gandy.core.rows import JobRow
from gandy.terminal import progress
from gandy.terminal.exits import ExitCode
from gandy.terminal.options import Format

FINISHED, FAILED, CANCELLED = JobState.FINISHED, JobState.FAILED, JobState.CANCELLED


def a_run(tasks: int) -> Iterator[JobRow]:
    """A job of so many tasks, told after each."""
    for done in range(tasks):
        yield a_row(counts=Counts(waiting=tasks - done - 1, running=1, finished=done), tasks=tasks)
    yield a_row(state=FAILED, counts=Counts(finished=tasks - 1, failed=1), tasks=tasks)


class PretendJob:
    """Stands for a job of the client."""

    id = 7

    def watch(self) -> Iterator[JobRow]:
        yield a_row()
        raise KeyboardInterrupt


def test_a_log_has_a_line_for_each_tenth(capsys: pytest.CaptureFixture[str]) -> None:
    assert progress.print_lines(a_run(5_000)).state is FAILED
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 11
    assert lines[0] == "job 7 is running: 0 of 5,000 tasks done, 1 running"
    assert lines[-1] == "job 7 is failed: 5,000 of 5,000 tasks done, 1 failed"


def test_a_log_tells_when_tasks_begin_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    counts = (Counts(waiting=2), Counts(assigned=2), Counts(assigned=1, running=1), Counts(running=2))
    progress.print_lines(a_row(counts=each, tasks=2) for each in counts)
    assert capsys.readouterr().err.splitlines() == [
        "job 7 is running: 0 of 2 tasks done",
        "job 7 is running: 0 of 2 tasks done, 1 running",
    ]


def test_a_bar_tells_how_far_and_what_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    screen = Screen()
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    monkeypatch.setattr(sys, "stderr", screen)
    assert progress.draw_bar(a_run(2_000)).state is FAILED
    last = screen.getvalue().rpartition("job 7")[2]
    assert last.startswith(" is failed")
    assert "2,000/2,000" in last
    assert "1 failed" in last
    assert "tasks/s" in last


@pytest.mark.parametrize(
    ("states", "code"),
    [
        ([FINISHED], ExitCode.DONE),
        ([FINISHED, CANCELLED], ExitCode.CANCELLED),
        ([CANCELLED, FAILED, FINISHED], ExitCode.FAILED),
    ],
)
def test_the_worst_end_is_the_exit_code(states: list[JobState], code: ExitCode) -> None:
    assert progress.choose_exit_code([a_row(state=state) for state in states]) is code


@pytest.mark.parametrize(
    ("state", "text"),
    [
        (FINISHED, ""),
        (FAILED, "gandy: job 7: 2 of 10 tasks failed; 'gandy job explain 7' says how\n"),
        (CANCELLED, "gandy: job 7 was cancelled\n"),
    ],
)
def test_what_went_wrong_is_said(capsys: pytest.CaptureFixture[str], state: JobState, text: str) -> None:
    progress.print_failure(a_row(state=state, counts=Counts(failed=2)))
    assert capsys.readouterr().err == text


@pytest.mark.parametrize("output", ["quiet", "table"])
def test_interrupted_wait_says_that_the_job_goes_on(capsys: pytest.CaptureFixture[str], output: Format) -> None:
    with pytest.raises(click.exceptions.Exit) as caught:
        progress.wait_for([PretendJob()], output)  # type: ignore[list-item]  # it has all that is used
    assert caught.value.exit_code == ExitCode.INTERRUPTED
    assert "job 7 goes on; 'gandy job wait 7' waits again, 'gandy job cancel 7' ends it" in capsys.readouterr().err
