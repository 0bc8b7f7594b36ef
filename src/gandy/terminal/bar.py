"""The progress bar of a job on a terminal: its state, how far it is, what failed."""

from collections.abc import Iterator

from rich.console import Console
from rich.progress import Progress

from gandy.bar import make_progress
from gandy.core.rows import JobRow
from gandy.terminal.people import format_count
from gandy.terminal.progress import count_done


def draw_bar(rows: Iterator[JobRow]) -> JobRow:
    """Show the job until it has ended. The bar stays on the screen as it was last."""
    with make_progress(Console(stderr=True)) as progress:
        bar = progress.add_task("", total=None, done="", failed="")
        for row in rows:
            show(progress, bar, row)
    return row


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
