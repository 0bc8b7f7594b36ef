"""Browsers that get the same events: each is made once, as bytes. Who does not read misses some, and gets all anew."""

import asyncio
from collections.abc import Callable
from typing import Final

from gandy.clocks import read_monotonic
from gandy.dashboard.limits import MAX_EVENT_WRITES
from gandy.dashboard.stream import HEARTBEAT, Stream
from gandy.moments import LONG_AGO

LEAST_PAUSE: Final = 0.1  # seconds between two events
WHOLE_PAUSE: Final = 0.5  # seconds between two events with everything, which take longer to make
HEARTBEAT_SECONDS: Final = 15.0


class EventAudience:
    """`publish` what has changed, no sooner than `pause` seconds after the last time."""

    def __init__(self) -> None:
        self._current: dict[Stream, None] = {}  # have everything so far
        self._waiting: dict[Stream, None] = {}  # need everything
        self._whole_at = LONG_AGO
        self.wake = asyncio.Event()  # there is something to send

    def __len__(self) -> int:
        return len(self._current) + len(self._waiting)

    def count(self) -> tuple[int, int]:
        """Browsers that have everything so far, and those that need everything."""
        return len(self._current), len(self._waiting)

    @property
    def pause(self) -> float:
        """The more browsers look, the longer: the work for all of them together is bounded."""
        return max(LEAST_PAUSE, len(self) / MAX_EVENT_WRITES)

    def join(self, stream: Stream) -> None:
        self._waiting[stream] = None
        stream.on_room = self.wake.set
        self.wake.set()

    def leave(self, stream: Stream) -> None:
        self._current.pop(stream, None)
        self._waiting.pop(stream, None)

    def needs_all(self, stream: Stream) -> bool:
        """True if it has missed something."""
        return stream in self._waiting

    def publish(self, change: bytes | None, make_whole: Callable[[], bytes]) -> None:
        """`change`: None, if so much has changed that all need everything anew."""
        if change is None:
            self._waiting |= self._current
            self._current.clear()
        for stream in list(self._current):
            if stream.is_full:
                del self._current[stream]
                self._waiting[stream] = None
            elif change:
                stream.write(change)
        self._send_whole(make_whole)

    def _send_whole(self, make_whole: Callable[[], bytes]) -> None:
        ready = [stream for stream in self._waiting if stream.has_room]
        now = read_monotonic()
        if not ready:
            return
        if now < self._whole_at + WHOLE_PAUSE:
            asyncio.get_running_loop().call_later(WHOLE_PAUSE, self.wake.set)
            return
        self._whole_at = now
        whole = make_whole()
        for stream in ready:
            del self._waiting[stream]
            self._current[stream] = None
            stream.write(whole)

    def send_heartbeats(self) -> None:
        """To those that have had nothing for a while, so that a browser or a proxy does not give up."""
        now = read_monotonic()
        for stream in self._current:
            if now - stream.written_at >= HEARTBEAT_SECONDS:
                stream.write(HEARTBEAT)

    async def wait(self) -> None:
        """Until there may be something to send."""
        await asyncio.sleep(self.pause)
        try:
            async with asyncio.timeout(HEARTBEAT_SECONDS):
                await self.wake.wait()
        except TimeoutError:
            self.send_heartbeats()
        self.wake.clear()
