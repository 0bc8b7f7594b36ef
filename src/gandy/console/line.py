"""A connection of a console to its server, whose messages are counted and can be watched."""

import time
from collections import deque
from collections.abc import Sequence

from gandy.console.screen import STATS, Screen
from gandy.console.traffic import Traffic
from gandy.gateway.uplink import NUMBERS, Keys, OnEvents, UplinkThread
from gandy.talk.roundrobin import Uplink
from gandy.wire.roundrobin import Message, encode


class Line(UplinkThread):
    """It is at work as soon as it is made."""

    def __init__(self, url: str, on_events: OnEvents, keys: Keys | None, screen: Screen, role: str) -> None:
        """Raises: ConfigError."""
        super().__init__(url, on_events, keys)
        self._traffic = Traffic(screen, role)
        if screen.level >= STATS:
            now = time.monotonic()
            self._uplink = WatchedUplink(now, self._traffic)
            self._uplink.on_socket(now)
        self.start()

    def hang_up(self) -> None:
        """Send what is left, end, and show what there was."""
        self.close()
        self._traffic.on_close()


class WatchedUplink(Uplink):
    """Tells of each message that comes, and of each that was sent."""

    def __init__(self, now: float, traffic: Traffic) -> None:
        super().__init__(now, NUMBERS)
        self.outbox = WatchedOutbox(traffic)
        self._traffic = traffic

    def on_frames(self, frames: Sequence[bytes], now: float) -> None:
        self._traffic.on_in(frames)
        super().on_frames(frames, now)


class WatchedOutbox(deque[Message]):
    """A message is taken from the left when the socket has it, and never else."""

    def __init__(self, traffic: Traffic) -> None:
        super().__init__()
        self._traffic = traffic

    def popleft(self) -> Message:
        message = super().popleft()
        self._traffic.on_out(encode(message))
        return message
