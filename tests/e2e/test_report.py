"""`gandy report` of jobs of a real crew."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.e2e.crew import GANDY, Crew
from tests.terminals import a_terminal


@pytest.fixture(scope="module")
def crew(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Crew]:
    crew = Crew(tmp_path_factory.mktemp("home"))
    with crew.running("up", "--slots", "2"):
        yield crew


@pytest.fixture(scope="module")
def job(crew: Crew) -> str:
    """A job with failures, retries, output, and a secret."""
    crew.environment["HIDDEN"] = "hunter2"
    shell = "echo out {task}; [ $((GANDY_TASK % 4)) != 1 ] || { echo no planet {task} >&2; exit 3; }"
    job = crew.submit("--name", "planets", "--tasks", "10", "--retries", "1", shell)
    crew.run("job", "wait", job, code=1)
    return job


def test_report_goes_to_a_pipe(crew: Crew, job: str) -> None:
    done = crew.run("report", job)
    assert done.stderr == b""
    page = done.stdout.decode()
    assert page.startswith("<!doctype html>")
    for part in (f"Job {job}: planets", "3 failed", "no planet &lt;n&gt;", "out 5", "by owner", "Retries", "Timeline"):
        assert part in page, part
    assert "hunter2" not in page
    assert len(page) < 100_000


def test_report_of_several_jobs_goes_to_a_file(crew: Crew, job: str, tmp_path: Path) -> None:
    other = crew.submit("--name", "second", "true")
    crew.run("job", "wait", other)
    target = tmp_path / "report.html"
    done = crew.run("report", job, other, job, "--output", str(target))
    assert (done.stdout, done.stderr) == (b"", b"")
    page = target.read_text()
    assert page.count("<section>") == 2
    assert f"Job {other}: second" in page


def test_report_of_a_running_job(crew: Crew) -> None:
    job = crew.submit("--name", "unfinished", "--tasks", "3", "sleep 1000")
    page = crew.run("report", job).stdout.decode()
    assert f"Job {job}: unfinished" in page
    crew.run("job", "cancel", job)


def test_terminal_gets_no_html(crew: Crew, job: str) -> None:
    with a_terminal(GANDY, "report", job, environment=crew.environment) as terminal:
        assert terminal.wait_ended() == 2
        assert "report.html" in terminal.text
        assert "<html" not in terminal.text


def test_unknown_job_and_unwritable_file_are_errors(crew: Crew, job: str, tmp_path: Path) -> None:
    assert b"there is no job 99999" in crew.run("report", "99999", code=1).stderr
    assert b"'seven' is not a valid job number" in crew.run("report", "seven", code=2).stderr
    done = crew.run("report", job, "--output", str(tmp_path / "missing" / "x.html"), code=1)
    assert b"cannot be written" in done.stderr
