"""A console's connection to its server, which counts and shows its messages."""

from gandy.doors.roundrobin.console.screen import STATS, Screen
from gandy.doors.roundrobin.console.traffic import Traffic
from gandy.doors.roundrobin.uplink_thread import OnEvents, UplinkThread
from gandy.doors.sockets.dealer import Keys


class ConsoleConnection(UplinkThread):
    """It connects as soon as it is made."""

    def __init__(self, url: str, on_events: OnEvents, keys: Keys | None, screen: Screen, role: str) -> None:
        """Raises: ConfigError."""
        super().__init__(url, on_events, keys)
        self._traffic = Traffic(screen, role)
        if screen.level >= STATS:
            self.on_in, self.on_out = self._traffic.on_in, self._traffic.on_out
        self.start()

    def disconnect(self) -> None:
        """Send what is left, end, and show the statistics."""
        self.close()
        self._traffic.on_close()
