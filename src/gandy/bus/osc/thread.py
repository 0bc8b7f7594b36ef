"""The thread that serves all OSC sockets of an ensemble, and what both directions of an OSC bridge have in common.

The thread starts with the first socket that must be watched, and ends with the ensemble.
"""

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from selectors import EVENT_READ, DefaultSelector
from threading import Condition
from typing import Any, Final, TypeAlias

from gandy.bus.io.engine import Engine
from gandy.bus.limits import MAX_WAITING_DELIVERIES
from gandy.errors import ConfigError, LinkError
from gandy.poll_thread import PollThread

log = logging.getLogger("gandy.bus")

PAUSE: Final = 0.01  # seconds between two checks whether handlers have caught up

React: TypeAlias = Callable[[int], None]


class OscThread:
    """Watches sockets, and calls their reactions one after the other. Hold `lock` to use any of them."""

    def __init__(self, engine: Engine, insecure: bool) -> None:
        self.engine = engine
        self.insecure = insecure
        self.lock = Condition()  # notified when bytes were sent
        self._bridges: list[OscBridge] = []
        self._reactions: dict[socket.socket, React] = {}
        self._thread: PollThread | None = None
        self._is_closing = False

    def add(self, bridge: "OscBridge") -> None:
        """Raises: LinkError."""
        with self.lock:
            if self._is_closing or self.engine.is_closed:
                raise LinkError("this process has left the ensemble")
            self._bridges.append(bridge)

    def remove(self, bridge: "OscBridge") -> None:
        with self.lock:
            if bridge in self._bridges:
                self._bridges.remove(bridge)

    def close(self) -> None:
        """Close all bridges; each has a moment to send what is left."""
        with self.lock:
            self._is_closing = True
            bridges = list(self._bridges)
        for bridge in bridges:
            bridge.close()
        with self.lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            thread.stop()

    def watch(self, sock: socket.socket, events: int, react: React) -> None:
        """Call `react` when the socket can be read or written."""
        if self._thread is None:
            self._start()
        if sock in self._reactions:
            self._selector.modify(sock, events)
        else:
            self._selector.register(sock, events)
        self._reactions[sock] = react

    def forget(self, sock: socket.socket) -> None:
        """Close a socket, watched or not."""
        if self._reactions.pop(sock, None) is not None:
            self._selector.unregister(sock)
        sock.close()

    def _start(self) -> None:
        self._selector = DefaultSelector()
        self._thread = PollThread("gandy-osc", self._turn, self._selector.close)
        self._selector.register(self._thread, EVENT_READ)  # only `stop` wakes it
        self._thread.start()

    def _turn(self) -> None:
        ready = self._selector.select()
        self._wait_for_handlers()
        with self.lock:
            for key, events in ready:
                self._react(key.fileobj, events)

    def _react(self, sock: Any, events: int) -> None:
        react = self._reactions.get(sock)  # None: the thread's own, or an earlier reaction closed it
        if react is None:
            return
        try:
            react(events)
        except LinkError:
            pass  # the ensemble is closed, and will close this thread in a moment
        except Exception:  # the other sockets must go on
            log.exception("the OSC side of the bus has a bug and continues")

    def _wait_for_handlers(self) -> None:
        """Wait while handlers are behind: a program that sends too fast then fills the system's buffers, not ours."""
        while len(self.engine.member.deliveries) > MAX_WAITING_DELIVERIES and not self._is_closing:
            time.sleep(PAUSE)


class OscBridge:
    """Connects OSC with a service. `dropped`: how many messages were dropped, by reason."""

    def __init__(self, service: str, thread: OscThread) -> None:
        self.service = service
        self.dropped: Counter[str] = Counter()
        self._thread = thread

    def close(self) -> None:
        raise NotImplementedError

    def _drop(self, reason: str) -> None:
        if not self.dropped[reason]:
            log.warning(
                "an OSC message for %s is dropped: %s; further ones are counted without a warning", self.service, reason
            )
        self.dropped[reason] += 1


def find_host(host: str, insecure: bool) -> str:
    """The host's IP. Raises: ConfigError: unknown, or on another machine while the ensemble is not insecure."""
    try:
        ip = socket.gethostbyname(host) if host else "0.0.0.0"  # noqa: S104 - it is refused just below
    except OSError as error:
        raise ConfigError(f"unknown host {host}: {error.strerror or error}") from None
    if not insecure and not ip.startswith("127."):
        raise ConfigError(
            f"OSC has no keys, and {host or ip} is not this machine: only an ensemble with insecure=True may use it"
        )
    return ip
