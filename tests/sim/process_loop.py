"""The event loop of a simulated process: the real asyncio code of a foreman runs on it, on simulated time.

Whatever happens to a process goes through `perform`. One that is stopped, as by SIGSTOP, does it all when it goes on;
one that is dead does nothing.
"""

import asyncio
import random
import secrets
import sys
import time
from asyncio import events
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from functools import cache, partial
from random import Random
from types import SimpleNamespace
from typing import Any, TypeVar

from gandy.foreman import requests
from gandy.testing.simulation import Simulation
from gandy.worker import foreman_link

T = TypeVar("T")

Action = Callable[[], object]

_get_running_loop = events._get_running_loop
_set_running_loop = events._set_running_loop


class _Handle(asyncio.TimerHandle):
    """As asyncio's, without what is for debugging: most of what a simulation does goes through one."""

    __slots__ = ()

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], loop: "ProcessLoop", context: Context | None
    ) -> None:
        self._callback = callback
        self._args = args
        self._loop = loop
        self._context = copy_context() if context is None else context
        self._cancelled = False
        self._source_traceback = self._repr = None

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = self._args = None  # type: ignore[assignment]  # as asyncio does

    def fire(self) -> None:
        if not self._cancelled:
            self._loop.perform(self._run_unless_cancelled)  # it may be put off

    def _run_unless_cancelled(self) -> None:
        if not self._cancelled:
            self._run()


class ProcessLoop(asyncio.AbstractEventLoop):
    """One for each life of a process. `age`: what its monotonic clock shows when the simulation begins."""

    def __init__(
        self, simulation: Simulation, age: float, chance: Random, on_bug: Callable[[BaseException | str], None]
    ) -> None:
        self._simulation = simulation
        self.random = chance
        self._age = age
        self._on_bug = on_bug
        self._ready: deque[_Handle] = deque()
        self._put_off: list[Action] = []  # while the process is stopped
        self._tasks: dict[asyncio.Task[Any], None] = {}  # that are not done
        self.is_alive = True
        self.is_stopped = False
        self.wall_ahead = 0.0  # of the time of day before the simulation's; it steps
        self.after_step: Action = lambda: None

    # Life

    def perform(self, act: Callable[..., object], *args: Any) -> None:
        """Let the process do something, and all that follows at once."""
        if not self.is_alive:
            return
        if self.is_stopped:
            self._put_off.append(partial(act, *args))
            return
        assert _get_running_loop() is None, "one process at a time"
        _set_running_loop(self)
        ready = self._ready
        try:
            act(*args)
            while ready and self.is_alive:
                handle = ready.popleft()
                if not handle._cancelled:
                    handle._run()
        finally:
            _set_running_loop(None)
        self.after_step()

    def resume(self) -> None:
        """What came meanwhile is done now, in order."""
        self.is_stopped = False
        put_off, self._put_off = self._put_off, []
        for act in put_off:
            self._simulation.call_later(0.0, partial(self.perform, act))

    def die(self) -> None:
        self.is_alive = False
        self._ready.clear()
        self._put_off.clear()
        for task in list(self._tasks):
            if not task.done():
                _close(task.get_coro())
        self._tasks.clear()

    # What asyncio calls

    def time(self) -> float:
        return self._simulation.now + self._age

    def read_wall(self) -> float:
        return self._simulation.now + self.wall_ahead

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        handle = _Handle(callback, args, self, context)
        if _get_running_loop() is self:
            self._ready.append(handle)
        else:
            self._simulation.call_later(0.0, handle.fire)
        return handle

    def call_at(  # type: ignore[override]
        self, when: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        handle = _Handle(callback, args, self, context)
        self._simulation.call_later(max(0.0, when - (self._simulation.now + self._age)), handle.fire)
        return handle

    def call_later(  # type: ignore[override]
        self, delay: float, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.TimerHandle:
        return self.call_at(self._simulation.now + self._age + delay, callback, *args, context=context)

    def create_future(self) -> "asyncio.Future[Any]":
        return asyncio.Future(loop=self)

    def create_task(self, work: Coroutine[Any, Any, T], **options: Any) -> "asyncio.Task[T]":  # type: ignore[override]
        task = asyncio.Task(work, loop=self, **options)
        task._log_destroy_pending = False  # type: ignore[attr-defined]  # a process that is killed ends no task
        self._tasks[task] = None
        task.add_done_callback(self._forget)
        return task

    def _forget(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.pop(task, None)

    def get_debug(self) -> bool:
        return False

    def is_running(self) -> bool:
        return self.is_alive

    def is_closed(self) -> bool:
        return not self.is_alive

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        if self.is_alive:
            self._on_bug(context.get("exception") or str(context))

    def call_soon_threadsafe(  # type: ignore[override]
        self, callback: Callable[..., object], *args: Any, context: Context | None = None
    ) -> asyncio.Handle:
        return self.call_soon(callback, *args, context=context)


def _close(work: Any) -> None:
    """Close a coroutine of a dead process now, and not when the memory is tidied. What it does then has no effect."""
    for _ in range(10):
        try:
            work.close()
        except RuntimeError:  # it waits while it ends
            continue
        return


def _read_monotonic() -> float:
    loop = _get_running_loop()
    return loop._simulation.now + loop._age if isinstance(loop, ProcessLoop) else time.monotonic()


def _read_wall() -> float:
    loop = _get_running_loop()
    return loop.read_wall() if isinstance(loop, ProcessLoop) else time.time()


def _draw(limit: int) -> int:
    loop = events._get_running_loop()
    return loop.random.randrange(limit) if isinstance(loop, ProcessLoop) else secrets.randbelow(limit)


def _draw_uniform(low: float, high: float) -> float:
    loop = events._get_running_loop()
    return (loop.random if isinstance(loop, ProcessLoop) else random).uniform(low, high)


def simulate_machine() -> None:
    """In a simulated process, the modules of the foreman have its clocks and chance. Elsewhere nothing changes."""
    _simulate_modules(len(sys.modules))


@cache  # again only if there are new modules
def _simulate_modules(_count: int) -> None:
    requests.secrets = SimpleNamespace(randbelow=_draw)  # type: ignore[assignment, attr-defined]
    foreman_link.random = SimpleNamespace(uniform=_draw_uniform)  # type: ignore[assignment, attr-defined]
    for name, module in list(sys.modules.items()):
        if name.startswith(("gandy.foreman", "gandy.worker")):
            if getattr(module, "read_monotonic", None) is time.monotonic:
                module.read_monotonic = _read_monotonic  # type: ignore[attr-defined]
            if getattr(module, "read_wall", None) is time.time:
                module.read_wall = _read_wall  # type: ignore[attr-defined]
