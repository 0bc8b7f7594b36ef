"""The progress bar of a job on a terminal, drawn by rich: how far, how fast, how long still."""

from collections.abc import Iterator

from rich.console import Console
from rich.progress import BarColumn, Progress, ProgressColumn, Task, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from gandy.cli.people import format_count
from gandy.cli.progress import count_done
from gandy.core.snapshot import JobRow


class RateColumn(ProgressColumn):
    """Tasks that end in a second."""

    def render(self, task: Task) -> Text:
        speed = task.finished_speed or task.speed
        return Text("" if speed is None else f"{speed:,.1f} tasks/s", style="progress.data.speed")


def draw_bar(rows: Iterator[JobRow]) -> JobRow:
    """Show the job until it has ended. The bar stays on the screen as it was last."""
    with make_progress(Console(stderr=True)) as progress:
        bar = progress.add_task("", total=None, done="", failed="")
        for row in rows:
            show(progress, bar, row)
    return row


def make_progress(console: Console) -> Progress:
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        TextColumn("{task.fields[done]}", style="progress.download"),
        TextColumn("{task.fields[failed]}", style="red"),
        RateColumn(),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(compact=True),
        console=console,
    )


def show(progress: Progress, bar: int, row: JobRow) -> None:
    failed = row.counts.failed
    progress.update(
        bar,  # type: ignore[arg-type]  # rich's own kind of number
        description=f"job {row.job} is {row.state.name.lower()}",
        total=row.spec.tasks,
        completed=count_done(row),
        done=f"{format_count(count_done(row))}/{format_count(row.spec.tasks)}",
        failed=f"{format_count(failed)} failed" if failed else "",
    )
