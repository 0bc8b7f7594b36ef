"""Runs `gandy top`: watches the crew, reads keys, draws what has changed, and does what the user asked for."""

import asyncio
import os
import signal
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from gandy.cli.top.feeds import Feeds
from gandy.cli.top.frame import draw_frame
from gandy.cli.top.keys import KeyReader
from gandy.cli.top.lines import Line
from gandy.cli.top.look import Change, Quit, TopLook
from gandy.cli.top.overview import draw_overview, name_state
from gandy.cli.top.scene import Scene
from gandy.cli.top.terminal import TopTerminal
from gandy.client.aio import AsyncClient
from gandy.clocks import read_monotonic, read_wall
from gandy.core.roles import CrewRole
from gandy.core.views import glance_at
from gandy.errors import GandyError
from gandy.terminal.exits import ExitCode
from gandy.viewer.watcher import CrewWatcher

DRAW_PERIOD: Final = 0.1  # seconds between two drawings, at least
REST: Final = 19  # times as long as drawing took: the rest of the time is for others
ESCAPE_SECONDS: Final = 0.05  # after which ESC is a key and not the beginning of a sequence
READ_BYTES: Final = 4_096
COMPLETE_SECONDS: Final = 5.0  # that one screen waits for all foremen

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class TopProgram:
    """Until the user quits."""

    def __init__(self, client: AsyncClient) -> None:
        self._client = client
        self._has_changed = asyncio.Event()
        self._watcher = CrewWatcher(client, self._has_changed.set)
        self._scene = Scene(self._watcher.picture)
        self._clock = ClockDifference()
        self._look = TopLook()
        self._feeds = Feeds(client, self._scene, self._has_changed.set)
        self._keys = KeyReader()
        self._changing: set[asyncio.Task[None]] = set()
        self._ended: asyncio.Future[int] = asyncio.get_running_loop().create_future()

    async def run(self, terminal: TopTerminal) -> int:
        """Returns the exit code."""
        tasks = [asyncio.create_task(self._watcher.run()), asyncio.create_task(self._draw_changes(terminal))]
        for task in tasks:
            task.add_done_callback(self._on_task_end)
        self._listen(terminal)
        try:
            return await self._ended
        finally:
            self._deafen(terminal)
            await self._feeds.close()
            for task in (*tasks, *self._changing):
                task.cancel()
            await asyncio.gather(*tasks, *self._changing, return_exceptions=True)

    def _on_task_end(self, task: "asyncio.Task[None]") -> None:
        """Neither ends by itself, unless something is wrong."""
        if not task.cancelled() and not self._ended.done():
            self._ended.set_exception(task.exception() or AssertionError("it ended"))

    def _end(self, code: int) -> None:
        if not self._ended.done():
            self._ended.set_result(code)

    # Drawing

    async def _draw_changes(self, terminal: TopTerminal) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(DRAW_PERIOD):  # the first screen has numbers, unless the foreman is slow or away
                await wait_complete(self._watcher, self._has_changed)
        while True:
            begin = read_monotonic()
            update_scene(self._scene, self._client, self._watcher, self._clock)
            self._feeds.follow(self._look.view, self._look.job)
            self._has_changed.clear()
            terminal.draw(draw_frame(self._scene, self._look, *terminal.find_size()))
            await asyncio.sleep(max(DRAW_PERIOD, REST * (read_monotonic() - begin)))
            await self._has_changed.wait()

    # Keys and signals

    def _listen(self, terminal: TopTerminal) -> None:
        loop = asyncio.get_running_loop()
        loop.add_reader(terminal.keys, self._on_input, terminal)
        for number in _ENDING:
            code = ExitCode.INTERRUPTED if number == signal.SIGINT else 128 + number
            loop.add_signal_handler(number, self._end, code)
        for number, act in self._list_signals(terminal).items():
            loop.add_signal_handler(number, act)

    def _list_signals(self, terminal: TopTerminal) -> dict[signal.Signals, Callable[[], None]]:
        return {
            signal.SIGWINCH: partial(self._redraw, terminal),
            signal.SIGTSTP: partial(self._suspend, terminal),
            signal.SIGCONT: partial(self._resume, terminal),
        }

    def _deafen(self, terminal: TopTerminal) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(terminal.keys)
        for number in (*_ENDING, *self._list_signals(terminal)):
            loop.remove_signal_handler(number)

    def _redraw(self, terminal: TopTerminal) -> None:
        terminal.forget()
        self._has_changed.set()

    def _resume(self, terminal: TopTerminal) -> None:
        terminal.enter()
        self._has_changed.set()

    def _suspend(self, terminal: TopTerminal) -> None:
        """Ctrl-Z: the terminal is the shell's until we go on. Without a shell we go on at once."""
        terminal.leave()
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        os.kill(os.getpid(), signal.SIGTSTP)
        asyncio.get_running_loop().add_signal_handler(signal.SIGTSTP, self._suspend, terminal)
        self._resume(terminal)

    def _on_input(self, terminal: TopTerminal) -> None:
        try:
            data = os.read(terminal.keys, READ_BYTES)
        except OSError:
            data = b""
        if not data:  # the terminal is gone
            self._end(128 + signal.SIGHUP)
            return
        self._on_keys(self._keys.feed(data), terminal)
        if self._keys.is_waiting:
            loop = asyncio.get_running_loop()
            loop.call_later(ESCAPE_SECONDS, lambda: self._on_keys(self._keys.flush(), terminal))

    def _on_keys(self, keys: list[str], terminal: TopTerminal) -> None:
        for key in keys:
            if key == "redraw":
                terminal.forget()
            items = self._scene.list_items(self._look)
            glance = self._scene.find_glance(self._look, items)
            match self._look.on_key(key, items, glance, self._scene.can_change):
                case Quit():
                    self._end(ExitCode.DONE)
                case Change() as change:
                    task = asyncio.create_task(self._change(change))
                    self._changing.add(task)
                    task.add_done_callback(self._changing.discard)
                case None:
                    pass
        if keys:
            self._has_changed.set()

    async def _change(self, change: Change) -> None:
        job = self._client.job(change.job)
        acts = {"hold": job.hold, "release": job.release, "retry": job.retry, "cancel": job.cancel}
        try:
            row = await acts[change.verb]()
            self._look.message = f"job {row.job} is {name_state(glance_at(row))}"
        except GandyError as error:
            self._look.message = str(error)
        self._has_changed.set()


