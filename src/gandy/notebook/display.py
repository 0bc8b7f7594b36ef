"""Displays in a notebook, and keeping them up to date while what they show changes."""

import asyncio
import sys
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any, Final, Protocol

from gandy.errors import GandyError
from gandy.notebook.rendering import Rendering, render_error

FIRST_SECONDS: Final = 3.0  # for the first rendering; then the display says that there is no answer
PERIOD: Final = 0.2  # seconds between two updates: enough for the eye, and little for the browser

Renderings = AsyncGenerator[Rendering, None]


class Handle(Protocol):
    """A display of IPython that can be updated; any thread may do that."""

    def update(self, obj: Any, **options: Any) -> None: ...


def make_bundle(rendering: Rendering) -> dict[str, str]:
    return {"text/plain": rendering.text, "text/html": rendering.html}


def has_notebook() -> bool:
    """True if this program runs in a notebook, where displays can be updated; False in IPython in a terminal."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return shell is not None and type(shell).__name__ != "TerminalInteractiveShell"


def show(rendering: Rendering) -> Handle:
    """Show a rendering in the output of the cell that runs."""
    shown = sys.modules["IPython"].display.display(make_bundle(rendering), raw=True, display_id=True)
    handle: Handle = shown
    return handle


async def take_first(name: str, renderings: Renderings) -> Rendering:
    try:
        async with asyncio.timeout(FIRST_SECONDS):
            return await anext(renderings)
    except (GandyError, TimeoutError) as error:
        return render_error(name, error)


async def follow(name: str, renderings: Renderings, handle: Handle) -> None:
    """Update a display with one rendering after the other, until the last one, or until cancelled."""
    last = None
    async with aclosing(renderings):
        try:
            async for rendering in renderings:
                if rendering != last:
                    handle.update(make_bundle(rendering), raw=True)
                last = rendering
                if rendering.is_last:
                    break
                await asyncio.sleep(PERIOD)
        except GandyError as error:
            handle.update(make_bundle(render_error(name, error)), raw=True)
