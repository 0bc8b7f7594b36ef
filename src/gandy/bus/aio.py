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
        self._unfinished = 0  # deliveries whose handlers have not ended
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
        self._call_on_loop(lambda _: self._changed.set(), None)

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
        """Iterate over processes and services that come and go, and changes of the clock.

        The first iterator also gets the news from before, up to the last 1,000.
        """
        queue: asyncio.Queue[News] = asyncio.Queue()
        self.on_news(queue.put_nowait)
        try:
            while True:
                yield await queue.get()
        finally:
            self._listeners.remove(queue.put_nowait)

    def _on_news(self, news: News) -> None:
        self._call_on_loop(self._notify_listeners, news)

    def _notify_listeners(self, news: News) -> None:
        super()._on_news(news)
        self._changed.set()

    def _call_on_loop(self, act: Callable[[Any], None], argument: Any) -> bool:
        """False if the loop has ended."""
        try:
            self._loop.call_soon_threadsafe(act, argument)
        except RuntimeError:  # the loop has ended
            log.debug("dropped %s: its loop has ended", argument)
            return False
        return True

    def _post(self, delivery: Delivery) -> None:
        """Runs in the engine's thread, which waits while handlers are too far behind, and reads nothing."""
        with self._room:
            self._room.wait_for(lambda: self._unfinished < MAX_UNFINISHED_DELIVERIES or self._is_leaving)
            self._unfinished += 1
        if not self._call_on_loop(self._run, delivery):
            self._make_room()

    def _make_room(self) -> None:
        with self._room:
            self._unfinished -= 1
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
