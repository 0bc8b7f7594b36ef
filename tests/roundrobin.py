"""A round-robin door with a real switchboard behind it, and with all kinds of peers, driven by the test.

Messages are made and read here without gandy's own codec, as bytes that the original would send.
"""

from collections import deque
from typing import Any, NamedTuple

import msgspec
from tests.crews import Frame, Seat, Table

from gandy.core.switchboard import Switchboard
from gandy.core.workers import KnownWorker, WorkerInfo
from gandy.doors.base import Outgoing
from gandy.doors.roundrobin.codes import CommandCodes
from gandy.doors.roundrobin.door import RoundRobinDoor
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.worker_calls import Times
from gandy.limits import MAX_PIECE_BYTES
from gandy.wire import calls
from gandy.wire.calls import CALL, CAST, FAILED, FRAME_COST, LAST, MORE, REFUSED, STREAM, WHOLE, WINDOW_BYTES, Offer

PING, PONG, EXEC, TRACKEXEC, TRACKADDRESS, RESPONSE = (bytes([byte]) for byte in range(1, 7))
INCREMENT, REGISTER, DEREGISTER, RR_STREAM = (bytes([byte]) for byte in range(7, 11))
FAILURE = b"\x28\x00"
SUCCESS = b"\x14\x00"

COPY, ONCE, FEED = b"\x20", b"\x21", b"\x22"  # codes of the harness, in addition to the built-in ones
CODES = ("0x20=copy,repeatable", "0x21=once", "0x22=feed,stream")
NAMES = ("ping", "rr_stream", "copy", "once", "feed")

pack = msgspec.msgpack.encode
unpack = msgspec.msgpack.decode


class PlainMessage(NamedTuple):
    """A message as a peer writes or reads it. `to`: hops to go; `path`: hops behind it."""

    command: bytes
    id: bytes
    args: tuple[bytes, ...] = ()
    to: tuple[bytes, ...] = ()
    path: tuple[bytes, ...] = ()

    @property
    def frames(self) -> list[bytes]:
        return [*self.to, b"", b"LMQv100", self.command, self.id, *self.args, b"", *self.path]


def read_message(frames: list[bytes]) -> PlainMessage:
    first = frames.index(b"")
    last = frames.index(b"", first + 1)
    assert frames[first + 1] == b"LMQv100"
    message = PlainMessage(
        frames[first + 2], frames[first + 3], tuple(frames[first + 4 : last]), tuple(frames[:first]),
        tuple(frames[last + 1 :]),
    )  # fmt: skip
    assert message.frames == frames
    assert b"" not in message.path, "an empty frame among the arguments ends them"
    return message


HANDLE = b"HANDLE78"  # of a stream


def packet(state: bytes, data: bytes = b"", pack: bytes = b"R", handle: bytes = HANDLE) -> bytes:
    """A packet of a stream."""
    return state + pack + bytes([len(handle)]) + handle + data


PROMPT = Times(ready_pause=0.0)  # a worker that has registered can be given calls


