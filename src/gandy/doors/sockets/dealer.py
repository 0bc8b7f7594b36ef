"""Opens, renews, watches and closes a DEALER socket, in a thread of its own. It does not know what messages mean.

Any thread may wake it; everything else happens in its thread.
"""

import logging
import time
from contextlib import suppress
from typing import Any, Final, Protocol

import zmq
from zmq.utils.monitor import recv_monitor_message

from gandy.clocks import read_monotonic
from gandy.errors import ConfigError
from gandy.moments import Monotonic
from gandy.poll_thread import PollThread

log = logging.getLogger("gandy.doors.sockets")

LONGEST_REST: Final = 60.0  # seconds, as poll cannot take an infinite number of them
LINGER: Final = 1.0  # seconds to send what is left, when it is closed
FAILURE_PAUSE: Final = 1.0  # seconds until a connection that failed is tried again


class Keys(Protocol):
    """Sets the keys of a socket."""

    def apply(self, socket: "zmq.Socket[Any]", /) -> None: ...


class DealerThread:
    """One connection. A subclass calls this `__init__`, which opens the socket, at the end of its own."""

    name = "gandy-dealer"
    watched = 0  # events of the socket's monitor that `_on_change` wants

    def __init__(self, url: str, keys: Keys | None) -> None:
        """Raises: ConfigError."""
        self.url = url
        self._keys = keys
        self._context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
        self._linger = LINGER
        self._thread = PollThread(self.name, self._take_turn, self._end)
        self._poller = zmq.Poller()
        self._poller.register(self._thread, zmq.POLLIN)
        try:
            self._socket, self._monitor = self._open()
        except zmq.ZMQError as error:
            self._context.term()
            self._thread.close()
            raise ConfigError(f"cannot connect to {url}: {error}") from None

    def start(self) -> None:
        self._thread.start()

    def close(self, linger: float = LINGER) -> None:
        """Send what is left, for at most this many seconds, and end."""
        self._linger = linger
        self._thread.stop(linger + 5.0)

    # For subclasses

    def _set_up(self, socket: "zmq.Socket[bytes]") -> None:
        """Called before the socket connects."""
        raise NotImplementedError

    def _on_open(self) -> None:
        """Called when there is a new socket."""

    def _next_deadline(self) -> Monotonic:
        """The time of the next turn, if nothing happens before."""
        raise NotImplementedError

    def _on_change(self) -> None:
        """Called after each of the watched events."""
        raise NotImplementedError

    def _turn(self) -> None:
        """Handle everything that is due."""
        raise NotImplementedError

    def _finish(self) -> None:
        """Send the last messages, before the socket is closed."""

    # The socket

    def _open(self) -> "tuple[zmq.Socket[bytes], zmq.Socket[bytes]]":
        """A socket, and the one that monitors it. Raises: ZMQError."""
        socket = self._context.socket(zmq.DEALER)
        # Before it connects: if we missed the first connection, we would take the second for the first.
        monitor = socket.get_monitor_socket(self.watched | zmq.EVENT_HANDSHAKE_FAILED_AUTH)
        try:
            socket.setsockopt(zmq.LINGER, 0)
            socket.setsockopt(zmq.IPV6, "[" in self.url)  # else `localhost` may be ::1, where few servers listen
            self._set_up(socket)
            if self._keys is not None:
                self._keys.apply(socket)
            socket.connect(self.url)
        except zmq.ZMQError:
            monitor.close(0)
            socket.close(0)
            raise
        self._poller.register(socket, zmq.POLLIN)
        self._poller.register(monitor, zmq.POLLIN)
        self._on_open()
        return socket, monitor

    def _renew(self) -> None:
        """Replace the socket. Raises: ZMQError; the old one stays then."""
        new = self._open()
        self._shut()
        self._socket, self._monitor = new

    def _shut(self, linger: float = 0.0) -> None:
        self._poller.unregister(self._socket)
        self._poller.unregister(self._monitor)
        self._socket.disable_monitor()
        self._monitor.close(0)
        self._socket.close(int(linger * 1000))

    # The thread

    def _take_turn(self) -> None:
        try:
            self._wait()
            self._turn()
        except zmq.ZMQError as error:
            log.warning("the connection to %s failed: %s", self.url, error)
            time.sleep(FAILURE_PAUSE)

    def _end(self) -> None:
        with suppress(zmq.ZMQError):
            self._finish()
        self._shut(self._linger)
        self._context.term()  # waits until everything is sent, or the time for that is over

    def _wait(self) -> None:
        rest = self._next_deadline() - read_monotonic()
        self._poller.poll(int(max(0.0, min(rest, LONGEST_REST)) * 1000) + 1)
        self._thread.clear()

    def _read_monitor(self) -> None:
        while self._monitor.poll(0):
            if recv_monitor_message(self._monitor)["event"] == zmq.EVENT_HANDSHAKE_FAILED_AUTH:
                log.warning("%s does not accept our keys", self.url)
            else:
                self._on_change()
