"""The lane for calls: frames from links and doors to the switchboard and back, one write for each link in a step.

Decides nothing and touches no disk. It owns the timers of the switchboard, whose time is the loop's: the same clock as
`ForemanClock.now`.
"""

import asyncio
from functools import partial
from typing import Final, Protocol

from gandy.core.calls import Peer
from gandy.core.roles import CrewRole, guard_calls, may_call
from gandy.core.switchboard import PATIENCE, Switchboard
from gandy.core.workers import Worker
from gandy.net.links import Link
from gandy.talk.exchange import Exchange

LOOK_PERIOD: Final = 1.0  # seconds between two looks at calls that wait and commands that are gone


class Gate(Protocol):
    """A door with its socket."""

    def send(self, now: float) -> bool:
        """What the door wants sent. Whether there was something."""
        ...

    def on_time(self, now: float) -> None: ...

    def dismiss(self, worker: str, immediate: bool, now: float) -> None: ...

    def close(self) -> None: ...


class Lane:
    """One for each foreman."""

    def __init__(self, links: dict[str, Link]) -> None:
        self._links = links
        self._loop = asyncio.get_running_loop()
        self.switchboard = Switchboard(self._loop.time())
        self._peers: dict[str, Peer] = {}  # by link
        self._names: dict[Peer, str] = {}
        self._exchanges: dict[Peer, Exchange] = {}
        self._gates: list[Gate] = []
        self._sharing: asyncio.TimerHandle | None = None
        self._is_closed = False
        self._looking = self._loop.call_later(LOOK_PERIOD, self._look)

    def close(self) -> None:
        self._is_closed = True
        self._looking.cancel()
        if self._sharing is not None:
            self._sharing.cancel()
        for gate in self._gates:
            gate.close()

    def add_gate(self, gate: Gate) -> None:
        self._gates.append(gate)

    def dismiss(self, worker: str, immediate: bool) -> None:
        """A worker that has no link here, but may have come in by another door."""
        self.begin()
        for gate in self._gates:
            gate.dismiss(worker, immediate, self.switchboard.now)
        self.flush()

    def add_link(self, link: str, exchange: Exchange, role: CrewRole = CrewRole.OWNER) -> None:
        """Frames of calls that come over it go to the switchboard, after `begin` and before `end` of a step."""
        peer = self._peers[link] = self.switchboard.add_peer()
        self._names[peer] = link
        self._exchanges[peer] = exchange
        exchange.on_call = guard_calls(role, partial(self.switchboard.on_frame, peer))
        if may_call(role):
            exchange.take_plain_calls = partial(self.switchboard.pass_calls, peer)

    def take(self, link: str, data: bytes) -> int:
        """A whole step for plain calls that data begins with. Gives where the rest begins, which takes the long way."""
        peer = self._peers.get(link)
        if peer is None:
            return 0
        worker = peer.worker
        now = self._loop.time()
        if worker is not None:
            worker.last_heard = now
        self.switchboard.now = now
        at = self._exchanges[peer].take_calls(data)
        if self.switchboard.touched:
            self.flush()
        return at

    def begin(self) -> float:
        now = self.switchboard.now = self._loop.time()
        return now

    def end(self) -> None:
        if self.switchboard.touched or (self._sharing is None and self.switchboard.needs_ticks):
            self.flush()

    def introduce(self, link: str, worker: Worker | None) -> None:
        """At the other end of a link is a worker, once it has said HELLO."""
        peer = self._peers.get(link)
        if peer is None or worker is None or peer.id:
            return
        self._exchanges[peer].take_plain_calls = partial(self.switchboard.pass_results, peer)
        before = self.switchboard.on_worker(peer, worker)
        if before is not None:  # a link that broke, and we have not noticed
            self._links[self._names[before]].abort()

    def on_cut(self, link: str) -> None:
        peer = self._peers.pop(link, None)
        if peer is not None:
            del self._names[peer], self._exchanges[peer]
            self.switchboard.on_cut(peer, self._loop.time())
            self.flush()

    def on_room(self) -> None:
        """Jobs may have left slots."""
        now, is_wanted = self._loop.time(), self.switchboard.queued > 0
        for peer in self._names:
            if is_wanted or peer.missing:
                self.switchboard.on_room(peer.id, now)
        self.flush()

    def flush(self) -> None:
        """Say all that there is to say. What a door says may find nobody, and then there is more to be said."""
        self._write()
        while self._gates and any(gate.send(self.switchboard.now) for gate in self._gates):
            self._write()
        if self._sharing is None and self.switchboard.needs_ticks and not self._is_closed:
            self._sharing = self._loop.call_later(PATIENCE, self._share)

    def _write(self) -> None:
        touched = self.switchboard.touched
        while touched:
            peer = touched.pop()
            data = b"".join(peer.out)
            peer.out.clear()
            if peer.on_out is None:
                self._links[self._names[peer]].write(data)
            else:
                peer.on_out(peer, data, self.switchboard.now)

    def _share(self) -> None:
        self._sharing = None
        self.switchboard.share(self._loop.time())
        self.flush()

    def _look(self) -> None:
        now = self.begin()
        self.switchboard.on_time(now)
        for gate in self._gates:
            gate.on_time(now)
        self.flush()
        self._looking = self._loop.call_later(LOOK_PERIOD, self._look)