class ClockDifference:
    """How far the foreman's clock is ahead of ours, as far as the newest update shows."""

    def __init__(self) -> None:
        self._newest = 0.0
        self.ahead = 0.0

    def note(self, newest: float, now: float) -> None:
        if newest > self._newest:
            self._newest, self.ahead = newest, newest - now


def update_scene(scene: Scene, client: AsyncClient, watcher: CrewWatcher, clock: ClockDifference) -> None:
    scene.now = float(read_wall())
    clock.note(max((float(update.at) for update in watcher.picture.shards.values()), default=0.0), scene.now)
    scene.ahead = clock.ahead
    scene.problem = watcher.problem
    scene.is_complete = watcher.is_complete
    scene.address = str(client.address)
    scene.can_change = client.connection.role is not CrewRole.OBSERVER


async def wait_complete(watcher: CrewWatcher, has_changed: asyncio.Event) -> None:
    """Wait until all foremen have sent what they have. `has_changed` is set when the watcher changes something."""
    while not watcher.is_complete:
        has_changed.clear()
        await has_changed.wait()


async def read_once(client: AsyncClient, width: int, height: int) -> list[Line]:
    """One screen, when all foremen have sent what they have. Raises: LinkError."""
    await client.connect()
    has_changed = asyncio.Event()
    watcher = CrewWatcher(client, has_changed.set)
    watching = asyncio.create_task(watcher.run())
    try:
        with suppress(TimeoutError):  # what is there is shown, and why there is no more
            async with asyncio.timeout(COMPLETE_SECONDS):
                await wait_complete(watcher, has_changed)
    finally:
        watching.cancel()
        await asyncio.gather(watching, return_exceptions=True)
    scene, look = Scene(watcher.picture), TopLook(shows_choice=False)
    update_scene(scene, client, watcher, ClockDifference())
    return draw_overview(scene, look, scene.list_items(look), width, height)


async def run_top(foreman: tuple[str, ...], terminal: TopTerminal) -> int:
    client = AsyncClient(foreman)
    try:
        return await TopProgram(client).run(terminal)
    finally:
        await client.close()
