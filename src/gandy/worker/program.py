"""`gandy.Worker`: a worker inside a user's program, with commands of its own."""

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, overload

from gandy.config import Addresses, find_home
from gandy.errors import ConfigError
from gandy.net import loop
from gandy.worker.commands import Commands
from gandy.worker.main import OUTPUT_NAME, configure_logging, find_work, make_about, serve
from gandy.worker.service import WorkerService

F = TypeVar("F", bound=Callable[..., Any])


class Worker:
    """A worker for the foreman at `foreman`, else that of the `ensemble`, else at GANDY_FOREMAN, else on this machine.

    It answers calls of the functions that are decorated as its commands. With `jobs`, it also runs tasks of jobs like
    any other worker; then `reserve` slots are for calls alone, and `tags` are what jobs may ask for. In an ensemble it
    knows the shared time, and can begin calls and tasks at a given time.
    """

    def __init__(
        self,
        foreman: Addresses | None = None,
        *,
        slots: int | None = None,
        name: str | None = None,
        jobs: bool = False,
        tags: tuple[str, ...] = (),
        reserve: int = 0,
        insecure: bool = False,
        ensemble: str | None = None,
    ) -> None:
        """Raises: ConfigError."""
        self.commands = Commands()
        self._foreman = foreman
        self._is_insecure = insecure
        self._ensemble = ensemble
        for option, value in (("tags", tags), ("reserve", reserve)):
            if value and not jobs:
                raise ConfigError(f"{option} is for a worker that takes jobs, too; write jobs=True")
        self._about = make_about(slots, tags, name, reserve, jobs)
        self._reserve = reserve
        self._stop: Callable[[], None] = _do_nothing

    @overload
    def command(self, function: F, /) -> F: ...

    @overload
    def command(self, /, *, name: str = "", slots: int = 1, isolate: bool = False) -> Callable[[F], F]: ...

    def command(self, function: Any = None, /, **options: Any) -> Any:
        """Decorate a function: offer it as a command, under its own name or another one.

        A coroutine function runs on the worker's loop, a plain one in a thread, or with `isolate` in a process that can
        be killed. A generator of either kind is a stream. A call takes one slot, or `slots`.

        Raises: ConfigError.
        """
        return self.commands.command(function, **options) if function is not None else self.commands.command(**options)

    def remove(self, name: str) -> None:
        """Withdraw a command. Raises: ConfigError."""
        self.commands.remove(name)

    def run(self) -> None:
        """Work until a signal, `stop` or the foreman ends it. Raises: GandyError."""
        configure_logging()
        try:
            loop.run(serve(self._start))
        finally:
            self._stop = _do_nothing

    async def serve(self) -> None:
        """Like `run`, on a loop that runs already. Installs no signal handlers."""
        service = self._start()
        try:
            await service.run()
        finally:
            self._stop = _do_nothing

    def stop(self) -> None:
        """End all tasks, report them to the foreman, and stop. Any thread may call this."""
        self._stop()

    def _start(self) -> WorkerService:
        # Not in __init__: a module that `gandy worker run --commands` imports need not know where the foreman is.
        home = find_home(os.environ, sys.platform)
        found = None if self._ensemble is None else f"ensemble:{self._ensemble}"
        reach = find_work(self._foreman or found, self._is_insecure)
        folder = Path(home) / OUTPUT_NAME / self._about.name
        service = WorkerService(
            reach,
            self._about,
            folder,
            commands=self.commands,
            reserved=self._reserve,
            ensemble=self._ensemble,
            insecure=self._is_insecure,
        )
        running = asyncio.get_running_loop()

        def stop() -> None:
            asyncio.run_coroutine_threadsafe(service.stop(), running)

        self._stop = stop
        return service


def _do_nothing() -> None: ...
