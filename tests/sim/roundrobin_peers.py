"""Workers and clients of the round-robin queue in a simulated crew, as the original ones behave."""

from collections import deque
from math import inf
from typing import Final

from tests.roundrobin import (
    COPY,
    EXEC,
    FAILURE,
    FEED,
    INCREMENT,
    ONCE,
    PING,
    PONG,
    REGISTER,
    RESPONSE,
    SUCCESS,
    TRACKEXEC,
    PlainMessage,
    read_message,
)
from tests.sim.actors import Actor
from tests.sim.doors import DOOR_PERIOD, Line, SimulatedSocket
from tests.sim.laws import Law, Laws, require

from gandy.core.switchboard import Switchboard
from gandy.doors.base import WorkerRegistry
from gandy.doors.roundrobin.codes import CommandCodes
from gandy.doors.roundrobin.door import RoundRobinDoor
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.worker_calls import Times
from gandy.testing.simulation import Simulation

NAMES: Final = {COPY: "copy", ONCE: "once", FEED: "feed"}
CODES: Final = ("0x20=copy,repeatable", "0x21=once", "0x22=feed,stream")
DURATIONS: Final = (0.0, 0.01, 0.3)  # seconds of a call
INSTALLING: Final = 0.2  # seconds from the response to REGISTER until a worker has its commands, at most
TIMES: Final = Times(expiry=3.0, ready_pause=0.4, call_limit=5.0)  # all far longer than anything takes here


class RoundRobinMemory:
    """Makes the door of each life of a foreman, which remembers the workers of the last one."""

    def __init__(self) -> None:
        self._slots: dict[bytes, int] = {}
        self._lives = 0

    def make_door(self, board: Switchboard, registry: WorkerRegistry) -> RoundRobinDoor:
        self._lives += 1
        door = RoundRobinDoor(board, registry, CommandCodes(CODES), TIMES, MessageIds(self._lives * 1_000_000))
        for routing_id, slots in self._slots.items():
            door.workers.lost.add(routing_id, slots, board.now)
        door.workers.on_change = lambda: setattr(self, "_slots", door.workers.list_slots())
        return door


def find_unended(door: RoundRobinDoor) -> str:
    """What is under way at the door, or left of what was."""
    clients, workers = door.clients, door.workers
    if clients._clients or clients._requests or len(clients.streams) or clients._caster.calls:
        return "clients of the round-robin door have requests"
    for worker in workers._workers.values():
        calls = worker.calls
        outstanding = calls.outstanding.list_begun() or calls.outstanding.released
        tables = (outstanding, calls.bodies, calls.flows, calls.streams, worker.peer.serves, worker.peer.calls)
        if any(tables) or worker.peer.slots.by_calls:
            return f"{worker.id!r} has calls"
    return ""


class RoundRobinWorker(Actor):
    """It answers and sends INCREMENT, in either order.

    It silently drops calls that come before its commands are installed, and by chance any other.
    """

    def __init__(self, simulation: Simulation, socket: SimulatedSocket, laws: Laws, name: str, drops: float) -> None:
        super().__init__(simulation, name)
        self.drops = drops
        self._socket = socket
        self._laws = laws
        self._is_hanging = False
        self._ready_at = inf
        self._streams: dict[bytes, deque[bytes]] = {}
        self._line: Line

    def start(self) -> None:
        """With a new routing id, as the original has after each start. It needs a server to begin."""
        self.life += 1
        self.is_up = True
        self._is_hanging = False
        self._ready_at = inf
        self._streams = {}
        self._begin()

    def _begin(self) -> None:
        self._line = self._socket.connect(f"{self.name}:{self.life}".encode(), self)
        if not self._line.is_up:
            self.call_later(DOOR_PERIOD, self._begin)
            return
        self._say(PlainMessage(PING, b"greeting"))
        self._say(PlainMessage(TRACKEXEC, b"0001", (REGISTER, b"%d" % self.random.choice((1, 2, 10)))))
        self.call_later(2.0, self._register_again)

    def _register_again(self) -> None:
        """The original never does, but its user would start it again: no response came."""
        if self._ready_at == inf and not self._is_hanging:
            self.restart()

    def restart(self) -> None:
        """It dies without a word, and its user starts it again."""
        self.is_up = False
        self._line.cut()
        life, pause = self.life, self.random.choice((0.1, 1.0))
        self.simulation.call_later(pause, lambda: self.start() if self.life == life else None)

    def hang(self) -> None:
        self._laws.seen["round-robin worker hangs"] += 1
        self._is_hanging = True
        self.call_later(5.0, self.restart)

    def lose_line(self) -> None:
        self._line.cut()

    def on_line_cut(self, line: Line) -> None:
        """ZeroMQ connects again by itself, with the same routing id; the worker does not notice."""
        if self.is_up:
            self.call_later(self.random.choice((0.1, 1.0)), lambda: self._reconnect(line))

    def _reconnect(self, line: Line) -> None:
        if self._line is not line:
            return
        self._line = self._socket.connect(line.routing_id, self)
        if not self._line.is_up:
            again = self._line
            self.call_later(DOOR_PERIOD, lambda: self._reconnect(again))

    def _say(self, note: PlainMessage) -> None:
        if not self._is_hanging:
            self._line.send(note.frames)

    def hear(self, line: Line, frames: list[bytes]) -> None:
        if self._is_hanging or not self.is_up:
            return
        note = read_message(frames)
        if note.command == PING:
            self._say(PlainMessage(PONG, note.id, (), note.path[::-1]))
        elif note.command == RESPONSE and self._ready_at == inf:
            self._ready_at = self.simulation.now + self.random.uniform(0, INSTALLING)
        elif note.command not in (EXEC, TRACKEXEC):
            pass
        elif note.args[0] in NAMES:
            self._on_call(note)
        elif note.command == TRACKEXEC:
            packets = self._streams.get(note.args[2], deque()) if note.args[0] == b"mqs_more" else deque([SUCCESS])
            self._say(
                PlainMessage(RESPONSE, note.id, (packets.popleft(),) if packets else (FAILURE, b"no"), note.path[::-1])
            )

    def _on_call(self, note: PlainMessage) -> None:
        if self.simulation.now < self._ready_at or self.happens(self.drops):
            self._laws.seen["round-robin call dropped"] += 1
            return
        self._laws.on_begun(self.name, note.args[2], NAMES[note.args[0]])
        self.call_later(self.random.choice(DURATIONS), lambda: self._finish(note))

    def _finish(self, note: PlainMessage) -> None:
        words = (
            [PlainMessage(RESPONSE, note.id, (self._serve(note),), note.path[::-1])]
            if note.command == TRACKEXEC
            else []
        )
        words.append(PlainMessage(EXEC, b"0002", (INCREMENT,)))
        if self.happens(0.5):
            words.reverse()
        for word in words:
            self._say(word)

    def _serve(self, note: PlainMessage) -> bytes:
        token = note.args[2]
        if note.args[0] != FEED:
            return token
        handle, data = b"%08d" % int(token), token + b":"
        if note.path:  # a client, which would have to ask for more by address: one packet
            return b"2R\x08" + handle + data
        self._streams[handle] = deque([b"0R\x08" + handle + data, b"0R\x08" + handle, b"2R\x08" + handle + data])
        return b"0R\x08" + handle