class DoorHarness:
    """The door with its surroundings, long after the start. `settle` does what the foreman does after each step."""

    def __init__(self, *codes: str, now: float = 100.0, times: Times = PROMPT, first_id: int = 0) -> None:
        self.now = now
        self.board = Switchboard(0.0)
        self.board.now = now
        self.registry = Table()
        self.door = RoundRobinDoor(self.board, self.registry, CommandCodes(codes or CODES), times, MessageIds(first_id))
        self.undeliverable: set[bytes] = set()  # no peer is connected with such a routing id
        self.inboxes: dict[bytes, deque[PlainMessage]] = {}
        self.is_patient = False  # several messages come before anything goes out
        self.log: list[tuple[bytes, PlainMessage]] = []  # all that was delivered

    def client(self, routing_id: bytes = b"c") -> "Client":
        return Client(self, routing_id)

    def worker(self, routing_id: bytes = b"w", slots: int | None = 1) -> "RoundRobinWorker":
        """Registered, unless it has no number of slots."""
        worker = RoundRobinWorker(self, routing_id)
        if slots is not None:
            worker.register(slots)
        return worker

    def native_client(self) -> "NativeClient":
        return NativeClient(self)

    def native_worker(self, name: str = "n", slots: int = 1, offers: tuple[str, ...] = NAMES) -> "NativeWorker":
        return NativeWorker(self, name, slots, offers)

    # The program around

    def say(self, routing_id: bytes, frames: list[bytes]) -> None:
        self.door.on_message([routing_id, *frames], self.now)
        self.settle()

    def settle(self) -> None:
        if not self.is_patient:
            while self._pass_on() or self._send():
                pass
        self.board.dispatcher.check()

    def together(self) -> "DoorHarness":
        """In a `with` block: nothing is sent until all events inside have been handled."""
        return self

    def __enter__(self) -> None:
        self.is_patient = True

    def __exit__(self, *_: object) -> None:
        self.is_patient = False
        self.settle()

    def _pass_on(self) -> bool:
        peers = sorted((peer for peer in self.board.touched if peer.on_out is not None), key=lambda peer: peer.number)
        for peer in peers:
            if peer not in self.board.touched:  # it was cut meanwhile
                continue
            self.board.touched.discard(peer)
            data = b"".join(peer.out)
            peer.out.clear()
            assert peer.on_out is not None
            peer.on_out(peer, data, self.now)
        return bool(peers)

    def _send(self) -> bool:
        outbox = self.door.outbox
        if not outbox:
            return False
        while outbox:
            outgoing = outbox.popleft()
            if outgoing.frames[0] in self.undeliverable:
                self.door.on_undelivered(outgoing, self.now)
            else:
                self.deliver(outgoing)
        return True

    def deliver(self, outgoing: Outgoing) -> None:
        routing_id, *frames = outgoing.frames
        message = read_message(frames)
        self.log.append((routing_id, message))
        self.inboxes.setdefault(routing_id, deque()).append(message)

    def pass_time(self, seconds: float, step: float = 1.0) -> None:
        end = self.now + seconds
        while self.now < end:
            self.now = self.board.now = min(end, self.now + step)
            self.board.dispatcher.on_time(self.now)
            self.door.on_time(self.now)
            self.settle()

    def disconnect(self, routing_id: bytes) -> None:
        """Its connection is gone, and the socket has noticed."""
        self.undeliverable.add(routing_id)
        self.door.on_disconnect(routing_id, self.now)
        self.settle()

    def connect(self, routing_id: bytes) -> None:
        self.undeliverable.discard(routing_id)
        self.door.on_connect(self.now)
        self.settle()

    def dismiss(self, worker: str, immediate: bool = False) -> None:
        self.door.on_dismiss(worker, immediate, self.now)
        self.settle()

    def list(self) -> list[tuple[bytes, int]]:
        """Round-robin workers with their free slots, in turn."""
        return self.door.workers.list()

    def check_empty(self) -> None:
        """Nothing is under way, and no table has entries left."""
        clients, workers = self.door.clients, self.door.workers
        assert not clients._clients
        assert not clients._requests
        assert len(clients.streams) == 0
        assert clients.peers == {clients._caster}
        assert not clients._caster.calls
        assert self.board.waiting.count == 0
        for worker in workers._workers.values():
            calls = worker.calls
            assert not calls.outstanding.list_begun()
            assert not calls.outstanding.released
            for table in (calls.bodies, calls.flows, calls.streams, worker.peer.serves, worker.peer.calls):
                assert not table
            assert worker.peer.slots.by_calls == 0


class RoundRobinPeer:
    """A peer at the door."""

    def __init__(self, harness: DoorHarness, routing_id: bytes) -> None:
        self.harness, self.id = harness, routing_id
        harness.undeliverable.discard(routing_id)
        self._numbers = 0

    def say(self, message: PlainMessage) -> None:
        self.harness.undeliverable.discard(self.id)  # a peer that speaks is connected
        self.harness.say(self.id, message.frames)

    def make_id(self) -> bytes:
        self._numbers += 1
        return self._numbers.to_bytes(4, "little")

    def hear(self) -> list[PlainMessage]:
        """The messages that it was sent since the last call."""
        inbox = self.harness.inboxes.setdefault(self.id, deque())
        messages = list(inbox)
        inbox.clear()
        return messages

    def execute(self, code: bytes, *args: bytes, id: bytes | None = None, to: tuple[bytes, ...] = ()) -> bytes:  # noqa: A002
        number = self.make_id() if id is None else id
        self.say(PlainMessage(EXEC, number, (code, *args), to))
        return number

    def track(self, code: bytes, *args: bytes, id: bytes | None = None, to: tuple[bytes, ...] = ()) -> bytes:  # noqa: A002
        number = self.make_id() if id is None else id
        self.say(PlainMessage(TRACKEXEC, number, (code, *args), to))
        return number

    def ping(self, *to: bytes) -> bytes:
        number = self.make_id()
        self.say(PlainMessage(PING, number, (), to))
        return number

    def vanish(self) -> None:
        self.harness.disconnect(self.id)


