"""Puts a whole screen together: the views to choose from, the one that is shown, and what keys do. Pure."""

import time
from collections.abc import Sequence
from typing import Final

from gandy.cli.top.calls_view import draw_calls
from gandy.cli.top.foremen_view import draw_foremen
from gandy.cli.top.job_view import draw_job
from gandy.cli.top.lines import Line, Styled, cut, join, make_line
from gandy.cli.top.look import TopLook, TopView
from gandy.cli.top.overview import draw_overview
from gandy.cli.top.scene import Scene
from gandy.cli.top.workers_view import draw_workers

HELP: Final = (
    ("1 2 3 4 5, Tab", "overview, job, workers, calls, foremen"),
    ("↑ ↓, j k, PgUp PgDn", "move"),
    ("Enter", "open the job that is chosen"),
    ("Esc", "go back; drop the filter"),
    ("/", "show only what has this text in it"),
    ("h", "hold a job, or release it"),
    ("r", "retry the tasks of a job that failed or were cancelled"),
    ("c", "cancel a job"),
    ("Ctrl-L", "draw everything again"),
    ("q", "quit"),
)


def draw_frame(scene: Scene, look: TopLook, width: int, height: int) -> list[Line]:
    """As many lines as the screen has, each as wide as it at most."""
    top = [_make_tabs(scene, look, width), *_list_problems(scene)]
    room = max(1, height - len(top) - 1)
    body = _draw_help() if look.shows_help else _draw_view(scene, look, width, room)
    look.scroll = max(0, min(look.scroll, len(body) - room))
    shown = body[look.scroll : look.scroll + room] if look.view is TopView.JOB else body[:room]
    lines = [*top, *shown, *[()] * (room - len(shown)), _make_footer(look, scene, len(body) > room)]
    return [cut(line, width) for line in lines[: height - 1]] + [cut(lines[-1], width)]


def _draw_view(scene: Scene, look: TopLook, width: int, room: int) -> list[Line]:
    items = scene.list_items(look)
    match look.view:
        case TopView.OVERVIEW:
            return draw_overview(scene, look, items, width, room)
        case TopView.JOB:
            return draw_job(scene, width, room)
        case TopView.WORKERS:
            return draw_workers(scene, look, items, width, room)
        case TopView.CALLS:
            return draw_calls(scene, look, items, width, room)
        case TopView.FOREMEN:
            return draw_foremen(scene, look, items, width, room)


def _make_tabs(scene: Scene, look: TopLook, width: int) -> Line:
    tabs: list[Styled] = []
    for view in TopView:
        name = f"{view} {view.name.title()}"
        tabs.append(Styled(f"[{name}]", "chosen") if view is look.view else Styled(f" {name} "))
    return join(make_line(*tabs), make_line(Styled(time.strftime("%H:%M:%S", time.localtime(scene.now)), "dim")), width)


def _list_problems(scene: Scene) -> list[Line]:
    if not scene.problem:
        return []
    return [make_line(Styled(f"✗ Trying again: {scene.problem}", "bad"))]


def _draw_help() -> list[Line]:
    return [make_line(Styled(f"  {key:<22}", "title"), text) for key, text in HELP]


def _make_footer(look: TopLook, scene: Scene, is_long: bool) -> Line:
    if look.question is not None:
        return make_line(Styled(f"{look.question.verb.capitalize()} job {look.question.job}? y/n ", "chosen"))
    if look.is_filtering:
        return make_line(
            "filter: ", Styled(look.filter), Styled(" ", "chosen"), Styled("  Enter keeps it, Esc drops it", "dim")
        )
    if look.message:
        return make_line(Styled(look.message, "bold"))
    keys = _list_keys(look, scene, is_long)
    chosen = (f"filter: {look.filter}  ",) if look.filter else ()
    return make_line(*(Styled(text, "warning") for text in chosen), Styled("  ".join(keys), "dim"))


def _list_keys(look: TopLook, scene: Scene, is_long: bool) -> Sequence[str]:
    """Those that do something in this view."""
    is_list = look.view is not TopView.JOB
    keys = ["↑↓ move"] if is_list else ["↑↓ scroll"] if is_long else []
    if look.view is TopView.OVERVIEW:
        keys.append("Enter open")
    if is_list:
        keys.append("/ filter")
    if look.view in (TopView.OVERVIEW, TopView.JOB) and scene.can_change:
        keys += ["h hold", "r retry", "c cancel"]
    if look.view is not TopView.OVERVIEW:
        keys.append("Esc back")
    return [*keys, "? help", "q quit"]
