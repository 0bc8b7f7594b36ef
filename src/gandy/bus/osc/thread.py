"""The thread that serves all OSC sockets of an ensemble, and what a door to OSC programs has in common.

It starts with the first socket that must be waited for, and ends with the ensemble.
"""

import logging
import socket
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from selectors import EVENT_READ, DefaultSelector
from threading import Condition, Thread
from typing import Any, Final

from gandy.bus.io.engine import Engine
from gandy.errors import ConfigError, LinkError

log = logging.getLogger("gandy.bus")

MAX_WAITING: Final = 10_000  # deliveries; while our handlers are so far behind, nothing more is read
PAUSE: Final = 0.01  # seconds between two looks at handlers that are behind

React = Callable[[int], None]


class OscThread:
    """Waits for sockets, and reacts to them one after the other. Whoever touches any of them holds `lock`."""

    def __init__(self, engine: Engine, insecure: bool) -> None:
        self.engine = engine
        self.insecure = insecure
        self.lock = Condition()  # is notified when something went out
        self._doors: list[Door] = []
        self._reactions: dict[socket.socket, React] = {}
        self._thread: Thread | None = None
        self._is_closing = False

    def add(self, door: "Door") -> None:
        """Raises: LinkError."""
        with self.lock:
            if self._is_closing or self.engine.is_closed:
                raise LinkError("this process has left the ensemble")
            self._doors.append(door)

    def remove(self, door: "Door") -> None:
        with self.lock:
            if door in self._doors:
                self._doors.remove(door)

    def close(self) -> None:
        """What waits to go out has a moment to do so."""
        with self.lock:
            self._is_closing = True
            doors = list(self._doors)
        for door in doors:
            door.close()
        with self.lock:
            thread, self._thread = self._thread, None
        if thread is not None:
            self._wake()
            thread.join()
            self._selector.close()
            self._reading.close()
            self._writing.close()

    def watch(self, sock: socket.socket, events: int, react: React) -> None:
        """Have it called when something can be read or written."""
        if self._thread is None:
            self._start()
        if sock in self._reactions:
            self._selector.modify(sock, events)
        else:
            self._selector.register(sock, events)
        self._reactions[sock] = react

    def forget(self, sock: socket.socket) -> None:
        """And close it."""
        if self._reactions.pop(sock, None) is not None:
            self._selector.unregister(sock)
        sock.close()

    def _start(self) -> None:
        self._selector = DefaultSelector()
        self._reading, self._writing = socket.socketpair()
        self._reading.setblocking(False)
        self._selector.register(self._reading, EVENT_READ)
        self._thread = Thread(target=self._run, name="gandy-osc", daemon=True)
        self._thread.start()

    def _wake(self) -> None:
        with suppress(OSError):
            self._writing.send(b"!")

    def _run(self) -> None:
        while not self._is_over():
            ready = self._selector.select()
            self._wait_for_handlers()
            with self.lock:
                for key, events in ready:
                    self._react(key.fileobj, events)

    def _react(self, sock: Any, events: int) -> None:
        react = self._reactions.get(sock)  # None: ours, or an earlier one closed it
        if react is None:
            return
        try:
            react(events)
        except LinkError:
            pass  # the ensemble is closed, and so is this in a moment
        except Exception:  # one message must not be the end of all
            log.exception("the OSC side of the bus has a bug, and goes on")

    def _is_over(self) -> bool:
        return self._is_closing and not self._doors

    def _wait_for_handlers(self) -> None:
        """So that whoever sends faster than they work fills buffers of the system, and not our memory."""
        while len(self.engine.member.deliveries) > MAX_WAITING and not self._is_closing:
            time.sleep(PAUSE)


class Door:
    """Between OSC and a service. `dropped`: how often something was, by the reason."""

    def __init__(self, service: str, thread: OscThread) -> None:
        self.service = service
        self.dropped: Counter[str] = Counter()
        self._thread = thread

    def close(self) -> None:
        raise NotImplementedError

    def _drop(self, reason: str) -> None:
        if not self.dropped[reason]:
            log.warning("an OSC message for %s is dropped: %s; others like it are only counted", self.service, reason)
        self.dropped[reason] += 1


def find_host(host: str, insecure: bool) -> str:
    """Its IP. Raises: ConfigError, also where it is on the network and nobody said that this is wanted."""
    try:
        ip = socket.gethostbyname(host) if host else "0.0.0.0"  # noqa: S104 - it is refused just below
    except OSError as error:
        raise ConfigError(f"{host} is unknown: {error.strerror or error}") from None
    if not insecure and not ip.startswith("127."):
        raise ConfigError(
            f"OSC has no keys, and {host or ip} is not this machine: with insecure=True for the ensemble, it can be"
        )
    return ip
