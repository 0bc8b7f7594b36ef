"""The sections of a report about one job. Pure."""

import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from statistics import median
from typing import Final

from gandy.cli.report.charts import (
    count_hidden_lanes,
    draw_histogram,
    draw_legend,
    draw_map,
    draw_progress,
    draw_timeline,
)
from gandy.cli.report.html import Html, element, fields, join, lines_of, table, text
from gandy.cli.report.material import CrewReport, ReportedJob
from gandy.core.explain import describe_ending
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.requests import WorkerRow
from gandy.core.rows import JobRow, TaskRow
from gandy.core.views import make_title
from gandy.moments import Wall
from gandy.terminal.people import format_bytes, format_count, format_seconds
from gandy.terminal.rows import TASK_HEADERS, job_to_fields, task_to_cells
from gandy.viewer.summary import Bar
from gandy.viewer.timeline import measure_duration

SLOWEST: Final = 10
SHOWN_TAILS: Final = 20
SHOWN_TAIL_BYTES: Final = 2_000


def format_time(moment: float | Wall) -> str:
    """By the clock on the wall of this machine."""
    return time.strftime("%Y-%m-%d %H:%M:%S %Z", time.localtime(float(moment)))


def write_job(report: CrewReport, job: ReportedJob, level: str) -> Html:
    """All sections about a job; those that have nothing to show are left out. `level`: the tag of the heading."""
    row = job.sample.job
    title, state = f"Job {row.job}: {make_title(row.spec)}", element("span", text(_name(row)), class_=_badge(row))
    sections = (
        _write_progress(row),
        _write_settings(report, job),
        _write_failures(job),
        _write_measures(job),
        _write_map(job),
        _write_timeline(report, job),
        _write_workers(report, job),
        _write_slowest(job),
        _write_retries(job),
        _write_tails(job),
    )
    return element("section", element(level, text(title), state), *(section for section in sections if section))


def _name(row: JobRow) -> str:
    return "unreadable" if row.problem else row.state.name.lower()


def _badge(row: JobRow) -> str:
    return f"badge {'waiting' if row.state.name == 'PAUSED' else row.state.name.lower()}"


def _write(title: str, *parts: Html) -> Html:
    return join((element("h3", text(title)), *parts))


def _soft(words: str) -> Html:
    return element("p", text(words), class_="soft")


def _write_progress(row: JobRow) -> Html:
    if not row.counts.total:
        return _soft("It has no tasks.")
    return join((draw_progress(row.counts), draw_legend(row.counts)))


def _write_settings(report: CrewReport, job: ReportedJob) -> Html:
    row = job.sample.job
    left_out = ("job", "name", "state", "submitted", "changed", "tasks")
    settings = [(name, value) for name, value in job_to_fields(row, Wall(report.made)) if name not in left_out]
    names = [(name, f"{value} (names only)" if name == "environment" and value else value) for name, value in settings]
    return fields([("name", row.spec.name), *_list_times(job), *names])


def _list_times(job: ReportedJob) -> Iterator[tuple[str, str]]:
    """When it was submitted, began and ended, and by whom."""
    row, attempts = job.sample.job, job.summary.timeline
    yield "submitted", f"{format_time(row.submitted)}{f' by {job.submitter}' if job.submitter else ''}"
    begin = min((float(each.began) for each in attempts), default=None)
    about = "" if job.summary.sampled == job.summary.of else " or earlier: not all tasks were looked at"
    if begin is not None:
        yield "first task began", format_time(begin) + about
    if row.state in FINAL_JOB_STATES:
        yield "ended", format_time(row.changed)
        yield "took", format_seconds(row.changed - row.submitted) + " since it was submitted"
    else:
        yield "last change", format_time(row.changed)


# Failures, durations, memory


def _describe_sample(job: ReportedJob) -> str:
    """The tasks whose durations and memory are shown."""
    sampled, of = job.summary.sampled, job.summary.of
    if sampled == of:
        return "the last attempts at all tasks"
    return f"the last attempts at {format_count(sampled)} of {format_count(of)} tasks, evenly spread"


def _describe_all(job: ReportedJob) -> str:
    """The tasks that were looked at."""
    summary, failed = job.summary, job.summary.failures_sampled
    more = f", and at {format_count(failed)} that failed" if failed and summary.sampled < summary.of else ""
    return _describe_sample(job) + more


def _write_failures(job: ReportedJob) -> Html:
    summary = job.summary
    if not summary.failures:
        return Html("")
    about = ""
    if summary.failures_sampled < summary.failures_of:
        about = f"of the first {format_count(summary.failures_sampled)} of {format_count(summary.failures_of)}"
    rows = [
        (
            format_count(group.count),
            group.cause,
            group.words or "(it wrote nothing)",
            _list_tasks(group.tasks, group.count),
        )
        for group in summary.failures
    ]
    if summary.failures_left_out:
        rows.append((format_count(summary.failures_left_out), "others", "", ""))
    found = table((">tasks", "cause", "last words", "which"), rows)
    return _write("Failures", *((_soft(about),) if about else ()), found)


def _list_tasks(tasks: Sequence[int], count: int) -> str:
    return ", ".join(map(str, tasks)) + (", …" if count > len(tasks) else "")


