"""One job: progress, a map of its tasks, failures that are alike, durations, memory, and why tasks wait. Pure."""

import re
import textwrap
from collections.abc import Callable, Iterable, Sequence
from typing import Final

from gandy.cli.top.lines import SPARKS, Line, Styled, make_line, share_out
from gandy.cli.top.numbers import format_left, format_part, format_rate, format_us
from gandy.cli.top.overview import count_ended, name_state
from gandy.cli.top.scene import JobSeen, Scene
from gandy.cli.top.task_map import LEGEND, draw_map
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.views import JobGlance
from gandy.terminal.people import format_age, format_bytes, format_count
from gandy.viewer.failures import FailureGroup
from gandy.viewer.progress import find_progress
from gandy.viewer.summary import Bar, JobSummary

MAP_ROWS: Final = 8
SHOWN_GROUPS: Final = 8  # of failures
SPARK: Final = 28  # columns of a histogram
NAMED_TASKS: Final = 5

_SAID: Final = re.compile(r"Job \d+ is |Task \d+: ")  # the counts, and how tasks failed: the view has these already


def draw_job(scene: Scene, width: int, room: int) -> list[Line]:
    """All lines of it: there may be more than there is room for."""
    seen = scene.job
    if seen is None:
        return [make_line(Styled("No job is chosen; choose one in the overview, with Enter.", "dim"))]
    glance = scene.get_glance(seen.job)
    lines: list[Line] = [make_line(Styled(seen.problem, "bad"))] if seen.problem else []
    if glance is None:
        return lines or [make_line(Styled(f"Looking for job {seen.job}…", "dim"))]
    lines += _list_progress(scene, glance, width)
    if seen.states:
        lines += _list_map(seen, width, min(MAP_ROWS, max(2, room // 4)))
    if seen.summary is not None:
        lines += [*_list_failures(seen.summary), *_list_measures(seen.summary)]
    return lines + _list_explained(seen, glance, width)


def _list_progress(scene: Scene, glance: JobGlance, width: int) -> list[Line]:
    counts, ended = glance.counts, count_ended(glance)
    progress = find_progress(scene.picture, glance.job, scene.now) if glance.job in scene.picture.jobs else None
    age = format_age(glance.submitted, scene.foreman_now)
    priority = f", priority {glance.priority}" if glance.priority else ""
    rate = f"  {format_rate(progress.rate)}" if progress is not None and progress.rate else ""
    left = "" if progress is None or not progress.left_seconds else f", {format_left(progress.left_seconds)} left"
    parts = [f"{format_count(count)} {state}" for state, count in counts.list_by_progress() if count]
    added = "; more tasks may be added" if glance.is_open else ""
    return [
        make_line(
            Styled(f"Job {glance.job} ", "title"),
            glance.title,
            " is ",
            Styled(name_state(glance), glance.state.name.lower()),
            f", submitted {age}{priority}",
        ),
        (*_make_bar(glance, max(10, width - 30)), *make_line(f" {format_part(ended, counts.total)}{rate}{left}")),
        make_line(
            f"{format_count(counts.total)} {'task' if counts.total == 1 else 'tasks'}: {', '.join(parts)}{added}"
        ),
    ]


def _make_bar(glance: JobGlance, width: int) -> Line:
    """All tasks side by side, by state."""
    counts = glance.counts
    parts = (
        ("█", "finished", counts.finished),
        ("✗", "failed", counts.failed),
        ("○", "cancelled", counts.cancelled),
        ("▒", "running", counts.running),
        ("░", "assigned", counts.assigned),
        ("·", "waiting", counts.waiting),
    )
    cells = share_out([count for _, _, count in parts], width)
    return make_line(*(Styled(mark * cell, style) for (mark, style, _), cell in zip(parts, cells, strict=True)))


def _list_map(seen: JobSeen, width: int, rows: int) -> list[Line]:
    lines, size = draw_map(seen.states, width, rows)
    about = "each cell is a task" if size == 1 else f"each cell is {format_count(size)} tasks"
    return [(), make_line(Styled("Tasks", "title"), f", {about}"), *lines, LEGEND]


def _list_failures(summary: JobSummary) -> list[Line]:
    if not summary.failures:
        return []
    sampled, of = summary.failures_sampled, summary.failures_of
    about = "" if sampled == of else f", from the first {format_count(sampled)} of {format_count(of)}"
    lines = [(), make_line(Styled("Failures", "title"), about)]
    lines += [_make_failure(group) for group in summary.failures[:SHOWN_GROUPS]]
    others = sum(group.count for group in summary.failures[SHOWN_GROUPS:]) + summary.failures_left_out
    return [*lines, make_line(Styled(f"  and {format_count(others)} others", "dim"))] if others else lines


def _make_failure(group: FailureGroup) -> Line:
    named = ", ".join(map(str, group.tasks[:NAMED_TASKS])) + ("…" if group.count > NAMED_TASKS else "")
    words = f": {group.words}" if group.words else ""
    tasks = f"  ({'task' if group.count == 1 else 'tasks'} {named})"
    return make_line(
        Styled(f"{format_count(group.count):>7} ✗ ", "failed"), f"{group.cause}{words}", Styled(tasks, "dim")
    )


def _list_measures(summary: JobSummary) -> list[Line]:
    durations, memory = summary.durations, summary.memory
    if not durations.bars:
        return []
    sampled, of = summary.sampled, summary.of
    about = "" if sampled == of else f", from {format_count(sampled)} of {format_count(of)} tasks"
    lines = [(), make_line(Styled("Took", "title"), about)]
    values = (durations.p50_us, durations.p99_us, durations.max_us)
    lines.append(_make_histogram("time", durations.bars, values, format_us))
    if memory.bars:
        peaks = (memory.p50_bytes, memory.p99_bytes, memory.max_bytes)
        lines.append(_make_histogram("memory", memory.bars, peaks, lambda size: format_bytes(int(size or 0))))
    return lines


def _make_histogram(
    name: str, bars: Sequence[Bar], values: Iterable[float | None], show: Callable[[float | None], str]
) -> Line:
    half, nearly_all, most = map(show, values)
    return make_line(
        f"  {name:<7}{show(bars[0][0]):>8} ",
        Styled(draw_bars([count for _, _, count in bars], SPARK), "finished"),
        f" {show(bars[-1][1])}; half ≤ {half}, 99 % ≤ {nearly_all}, most {most}",
    )


def draw_bars(counts: Sequence[int], width: int) -> str:
    """A histogram; if it has too many bars, neighbours are added up. Each that is not empty can be seen."""
    size = -(-len(counts) // width)
    sums = [sum(counts[first : first + size]) for first in range(0, len(counts), size)]
    most = max(sums)
    return "".join(" " if not count else SPARKS[(count * len(SPARKS) - 1) // most] for count in sums)


def _list_explained(seen: JobSeen, glance: JobGlance, width: int) -> list[Line]:
    """Why tasks wait. How tasks failed is among the failures."""
    if glance.state in FINAL_JOB_STATES or not seen.explained:
        return []
    reasons = [text for text in seen.explained if not _SAID.match(text)]
    texts = [part for text in reasons for part in textwrap.wrap(text, max(10, width - 2))]
    return [(), make_line(Styled("Why tasks wait", "title")), *(make_line(f"  {text}") for text in texts)]
