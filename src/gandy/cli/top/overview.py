"""The overview: trouble first, then numbers of the whole crew, then its jobs. Pure."""

from collections.abc import Sequence
from typing import Final

from gandy.cli.top.lines import (
    Column,
    Line,
    Part,
    Styled,
    choose,
    draw_fill,
    draw_spark,
    find_window,
    lay_out,
    make_line,
)
from gandy.cli.top.look import Item, TopLook
from gandy.cli.top.numbers import format_left, format_part, format_rate
from gandy.cli.top.scene import Scene
from gandy.core.model import FINAL_JOB_STATES
from gandy.core.views import JobGlance
from gandy.ids import JobId
from gandy.terminal.people import format_count
from gandy.viewer.progress import find_progress
from gandy.viewer.trouble import Severity, list_trouble

TROUBLE_LINES: Final = 5
SPARK: Final = (10, 60)  # columns, and seconds: at least and at most
BESIDE_SPARK: Final = 60  # columns of what is left and right of it
BAR: Final = 10  # columns

_COLUMNS: Final = (
    Column("", 1),
    Column("job", 5, is_number=True),
    Column("state", 7),
    Column("done", BAR),
    Column("", 4, is_number=True),
    Column("tasks", 5, is_number=True),
    Column("failed", 5, is_number=True),
    Column("rate", 6, is_number=True),
    Column("left", 6, is_number=True),
    Column("name"),
)


def draw_overview(scene: Scene, look: TopLook, items: Sequence[Item], width: int, room: int) -> list[Line]:
    lines = [*list_trouble_lines(scene), *_list_numbers(scene, width), ()]
    return lines + _list_jobs(scene, look, items, width, max(3, room - len(lines)))


def list_trouble_lines(scene: Scene) -> list[Line]:
    """What is wrong, worst first."""
    found = list_trouble(scene.picture)
    lines = [
        make_line(Styled("✗ ", "bad") if each.severity is Severity.BAD else Styled("! ", "warning"), each.text)
        for each in found[:TROUBLE_LINES]
    ]
    if len(found) > TROUBLE_LINES:
        lines.append(make_line(Styled(f"  and {format_count(len(found) - TROUBLE_LINES)} more", "dim")))
    return [*lines, ()] if lines else []


def _list_numbers(scene: Scene, width: int) -> list[Line]:
    picture = scene.picture
    spark = max(SPARK[0], min(SPARK[1], width - BESIDE_SPARK))
    points = picture.series.points
    tasks = ", ".join(f"{format_count(picture.count(what))} {what}" for what in ("running", "assigned", "waiting"))
    calls = f"{format_count(picture.count('calls_waiting'))} waiting"
    workers = [worker for worker in picture.list_workers() if worker.connected]
    used, slots = sum(worker.used for worker in workers), sum(worker.slots for worker in workers)

    def make_number(name: str, what: str, rest: str) -> Line:
        values = [float(getattr(point, what)) for point in points]
        number = Styled((format_rate(values[-1]) if values else "-").rjust(10), "number")
        style = "failed" if what == "failed" and values and values[-1] else "running"
        return make_line(f"{name:<7}", number, "  ", Styled(draw_spark(values, spark), style), f"  {rest}")

    return [
        make_number("tasks", "finished", tasks),
        make_number("failed", "failed", _count_jobs(scene)),
        make_number("calls", "calls", calls),
        make_line(
            f"{'slots':<7}",
            Styled(f"{format_count(used)} of {format_count(slots)}".rjust(10), "number"),
            "  ",
            Styled(draw_fill(used, slots, spark), "running"),
            f"  {format_count(len(workers))} {'worker' if len(workers) == 1 else 'workers'} connected",
        ),
    ]


def _count_jobs(scene: Scene) -> str:
    count = scene.picture.count("unfinished")
    return f"{format_count(count)} {'job has' if count == 1 else 'jobs have'} not ended"


# Jobs


def _list_jobs(scene: Scene, look: TopLook, items: Sequence[Item], width: int, room: int) -> list[Line]:
    if not items:
        return [make_line(Styled(_explain_no_jobs(scene, look), "dim"))]
    chosen = look.find_chosen(items)
    window = find_window(len(items), chosen, room - 1)
    glances = [scene.picture.jobs[JobId(int(items[place]))] for place in window]
    rows = [_make_row(scene, glance) for glance in glances]
    title, *lines = lay_out(_COLUMNS, rows, width)
    if look.shows_choice:
        lines[chosen - window.start] = choose(make_line("▸", *lines[chosen - window.start][1:]), width)
    return [title, *lines]


def _explain_no_jobs(scene: Scene, look: TopLook) -> str:
    if look.filter:
        return "No job here has this in its number, name or state."
    if not scene.is_complete:
        return "Looking for jobs…"
    return "No jobs yet; submit one with 'gandy submit --tasks 100 -- sh -c \"echo {task}\"'."


def name_state(glance: JobGlance) -> str:
    return "held" if glance.held and glance.state not in FINAL_JOB_STATES else glance.state.name.lower()


def count_ended(glance: JobGlance) -> int:
    return glance.counts.finished + glance.counts.failed + glance.counts.cancelled


def _make_row(scene: Scene, glance: JobGlance) -> Sequence[Part]:
    counts, ended = glance.counts, count_ended(glance)
    progress = find_progress(scene.picture, glance.job, scene.now)
    return (
        " ",
        str(glance.job),
        Styled(name_state(glance), glance.state.name.lower()),
        Styled(draw_fill(ended, counts.total, BAR), "finished"),
        format_part(ended, counts.total),
        format_count(counts.total),
        Styled(format_count(counts.failed), "failed" if counts.failed else ""),
        format_rate(progress.rate) if progress.rate else "",
        format_left(progress.left_seconds),
        glance.title,
    )
