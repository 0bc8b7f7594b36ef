"""The progress bar, drawn by rich: how much is done, the rate, the time left. rich is imported late: it is slow."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol, Self

if TYPE_CHECKING:
    from rich.progress import ProgressColumn


class ProgressBar:
    """One bar on standard error, drawn from `with` on. Its last state stays on the screen."""

    def __init__(self, unit: str = "tasks") -> None:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

        console = Console(stderr=True)
        self._progress = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TextColumn("{task.fields[done]}", style="progress.download"),
            TextColumn("{task.fields[failed]}", style="red"),
            _make_rate_column(unit),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(compact=True),
            console=console,
            # What the program prints meanwhile goes above the bar, but output to a file must not end up on the screen.
            redirect_stdout=console.is_jupyter or sys.stdout.isatty(),
        )
        self._bar = self._progress.add_task("", total=None, done="", failed="")

    def show(self, label: str, done: int, total: int, failed: int = 0) -> None:
        self._progress.update(
            self._bar,
            description=label,
            total=total,
            completed=done,
            done=f"{done:,}/{total:,}",
            failed=f"{failed:,} failed" if failed else "",
        )

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.refresh()  # in notebooks, `stop` does not refresh
        self._progress.stop()


def _make_rate_column(unit: str) -> "ProgressColumn":
    from rich.progress import ProgressColumn, Task
    from rich.text import Text

    class RateColumn(ProgressColumn):
        """How many tasks or items end per second."""

        def render(self, task: Task) -> Text:
            speed = task.finished_speed or task.speed
            return Text("" if speed is None else f"{speed:,.1f} {unit}/s", style="progress.data.speed")

    return RateColumn()


class CountedFuture(Protocol):
    """A future, for threads or for asyncio, that stands for some items of a map."""

    size: int

    def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...


@contextmanager
def showing(label: str, futures: Sequence[CountedFuture]) -> Iterator[None]:
    """Draw a bar that follows these futures in a terminal or a notebook; elsewhere, draw nothing."""
    if not (sys.stderr.isatty() or _is_in_notebook()):
        yield
        return
    total, done, lock = sum(future.size for future in futures), 0, Lock()

    def count(size: int) -> None:
        nonlocal done
        with lock:  # called on the loop, or in this thread for a future that has ended before
            done = min(done + size, total)
            bar.show(label, done, total)

    with ProgressBar("items") as bar:
        count(0)
        for future in futures:
            future.add_done_callback(lambda _, size=future.size: count(size))  # type: ignore[misc]
        yield
        count(total)  # the last value may be read before the callback of its future has run


def _is_in_notebook() -> bool:
    if "IPython" not in sys.modules:
        return False
    from rich.console import Console

    return Console(stderr=True).is_jupyter
