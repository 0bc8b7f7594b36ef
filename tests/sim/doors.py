"""The doors of a simulated foreman, with their sockets: peers have routing ids, and connect again by themselves."""

from collections.abc import Callable
from random import Random
from typing import Final, Protocol

from tests.sim.foreman import ForemanProgram
from tests.sim.laws import Laws

from gandy.core.switchboard import Switchboard
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.doors.base import Door, WorkerRegistry
from gandy.doors.pingpong.door import PingPongDoor
from gandy.testing.simulation import Simulation

DOOR_PERIOD: Final = 0.5  # seconds between two tries of a peer to connect


class DoorPeer(Protocol):
    """The peer with a routing id."""

    def hear(self, line: "Line", frames: list[bytes]) -> None: ...

    def on_line_cut(self, line: "Line") -> None: ...


class Line:
    """A connection of a ZeroMQ peer: messages come late and in order, and once it is cut nothing comes through."""

    def __init__(self, socket: "SimulatedSocket", routing_id: bytes, peer: DoorPeer, number: int) -> None:
        self.routing_id = routing_id
        self._socket = socket
        self._peer = peer
        self._simulation = socket.simulation
        self._random = Random(f"{socket.simulation.seed} {socket.name} line{number}")
        self._arrivals = [0.0, 0.0]
        self.is_up = True

    def send(self, frames: list[bytes]) -> None:
        self._send(lambda: self._socket.on_message(self, frames), 0)

    def deliver(self, frames: list[bytes]) -> None:
        self._send(lambda: self._peer.hear(self, frames), 1)

    def _send(self, act: Callable[[], None], way: int) -> None:
        now = self._simulation.now
        delay = self._random.choice((0.0001, 0.001, 0.1)) * self._random.random()
        arrival = self._arrivals[way] = max(self._arrivals[way] + 1e-9, now + delay)
        self._simulation.call_later(arrival - now, lambda: act() if self.is_up else None)

    def cut(self) -> None:
        """The socket notices a moment later."""
        if self.is_up:
            self.is_up = False
            self._simulation.call_later(self._random.uniform(0.0, 0.2), lambda: self._socket.on_disconnect(self))
            self._peer.on_line_cut(self)


class SimulatedRegistry:
    """The foreman's worker table, as a real door sees it. Implements `WorkerRegistry`."""

    def __init__(self, program: ForemanProgram) -> None:
        self._program = program

    def add(self, info: WorkerInfo) -> KnownWorker:
        reactor = self._program.foreman.reactor
        self._program.decide(reactor.on_hello(info, (), self._program.now))
        worker = reactor.workers.find(info.id)
        assert worker is not None
        return worker

    def remove(self, worker: str) -> None:
        self._program.decide(self._program.foreman.reactor.on_gone(worker, self._program.now))

    def on_heard(self, worker: KnownWorker) -> None:
        worker.last_heard = self._program.now


MakeDoor = Callable[[Switchboard, WorkerRegistry], Door]


class SimulatedSocket:
    """A door with its socket. Implements `core.foreman.AttachedDoor`."""

    def __init__(self, program: ForemanProgram, laws: Laws, name: str, make_door: MakeDoor) -> None:
        self.name = name
        self.laws = laws
        self.simulation: Simulation = program.simulation
        self.program = program
        self.door: Door
        self.lines: dict[bytes, Line] = {}
        self._make_door = make_door
        self._count = 0
        program.on_start.append(self._open)
        program.on_crash.append(self._close)

    def _open(self) -> None:
        self.door = self._make_door(self.program.foreman.switchboard, SimulatedRegistry(self.program))
        self.program.foreman.switchboard.output.doors.append(self)

    def _close(self) -> None:
        for line in list(self.lines.values()):
            line.cut()
        self.lines.clear()

    def check(self) -> None:
        """Check the tables of a door that has a check."""
        if self.is_up and isinstance(self.door, PingPongDoor):
            self.door.workers.check()

    @property
    def is_up(self) -> bool:
        return self.program.is_up

    # The socket

    def connect(self, routing_id: bytes, peer: DoorPeer) -> Line:
        """A connection; one that is dead from the beginning, while no foreman listens."""
        self._count += 1
        line = Line(self, routing_id, peer, self._count)
        line.is_up = self.is_up
        if line.is_up:
            self.lines[routing_id] = line
            self.program.on_door(self.door.on_connect)
        return line

    def on_message(self, line: Line, frames: list[bytes]) -> None:
        self.program.on_door(lambda now: self.door.on_message([line.routing_id, *frames], now))

    def on_disconnect(self, line: Line) -> None:
        if self.lines.get(line.routing_id) is line:
            del self.lines[line.routing_id]
        if self.is_up:
            self.program.on_door(lambda now: self.door.on_disconnect(line.routing_id, now))

    # Messages of the foreman

    def send(self, now: float) -> bool:
        outbox = self.door.outbox
        if not outbox:
            return False
        while outbox:
            parcel = outbox.popleft()
            line = self.lines.get(parcel.frames[0])
            if line is None or not line.is_up:
                self.door.on_undelivered(parcel, now)
            else:
                line.deliver(parcel.frames[1:])
        return True

    def on_time(self, now: float) -> None:
        self.door.on_time(now)

    def dismiss(self, worker: str, immediate: bool, now: float) -> None:
        self.door.on_dismiss(worker, immediate, now)
