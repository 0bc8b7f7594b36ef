"""A report as one HTML page, without scripts and without anything from elsewhere. Pure."""

from collections.abc import Sequence
from typing import Final

from gandy.cli.report.html import Html, element, join, text
from gandy.cli.report.material import CrewReport
from gandy.cli.report.sections import format_time, write_job
from gandy.cli.report.style import CSS
from gandy.core.views import make_title
from gandy.terminal.people import format_count

# The page itself allows no scripts and loads nothing, so it does no harm even if there were a mistake in it.
POLICY: Final = "default-src 'none'; style-src 'unsafe-inline'; img-src data:"


def write_page(report: CrewReport) -> str:
    title = _make_title(report)
    head = element(
        "head",
        Html('<meta charset="utf-8">'),
        Html(f'<meta http-equiv="Content-Security-Policy" content="{POLICY}">'),
        Html('<meta name="viewport" content="width=device-width">'),
        element("title", text(title)),
        element("style", Html(CSS)),
    )
    if len(report.jobs) == 1:
        body = element("body", write_job(report, report.jobs[0], "h1"), _write_about(report))
    else:
        jobs = (write_job(report, job, "h2") for job in report.jobs)
        body = element("body", element("h1", text(title)), _write_about(report), *jobs)
    return f"<!doctype html>\n{element('html', head, body, lang='en')}\n"


def _make_title(report: CrewReport) -> str:
    rows = [job.sample.job for job in report.jobs]
    if len(rows) == 1:
        return f"Job {rows[0].job}: {make_title(rows[0].spec)}"
    return f"{format_count(len(rows))} jobs"


def _write_about(report: CrewReport) -> Html:
    status = report.status
    connected = sum(worker.connected for worker in report.workers)
    words: Sequence[str] = (
        f"As of {format_time(report.made)}, from the foreman at {report.address}, gandy {status.version}.",
        f"The crew has {format_count(connected)} connected workers with {format_count(status.slots)} slots.",
    )
    return join(element("p", text(line), class_="soft") for line in words)
