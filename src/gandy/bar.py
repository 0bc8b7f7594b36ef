"""How progress bars look, drawn by rich: how far, how fast, how long still. Import it late: rich takes its time."""

import sys

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text


class RateColumn(ProgressColumn):
    """Tasks, or whatever is counted, that end in a second."""

    def __init__(self, unit: str) -> None:
        super().__init__()
        self._unit = unit

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.1f} {self._unit}/s", style="progress.data.speed")


def make_progress(console: Console, unit: str = "tasks") -> Progress:
    """Its tasks need the fields `done` and `failed`."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[done]}", style="progress.download"),
        TextColumn("{task.fields[failed]}", style="red"),
        RateColumn(unit),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
        console=console,
        # What is printed meanwhile goes above the bar, but what goes to a file must not end up on the screen.
        redirect_stdout=console.is_jupyter or sys.stdout.isatty(),
    )
