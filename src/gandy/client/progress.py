"""How far a map is, for people who look: a bar in a terminal or a notebook, and nothing elsewhere."""

import sys
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from rich.console import Console

    class CountedFuture(Protocol):
        """A future of either kind."""

        size: int

        def add_done_callback(self, callback: Callable[[Any], object], /) -> None: ...


@contextmanager
def showing(label: str, futures: Sequence["CountedFuture"]) -> Iterator[None]:
    """Draw a bar that follows these futures, until all have ended or somebody leaves. It stays as it was last."""
    console = _find_console()
    if console is None:
        yield
        return
    from gandy.bar import make_progress

    total, done, lock = sum(future.size for future in futures), 0, Lock()

    def count(size: int) -> None:
        nonlocal done
        with lock:  # futures end on the loop, or have ended before
            done = min(done + size, total)
            progress.update(bar, completed=done, done=f"{done:,}/{total:,}")

    with make_progress(console, "items") as progress:
        bar = progress.add_task(label, total=total, done=f"0/{total:,}", failed="")
        _follow(futures, count)
        try:
            yield
            count(total)  # whoever waits for the last future may be here before it has told
        finally:
            progress.refresh()  # rich leaves that out in notebooks


def _follow(futures: Iterable["CountedFuture"], count: Callable[[int], None]) -> None:
    for future in futures:
        size = future.size
        future.add_done_callback(lambda _, size=size: count(size))  # type: ignore[misc]


def _find_console() -> "Console | None":
    """Where somebody looks."""
    is_terminal = sys.stderr.isatty()
    if not is_terminal and "IPython" not in sys.modules:
        return None
    from rich.console import Console  # it takes its time to import

    console = Console(stderr=True)
    return console if is_terminal or console.is_jupyter else None