def _write_measures(job: ReportedJob) -> Html:
    durations, memory = job.summary.durations, job.summary.memory
    if not durations.bars:
        return Html("")
    values = (durations.p50_us, durations.p99_us, durations.max_us)
    parts = [_draw_measure("How long tasks took", durations.bars, values, _show_us)]
    if memory.bars:
        peaks = (memory.p50_bytes, memory.p99_bytes, memory.max_bytes)
        parts.append(_draw_measure("Peak memory", memory.bars, peaks, _show_bytes))
    return join((element("div", *parts, class_="two"), _soft(f"From {_describe_sample(job)}.")))


def _draw_measure(
    title: str, bars: Sequence[Bar], values: Sequence[float | None], show: Callable[[float], str]
) -> Html:
    half, nearly_all, most = (show(value or 0.0) for value in values)
    words = f"half ≤ {half}, 99 % ≤ {nearly_all}, most {most}"
    return element("div", _write(title, draw_histogram(bars, show, title), _soft(words)))


def _show_us(microseconds: float) -> str:
    if microseconds >= 9.95e6:
        return format_seconds(microseconds / 1e6)
    for unit, name in ((1e6, "s"), (1e3, "ms")):
        if microseconds >= unit:
            return f"{microseconds / unit:.3g} {name}"
    return f"{microseconds:.0f} µs"


def _show_bytes(size: float) -> str:
    return format_bytes(int(size))


# Where and when


def _write_map(job: ReportedJob) -> Html:
    if not job.states:
        return Html("")
    words = "Each cell is one task, in the order of their numbers, line by line."
    return _write("All tasks", draw_map(job.states), draw_legend(job.sample.job.counts), _soft(words))


def _write_timeline(report: CrewReport, job: ReportedJob) -> Html:
    attempts = job.summary.timeline
    if not attempts:
        return Html("")
    hidden = count_hidden_lanes(attempts)
    more = f" {format_count(hidden)} lanes are not shown." if hidden else ""
    begin = format_time(min(each.began for each in attempts))
    words = f"{_describe_all(job).capitalize()}, by the foreman's clock, from {begin} on."
    return _write("Timeline", draw_timeline(attempts, report.made), _soft(words + more))


def _write_workers(report: CrewReport, job: ReportedJob) -> Html:
    found: defaultdict[str, list[TaskRow]] = defaultdict(list)
    for row in job.sample.list_all():
        if row.worker:
            found[row.worker].append(row)
    if not found:
        return Html("")
    known = {worker.id: worker for worker in report.workers}
    rows = [_describe_worker(name, known.get(name), tasks) for name, tasks in sorted(found.items())]
    headers = ("worker", ">slots", "tags", ">tasks seen", ">failed", ">half took ≤", "now")
    return _write("Workers", table(headers, rows))


def _describe_worker(name: str, worker: WorkerRow | None, tasks: Sequence[TaskRow]) -> Sequence[str]:
    failed = sum(row.state.name == "FAILED" for row in tasks)
    durations = [seconds for row in tasks if (seconds := measure_duration(row)) is not None]
    half = _show_us(median(durations) * 1e6) if durations else ""
    counts = (format_count(len(tasks)), format_count(failed), half)
    if worker is None:
        return (name, "", "", *counts, "not in the crew")
    state = "connected" if worker.connected else "absent"
    return (f"{worker.name} ({name})", format_count(worker.slots), ", ".join(worker.tags), *counts, state)


def _write_slowest(job: ReportedJob) -> Html:
    timed = [(seconds, row) for row in job.sample.list_all() if (seconds := measure_duration(row)) is not None]
    if not timed:
        return Html("")
    timed.sort(key=lambda pair: (-pair[0], pair[1].task))
    found = table(TASK_HEADERS, [task_to_cells(row) for _, row in timed[:SLOWEST]])
    return _write("Slowest tasks", _soft(f"Among {_describe_all(job)}."), found)


def _write_retries(job: ReportedJob) -> Html:
    if not job.repeated:
        return Html("")
    rows = [_describe_attempt(row) for attempts in job.repeated for row in attempts]
    words = "All attempts at the tasks that failed or were lost most often, among those that were looked at."
    return _write("Retries", _soft(words), table(TASK_HEADERS, rows))


def _describe_attempt(row: TaskRow) -> Sequence[str]:
    """An attempt after which its task waited was repeated."""
    task, attempt, state, *others = task_to_cells(row)
    return task, attempt, "tried again" if state == "waiting" else state, *others


def _write_tails(job: ReportedJob) -> Html:
    parts = [part for row in choose_tails(job) for part in _write_tail(job, row)]
    return _write("What failed tasks wrote last", *parts) if parts else Html("")


def choose_tails(job: ReportedJob) -> list[TaskRow]:
    """Failed tasks whose output is shown: the first of each kind, then others, in the order of their numbers."""
    rows = {row.task: row for row in job.sample.failed}
    firsts = [group.tasks[0] for group in job.summary.failures]
    chosen = list(dict.fromkeys((*firsts, *rows)))[:SHOWN_TAILS]
    return [rows[task] for task in sorted(chosen) if task in rows]


def _write_tail(job: ReportedJob, row: TaskRow) -> Iterator[Html]:
    error = row.ending.tail[-SHOWN_TAIL_BYTES:] if row.ending is not None else b""
    output = job.outputs.get(row.task, b"")
    if not (error.strip() or output.strip()):
        return
    how = "" if row.ending is None else f": {describe_ending(row.ending)}"
    yield element("p", text(f"Task {row.task}, attempt {row.attempt} on {row.worker}{how}"), class_="task")
    if output.strip():
        yield _soft("standard output")
        yield element("pre", lines_of(output))
    if error.strip():
        yield _soft("standard error")
        yield element("pre", lines_of(error))
