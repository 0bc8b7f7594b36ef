"""`gandy.AsyncEnsemble`: a process on the bus, for asyncio. Handlers are called on its loop, and may be coroutines."""

import asyncio
import inspect
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from threading import Condition
from types import TracebackType
from typing import Any, Self

from gandy.bus.core.effects import News
from gandy.bus.core.member import Delivery
from gandy.bus.core.processes import Status
from gandy.bus.ensemble import SLICE, SPIN, Bus
from gandy.bus.limits import MAX_UNFINISHED_DELIVERIES

log = logging.getLogger("gandy.bus")


class AsyncEnsemble(Bus):
    """A process on the bus. Make it on a running loop; `async with` it, or `close` it."""

    def _prepare(self) -> Callable[[Delivery], None]:
        self._loop = asyncio.get_running_loop()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._changed = asyncio.Event()
        self._room = Condition()
        self._waiting = 0  # deliveries whose handlers have not ended
        self._is_leaving = False
        return self._post

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def close(self) -> None:
        """Leave the ensemble, after announcing it to the other processes. Tasks that wait get a LinkError."""
        with self._room:
            self._is_leaving = True
            self._room.notify()
        super().close()
        self._call(lambda _: self._changed.set(), None)

    async def wait_until(self, at: float) -> None:
        """Sleep until the shared time. Raises: NoClock."""
        while (left := at - self.now()) > SPIN:
            await asyncio.sleep(min(left - SPIN, SLICE))
        while self.now() < at:
            await asyncio.sleep(0)

    async def wait_for(self, service: str, timeout: float | None = None) -> bool:
        """Wait until a process offers the service. False after the timeout."""
        return await self._wait(lambda: self.status(service) is not Status.UNKNOWN, timeout)

    async def wait_for_clock(self, timeout: float | None = None) -> bool:
        """Wait until the shared time is known. False after the timeout."""
        return await self._wait(lambda: self.is_synced, timeout)

    async def _wait(self, is_so: Callable[[], bool], timeout: float | None) -> bool:
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout):
                while not is_so():
                    self._changed.clear()
                    await self._changed.wait()
        return is_so()

    async def news(self) -> AsyncIterator[News]:
        """Processes and services that come and go, and the clock; for the first caller, from the beginning."""
        queue: asyncio.Queue[News] = asyncio.Queue()
        self.on_news(queue.put_nowait)
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.remove(queue.put_nowait)

    def _on_news(self, news: News) -> None:
        self._call(self._spread, news)

    def _spread(self, news: News) -> None:
        super()._on_news(news)
        self._changed.set()

    def _call(self, act: Callable[[Any], None], what: Any) -> bool:
        """Call it on the loop. False if the loop has ended."""
        try:
            self._loop.call_soon_threadsafe(act, what)
        except RuntimeError:  # the loop has ended
            log.debug("dropped %s: its loop has ended", what)
            return False
        return True

    def _post(self, delivery: Delivery) -> None:
        """In the engine's thread, which waits while handlers are too far behind: so nothing more is read."""
        with self._room:
            self._room.wait_for(lambda: self._waiting < MAX_UNFINISHED_DELIVERIES or self._is_leaving)
            self._waiting += 1
        if not self._call(self._run, delivery):
            self._make_room()

    def _make_room(self) -> None:
        with self._room:
            self._waiting -= 1
            self._room.notify()

    def _run(self, delivery: Delivery) -> None:
        try:
            result = delivery.run()
        except Exception:  # the other handlers must go on
            log.exception("a handler failed for %s", delivery.address)
            result = None
        if inspect.isawaitable(result):
            task = asyncio.ensure_future(result)
            self._tasks.add(task)
            task.add_done_callback(self._on_done)
        else:
            self._make_room()

    def _on_done(self, task: "asyncio.Task[Any]") -> None:
        self._tasks.discard(task)
        self._make_room()
        if not task.cancelled() and (error := task.exception()) is not None:
            log.error("a handler failed", exc_info=error)
