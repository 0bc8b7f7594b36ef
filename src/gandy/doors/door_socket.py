"""Connects a door with its socket, and with the foreman's worker table."""

import asyncio
import logging
from collections import Counter
from typing import Final

from gandy.clocks import read_monotonic
from gandy.config import Address
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.doors.base import Door
from gandy.doors.sockets.curve import ServerKeys
from gandy.doors.sockets.router import Router
from gandy.foreman.call_timers import CallTimers
from gandy.foreman.server import Server
from gandy.moments import LONG_AGO, Monotonic

log = logging.getLogger("gandy.foreman")

WARNING_PERIOD: Final = 10.0  # seconds between two warnings about dropped messages


def open_router(server: Server, name: str, address: Address, curve: str | None) -> Router:
    """The socket of a door, with keys from a folder if there is one. Raises: ConfigError."""
    router = Router(address, curve=None if curve is None else ServerKeys.open(curve))
    router.on_refused = lambda place: server.peer_log.on_stranger(place, f"no key for the {name} door")
    return router


class ForemanRegistry:
    """The foreman's worker table. Implements `WorkerRegistry`."""

    def __init__(self, server: Server) -> None:
        self._server = server

    def add(self, info: WorkerInfo) -> KnownWorker:
        reactor = self._server.foreman.reactor
        self._server.committer.decide(reactor.on_hello(info, (), self._server.clock.now()))
        worker = reactor.workers.find(info.id)
        assert worker is not None
        log.info("worker %s is here", info.id)
        return worker

    def remove(self, worker: str) -> None:
        reactor = self._server.foreman.reactor
        self._server.committer.decide(reactor.on_gone(worker, self._server.clock.now()))
        log.info("worker %s is gone", worker)

    def on_heard(self, worker: KnownWorker) -> None:
        worker.last_heard = read_monotonic()


class DoorSocket:
    """Implements `foreman.call_timers.ClosableDoor`."""

    def __init__(self, name: str, door: Door, router: Router, timers: CallTimers) -> None:
        self._name = name
        self._door = door
        self._router = router
        self._call_timers = timers
        self._loop = asyncio.get_running_loop()
        self._flush_is_due = False
        self._warned: Counter[str] = Counter()  # dropped messages that the log has reported
        self._warned_at = LONG_AGO
        self._refused = 0
        router.on_message = self._on_message
        router.on_disconnect = self._on_disconnect
        router.on_connect = self._on_connect

    def _on_message(self, frames: list[bytes]) -> None:
        self._door.on_message(frames, self._call_timers.begin())
        self._flush_soon()

    def _on_disconnect(self, routing_id: bytes) -> None:
        self._door.on_disconnect(routing_id, self._call_timers.begin())
        self._flush_soon()

    def _on_connect(self) -> None:
        self._door.on_connect(self._call_timers.begin())
        self._flush_soon()

    def _flush_soon(self) -> None:
        """Flush once, after all messages of this turn of the loop."""
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        self._flush_is_due = False
        self._call_timers.flush()

    def send(self, now: Monotonic) -> bool:
        outbox = self._door.outbox
        if not outbox:
            return False
        while outbox:
            outgoing = outbox.popleft()
            if not self._router.send(outgoing.frames):
                self._door.on_undelivered(outgoing, now)
        return True

    def on_time(self, now: Monotonic) -> None:
        self._door.on_time(now)
        if self._router.refused != self._refused:
            log.warning(
                "the %s door refused %d handshakes without a valid key",
                self._name,
                self._router.refused - self._refused,
            )
            self._refused = self._router.refused
        if now - self._warned_at >= WARNING_PERIOD and self._door.dropped != self._warned:
            new = self._door.dropped - self._warned
            self._warned, self._warned_at = Counter(self._door.dropped), now
            text = ", ".join(f"{count} times {reason}" for reason, count in sorted(new.items()))
            log.warning("the %s door dropped messages: %s", self._name, text)

    def dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None:
        self._door.on_dismiss(worker, immediate, now)

    def close(self) -> None:
        self._door.close()
        for outgoing in self._door.outbox:
            self._router.send(outgoing.frames)
        self._router.close()