class Client(RoundRobinPeer):
    """Asks."""

    def responses(self) -> list[tuple[bytes, tuple[bytes, ...]]]:
        """Ids and payloads of the responses since the last call; no other message may have come."""
        messages = self.hear()
        assert all(message.command == RESPONSE and not message.to for message in messages)
        return [(message.id, message.args) for message in messages]

    def failures(self) -> list[tuple[bytes, str]]:
        """Ids and texts; no other message may have come."""
        responses = self.responses()
        assert all(args[0] == FAILURE and len(args) == 2 for _, args in responses)
        return [(number, args[1].decode()) for number, args in responses]

    def more(self, handle: bytes, host: bytes = b"60:me", flag: bytes = b"0", to: tuple[bytes, ...] = ()) -> bytes:
        return self.track(b"mqs_more", host, handle, flag, to=to)


class RoundRobinWorker(RoundRobinPeer):
    """Answers, and says INCREMENT."""

    def register(self, slots: int | bytes) -> None:
        number = self.track(REGISTER, slots if isinstance(slots, bytes) else b"%d" % slots)
        inbox = self.harness.inboxes.setdefault(self.id, deque())
        message = next((message for message in inbox if message.command == RESPONSE and message.id == number), None)
        if message is not None:
            assert message == PlainMessage(RESPONSE, number)
            inbox.remove(message)

    def deregister(self) -> None:
        self.execute(DEREGISTER, id=b"WORKER")

    def increment(self, count: int = 1) -> None:
        for _ in range(count):
            self.execute(INCREMENT)

    def take(self) -> list[PlainMessage]:
        """The calls that it got since the last time; it may have got nothing else."""
        messages = self.hear()
        assert all(message.command in (EXEC, TRACKEXEC) and not message.to for message in messages)
        return messages

    def take_one(self) -> PlainMessage:
        (message,) = self.take()
        return message

    def respond(self, message: PlainMessage, *payload: bytes) -> None:
        """Answers a call, along the path that it came."""
        self.say(PlainMessage(RESPONSE, message.id, payload, message.path[::-1]))

    def finish(self, message: PlainMessage, *payload: bytes) -> None:
        if message.command == TRACKEXEC:
            self.respond(message, *payload)
        self.increment()

    def pong(self) -> None:
        for message in self.hear():
            assert message.command == PING
            self.say(PlainMessage(PONG, message.id, (), message.path[::-1]))


class NativeSeat(Seat):
    def __init__(self, harness: DoorHarness) -> None:
        super().__init__(harness.board)
        self.harness = harness

    def say(self, kind: int, subtype: int = 0, seq: int = 0, padding: int = 0, payload: bytes = b"") -> None:
        super().say(kind, subtype, seq, padding, payload)
        self.harness.settle()

    def cut(self) -> None:
        super().cut()
        self.harness.settle()


class NativeClient(NativeSeat):
    """A gandy client."""

    def call(self, seq: int, name: str, *args: object, flags: int = 0, worker: str = "") -> None:
        flags |= calls.DIRECT if worker else 0
        self.say(CALL, flags, seq, 0, calls.encode_target(name, worker) + pack(args))

    def cast(self, seq: int, name: str, *args: object) -> None:
        self.call(seq, name, *args, flags=CAST)

    def stream(self, seq: int, name: str, *args: object) -> None:
        self.call(seq, name, *args, flags=STREAM)

    def cancel(self, seq: int) -> None:
        self.say(calls.CANCEL, 0, seq)

    def grant(self, seq: int, count: int) -> None:
        self.say(calls.CREDIT, 0, seq, count)

    def results(self) -> list[tuple[int, Any]]:
        """Each result since the last call: a value, or Failed, Refused or Piece; and END after the last of a stream."""
        return [(frame.seq, open_result(frame)) for frame in self.hear() if frame.kind == calls.RESULT]


