"""The events about the whole crew: first everything, then what changes, made once for all browsers."""

import asyncio
from typing import Final

from gandy.clocks import read_monotonic, read_wall
from gandy.dashboard.audience import EventAudience
from gandy.dashboard.messages import encode_json
from gandy.dashboard.metrics import Metrics
from gandy.dashboard.rows import CrewObject, Surroundings, make_change, make_crew
from gandy.dashboard.stream import Stream, make_event
from gandy.moments import LONG_AGO
from gandy.viewer.health import list_present_trouble
from gandy.viewer.watcher import CrewWatcher

KEPT_SECONDS: Final = 0.5  # for which one description of the whole crew serves all who ask for it


class CrewFeed:
    """`run` sends events until it is cancelled. ApiCall `on_change` when the picture has changed."""

    def __init__(self, watcher: CrewWatcher) -> None:
        self._watcher = watcher
        self._metrics = Metrics()
        self._audience = EventAudience()
        self._number = 0
        self._kept = b""
        self._kept_at = LONG_AGO

    def on_change(self) -> None:
        self._audience.wake.set()

    async def run(self) -> None:
        while True:
            await self._audience.wait()
            self._send()

    def _send(self) -> None:
        """Changes are taken even if no browser looks: they must not pile up."""
        changes = self._watcher.picture.take_changes()
        self._metrics.note(self._watcher.picture, changes)
        if not len(self._audience):
            return
        about = self._describe_surroundings()
        self._number += 1
        change = None if changes.is_new else b""
        if not changes.is_new and self._audience.count()[0]:
            change = make_event("change", make_change(self._watcher.picture, changes, about), self._number)
        self._audience.publish(change, lambda: make_event("crew", self._make_crew(about), self._number))

    def _make_crew(self, about: Surroundings) -> CrewObject:
        return make_crew(self._watcher.picture, about)

    def _describe_surroundings(self) -> Surroundings:
        watcher = self._watcher
        return Surroundings(float(read_wall()), watcher.problem, watcher.foremen, watcher.is_complete)

    def count_trouble(self) -> int:
        about = self._describe_surroundings()
        return len(list_present_trouble(self._watcher.picture, about.problem, about.is_complete))

    def read(self) -> bytes:
        """The whole crew as JSON, at most half a second old."""
        now = read_monotonic()
        if now >= self._kept_at + KEPT_SECONDS:
            self._kept_at = now
            self._kept = encode_json(self._make_crew(self._describe_surroundings()))
        return self._kept

    def format_metrics(self, streams: int) -> bytes:
        """The crew as numbers, for Prometheus."""
        return self._metrics.format(self._watcher.picture, self._describe_surroundings(), streams)

    def count_browsers(self) -> tuple[int, int]:
        """Those that have everything so far, and those that need everything."""
        return self._audience.count()

    async def stream(self, stream: Stream) -> None:
        """Send events until the browser is gone."""
        self._audience.join(stream)
        try:
            await asyncio.Event().wait()
        finally:
            self._audience.leave(stream)