class RoundRobinClient(Actor):
    """Makes calls, and reads streams to their end. When its server is gone, its calls are lost."""

    def __init__(self, simulation: Simulation, socket: SimulatedSocket, laws: Laws, name: str) -> None:
        super().__init__(simulation, name)
        self.asked: dict[bytes, bytes] = {}  # ids with tokens
        self._socket = socket
        self._laws = laws
        self._streams: dict[bytes, bytes] = {}  # by token
        self._numbers = 0
        self._line: Line

    def start(self) -> None:
        self.life += 1
        self.is_up = True
        self.asked.clear()
        self._connect()

    def _connect(self) -> None:
        self._line = self._socket.connect(f"{self.name}:{self.life}".encode(), self)
        if not self._line.is_up:
            self.call_later(DOOR_PERIOD, self._connect)

    def vanish(self) -> None:
        self._line.cut()

    def on_line_cut(self, line: Line) -> None:
        self.is_up = False
        self._laws.seen["round-robin client gone"] += 1
        self.asked.clear()
        self.simulation.call_later(0.2, self.start)

    def ask(self, code: bytes) -> None:
        if not self.is_up or not self._line.is_up:
            return
        token = self._laws.make_token(NAMES[code], is_repeatable=code == COPY)
        if self.happens(0.2):
            self._line.send(PlainMessage(EXEC, b"0000", (code, b"60:me", token)).frames)
        else:
            self._track(token, code, b"60:me", token)

    def _track(self, token: bytes, *args: bytes) -> None:
        self._numbers += 1
        number = self._numbers.to_bytes(4, "little")
        self.asked[number] = token
        self._line.send(PlainMessage(TRACKEXEC, number, args).frames)

    def hear(self, line: Line, frames: list[bytes]) -> None:
        note = read_message(frames)
        if note.command == PING:
            line.send(PlainMessage(PONG, note.id, (), note.path[::-1]).frames)
            return
        is_answer = note.command == RESPONSE and note.id in self.asked
        require(is_answer, Law.ANSWERED, f"{self.name} gets a second response to {note.id!r}")
        token = self.asked.pop(note.id)
        if note.args[0] == FAILURE:
            self._laws.seen["round-robin failure"] += 1
        elif self._laws.calls[token].command == "feed":
            self._on_packet(token, note.args[0])
        else:
            require(note.args == (token,), Law.ANSWERED, f"{self.name} got {note.args} for {token!r}")
            self._laws.seen["round-robin value"] += 1

    def _on_packet(self, token: bytes, packet: bytes) -> None:
        state, handle, data = packet[:1], packet[3:11], packet[11:]
        self._streams[token] = self._streams.get(token, b"") + data
        if state == b"0":
            self._track(token, b"mqs_more", b"60:me", handle, b"0")
        elif state == b"1":
            self._laws.seen["round-robin stream aborted"] += 1
        else:
            words = set(self._streams[token].split(b":")) - {b""}
            require(words <= {token}, Law.ANSWERED, f"{self.name} got a stream of {words} for {token!r}")
            self._laws.seen["round-robin stream"] += 1
