"""How clients, jobs and futures show themselves in notebooks, and in IPython in a terminal.

In a notebook the display is updated until what it shows has ended, the client is closed, or it is shown again.
"""

import asyncio
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import CancelledError
from contextlib import aclosing
from typing import TYPE_CHECKING, Any, Final, Protocol

from gandy.client.connection import Connection

if TYPE_CHECKING:
    from gandy.client.aio import AsyncClient
    from gandy.client.aio_job import AsyncJob
    from gandy.notebook.display import Handle, Renderings
    from gandy.notebook.rendering import Rendering

NEWEST: Final = 10  # jobs in the rendering of a client
LOOK_PERIOD: Final = 0.5  # seconds between two renderings of a client; those of a job come when it changes


class Shown:
    """An object that shows itself."""

    _display: "asyncio.Future[None] | None" = None  # what updates it

    def _list_renderings(self) -> "Renderings":
        """Iterate over renderings, now and after each change."""
        raise NotImplementedError

    def _find_connection(self) -> Connection:
        """Return the connection, with which updates end."""
        raise NotImplementedError

    def _find_loop(self) -> asyncio.AbstractEventLoop:
        """Return the loop on which updates are made. Raises: NotImplementedError."""
        raise NotImplementedError

    def _render_now(self) -> "Rendering | None":
        """Return what is to be seen now, if that is known without waiting."""
        return None

    def _repr_mimebundle_(self, **_options: object) -> dict[str, str]:
        from gandy.notebook.display import make_bundle

        return make_bundle(self._take_first(self._list_renderings()))

    def _ipython_display_(self) -> None:
        """Show it in a notebook. In a terminal, IPython uses the method above."""
        from gandy.notebook.display import has_notebook, show

        if not has_notebook():
            raise NotImplementedError
        connection, loop = self._find_connection(), self._find_loop()
        if self._display is not None and not self._display.done():
            loop.call_soon_threadsafe(self._display.cancel)
        renderings = self._list_renderings()
        first = self._take_first(renderings)
        handle = show(first)
        if not first.is_last:
            loop.call_soon_threadsafe(self._follow, renderings, handle, connection)

    def _take_first(self, renderings: "Renderings") -> "Rendering":
        """Wait for the first rendering; in the loop's own thread, which cannot wait, take the name."""
        from gandy.notebook.display import take_first
        from gandy.notebook.rendering import render_text

        if (known := self._render_now()) is not None:
            return known
        loop = self._find_loop()
        if _is_running_here(loop):
            return render_text(repr(self), is_last=False)
        return asyncio.run_coroutine_threadsafe(take_first(repr(self), renderings), loop).result()

    def _follow(self, renderings: "Renderings", handle: "Handle", connection: Connection) -> None:
        from gandy.notebook.display import follow

        self._display = task = asyncio.ensure_future(follow(repr(self), renderings, handle))
        connection.displays.add(task)
        task.add_done_callback(connection.displays.discard)


def find_own_loop() -> asyncio.AbstractEventLoop:
    """Return the loop of a program on asyncio. Raises: NotImplementedError, if none runs: IPython shows the name."""
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise NotImplementedError from None


def _is_running_here(loop: asyncio.AbstractEventLoop) -> bool:
    try:
        return asyncio.get_running_loop() is loop
    except RuntimeError:
        return False


async def list_job_renderings(job: "AsyncJob") -> AsyncGenerator["Rendering", None]:
    from gandy.notebook.rendering import render_job

    async with aclosing(job.watch()) as rows:
        async for row in rows:
            yield render_job(row)


async def list_client_renderings(client: "AsyncClient", name: str) -> AsyncGenerator["Rendering", None]:
    from gandy.notebook.rendering import render_crew

    while True:
        status, workers, newest = await client.status(), await client.workers(), []
        async with aclosing(client.jobs()) as rows:
            async for row in rows:
                newest.append(row)
                if len(newest) == NEWEST:
                    break
        yield render_crew(name, status, workers, newest)
        await asyncio.sleep(LOOK_PERIOD)


class _Future(Protocol):
    """A future for threads or for asyncio."""

    def done(self) -> bool: ...

    def cancelled(self) -> bool: ...

    def exception(self) -> BaseException | None: ...

    def result(self) -> Any: ...


async def list_future_renderings(render_now: "Callable[[], Rendering]") -> AsyncGenerator["Rendering", None]:
    while True:  # until the last rendering
        yield render_now()


def render_task(future: _Future, name: str) -> "Rendering":
    """Rendering a future by the name of its task."""
    from gandy.notebook.rendering import render_future

    if not future.done():
        running = getattr(future, "running", None)  # a future of asyncio does not know it
        return render_future(name, "not done" if running is None else "running" if running() else "waiting")
    if future.cancelled() or isinstance(future.exception(), CancelledError):
        return render_future(name, "cancelled")
    if (error := future.exception()) is not None:
        return render_future(name, "failed", error=error)
    return render_future(name, "finished", future.result())
