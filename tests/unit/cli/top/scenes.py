"""Crews as `gandy top` sees them."""

from typing import Any

from msgspec.structs import replace

from gandy.cli.top.frame import draw_frame
from gandy.cli.top.lines import get_text
from gandy.cli.top.look import TopLook
from gandy.cli.top.scene import Scene
from gandy.core.model import Counts, JobState
from gandy.core.views import CommandGlance, CrewUpdate, JobGlance, Span, Totals, WorkerGlance
from gandy.ids import JobId
from gandy.viewer.picture import Picture

NOW = 1_000_000.0


def a_job(job: int = 7, state: JobState = JobState.RUNNING, title: str = "train", **given: Any) -> JobGlance:
    counts = Counts(**{key: given.pop(key) for key in list(given) if key in Counts.__struct_fields__})
    return JobGlance(JobId(job), title, state, given.pop("held", False), NOW - 100, counts, **given)


def a_worker(name: str = "hut", **changes: Any) -> WorkerGlance:
    glance = WorkerGlance(f"{name}-1", name, 4, 2, 2, 1, 0, True, False, 0.0, version="1.0")
    return replace(glance, **changes)


def a_scene(
    *jobs: JobGlance,
    workers: tuple[WorkerGlance, ...] = (),
    commands: tuple[CommandGlance, ...] = (),
    spans: tuple[Span, ...] = (),
    **update: Any,
) -> Scene:
    """A crew with one foreman, which has sent one update."""
    values = {"waiting": 0, "assigned": 0, "running": 0, "unfinished": len(jobs), "calls_waiting": 0, **update}
    whole = CrewUpdate(
        NOW, 0, totals=Totals(), is_whole=True, jobs=jobs, workers=workers, commands=commands, spans=spans, **values
    )
    picture = Picture()
    picture.apply(whole, NOW)
    return Scene(picture, now=NOW, is_complete=True, can_change=True)


def show(scene: Scene, look: TopLook | None = None, width: int = 80, height: int = 24) -> list[str]:
    """The screen as text."""
    return [get_text(line).rstrip() for line in draw_frame(scene, look or TopLook(), width, height)]
