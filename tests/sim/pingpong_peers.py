"""Ping-pong workers in a simulated crew: processes with a frontend, some of which do not read while they work."""

from typing import Final

from tests.sim.actors import Actor
from tests.sim.doors import Line, SimulatedSocket
from tests.sim.laws import Law, Laws, require

from gandy.core.switchboard import Switchboard
from gandy.doors.base import WorkerRegistry
from gandy.doors.pingpong.door import PingPongDoor
from gandy.doors.pingpong.talk import PingPongWorker, Turn
from gandy.doors.pingpong.wire import Exit, PingPongJob
from gandy.testing.simulation import Simulation

COMMAND: Final = "job"
EXPIRY: Final = 3.0
DURATIONS: Final = (0.0, 0.1, 1.0, 4.0, 10.0)  # seconds of a job: some are longer than the expiry


def make_door(board: Switchboard, registry: WorkerRegistry) -> PingPongDoor:
    return PingPongDoor(board, registry, COMMAND, EXPIRY)


class PingPongProcess(Actor):
    """One without a thread for its jobs neither reads nor pings while it works."""

    def __init__(self, simulation: Simulation, socket: SimulatedSocket, laws: Laws, name: str) -> None:
        super().__init__(simulation, name)
        self._has_thread = self.happens(0.5)
        self._has_identity = self.happens(0.5)
        self._sees_cuts = self.happens(0.5)
        self._socket = socket
        self._laws = laws
        self._frontends = 0
        self._is_working = False
        self._unread: list[tuple[Line, list[bytes]]] = []
        self._core: PingPongWorker
        self.line: Line

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self._core = PingPongWorker(counts=self.happens(0.5))
        self._is_working = False
        self._unread = []
        self._connect()
        self._send(self._core.start(self.simulation.now))
        self._wait()

    def _connect(self) -> None:
        """To the door that is open now; without one, the frontend is dead."""
        self._frontends += 1
        routing_id = self.name if self._has_identity else f"{self.name}-{self._frontends}"
        self.line = self._socket.connect(routing_id.encode(), self)

    def _send(self, frames: list[bytes] | None) -> None:
        if frames is not None:
            self.line.send(frames)

    def restart(self) -> None:
        """It dies without a word, and its user starts it again."""
        if self.is_up:
            self.is_up = False
            self.line.cut()
            self.simulation.call_later(self.random.choice((0.1, 1.0)), self.start)

    @property
    def _is_deaf(self) -> bool:
        return self._is_working and not self._has_thread

    # Time

    def _wait(self) -> None:
        at = self._core.next_deadline()
        if at < float("inf"):
            self.call_later(max(0.0, at - self.simulation.now), lambda: self._wake(at))

    def _wake(self, at: float) -> None:
        if at == self._core.next_deadline() and not self._is_deaf:
            self._do(self._core.on_time(self.simulation.now))
            self._wait()

    def _do(self, turn: Turn) -> None:
        if turn.is_renewed:
            self._laws.seen["frontend renewed"] += 1
            self.line.cut()
            self._connect()
        for frames in turn.messages:
            self._send(frames)

    def on_line_cut(self, line: Line) -> None:
        if self.is_up and line is self.line and self._sees_cuts:
            self.call_later(0.1, lambda: self._notice(line))

    def _notice(self, line: Line) -> None:
        if line is self.line and not self._is_deaf:
            self._do(self._core.on_disconnect(self.simulation.now))
            self._wait()

    # Jobs

    def hear(self, line: Line, frames: list[bytes]) -> None:
        if not self.is_up or line is not self.line:
            return
        if self._is_deaf:
            self._unread.append((line, frames))
            return
        match self._core.on_frames(frames, self.simulation.now):
            case PingPongJob(data):
                self._begin(data)
            case Exit():
                self._laws.seen["ping-pong exit"] += 1
                self.restart()
                return
            case None:
                pass
        self._wait()

    def _begin(self, token: bytes) -> None:
        require(not self._is_working, Law.SLOTS, f"{self.name} has two jobs")
        self._laws.on_begun(self.name, token, COMMAND)
        self._is_working = True
        self.call_later(self.random.choice(DURATIONS), lambda: self._finish(token))

    def _finish(self, token: bytes) -> None:
        self._is_working = False
        self._send(self._core.result(token, self.simulation.now))
        unread, self._unread = self._unread, []
        for line, frames in unread:
            self.hear(line, frames)
        if self.is_up and not self._is_working and (job := self._core.next_job()) is not None:
            self._begin(job.data)
        self._wait()