class Failed(NamedTuple):
    text: str


class Refused(NamedTuple):
    code: int


class Piece(NamedTuple):
    """Of a value that has more."""

    data: bytes


END = "the end of a stream"


def open_result(frame: Frame) -> Any:
    _, flags, _, _, payload = frame
    if flags & FAILED:
        return Failed(calls.decode_failure(payload).message)
    if flags & REFUSED:
        return Refused(calls.decode_refusal(payload)[0])
    if not flags & WHOLE:
        return END if flags & LAST else Piece(payload)
    return unpack(payload)


class Job(NamedTuple):
    """A call as a native worker gets it."""

    number: int
    name: str
    flags: int
    body: bytes

    @property
    def args(self) -> list[Any]:
        return list(unpack(self.body))


class NativeWorker(NativeSeat):
    """A gandy worker."""

    def __init__(self, harness: DoorHarness, name: str, slots: int, offers: tuple[str, ...]) -> None:
        super().__init__(harness)
        account = KnownWorker(WorkerInfo(name, name, slots), connected=True)
        self.board.dispatcher.on_worker(self.peer, account, self.board.now)
        payload = calls.encode_announcement(slots, 0, [Offer(offer) for offer in offers])
        self.say(calls.ANNOUNCE, payload=payload)
        self.others: list[Frame] = []

    def take(self) -> list[Job]:
        """The calls since the last time. All other frames are in `others`."""
        jobs = []
        for frame in self.hear():
            if frame.kind != CALL:
                self.others.append(frame)
                continue
            name, at = calls.read_name(frame.payload)
            jobs.append(Job(frame.seq, name.decode(), frame.subtype, frame.payload[at:]))
        return jobs

    def take_one(self) -> Job:
        (job,) = self.take()
        return job

    def take_others(self) -> list[Frame]:
        assert self.take() == []
        others, self.others = self.others, []
        return others

    def take_whole(self) -> Job:
        """One call with large arguments, all of them, for which credit is granted as it comes."""
        job = self.take_one()
        assert job.flags & MORE
        body = bytearray(job.body)
        while True:
            frames = self.take_others()
            assert frames, "the arguments stopped"
            for kind, flags, seq, _, payload in frames:
                assert (kind, seq) == (calls.BODY, job.number)
                body += payload
                if flags & LAST:
                    return job._replace(body=bytes(body))
                self.say(calls.CREDIT, 0, job.number, len(payload) + calls.FRAME_COST)

    def result(self, job: Job, flags: int, payload: bytes = b"") -> None:
        self.say(calls.RESULT, flags, job.number, 0, payload)

    def give(self, job: Job, value: object = None) -> None:
        """The value, small enough for one frame."""
        self.result(job, LAST | WHOLE, pack(value))

    def add(self, job: Job, value: object) -> None:
        """One of a stream."""
        self.result(job, WHOLE, pack(value))

    def end(self, job: Job) -> None:
        """Of a stream."""
        self.result(job, LAST)

    def fail(self, job: Job, text: str, kind: str = "ValueError") -> None:
        self.result(job, LAST | FAILED, calls.encode_failure(calls.CallFailure(kind, text)))


def give_pieces(worker: NativeWorker, job: Job, body: bytes, last: int) -> None:
    """As a gandy worker does: each piece when there is credit; the last frame needs none."""
    credit = WINDOW_BYTES
    for at in range(0, len(body), MAX_PIECE_BYTES):
        piece = body[at : at + MAX_PIECE_BYTES]
        is_end = at + MAX_PIECE_BYTES >= len(body)
        if not (is_end and last & LAST):
            credit += sum(frame.padding for frame in worker.take_others() if frame.kind == calls.CREDIT)
            assert credit > 0, "no credit is granted any more"
            credit -= len(piece) + FRAME_COST
        worker.result(job, last if is_end else 0, piece)
