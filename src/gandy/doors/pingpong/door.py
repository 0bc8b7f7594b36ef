"""The ping-pong door (seed 003): its workers have one slot each, and serve one command with bytes in and bytes out.

The broker's part of the dialogue, on the switchboard. It owns which worker has which call, and keeps a result until its
caller has room for it. It knows neither sockets nor clocks; docs/protocol/pingpong.md has the reasons.
"""

from collections import Counter, OrderedDict, deque
from typing import Final, assert_never

from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.core.workers import PING_PONG, Worker, WorkerInfo
from gandy.doors.base import Parcel, Roll, name_peer
from gandy.doors.flow import Flow
from gandy.doors.pingpong.talk import BROKER_LAW, HAS_JOB, BrokerEvent, WorkerState
from gandy.doors.pingpong.wire import (
    BROKER_WORDS,
    MAX_BODY_BYTES,
    Exit,
    Job,
    Ping,
    Pong,
    Ready,
    Result,
    decode_worker,
    encode,
    is_answer,
    tell_fault,
)
from gandy.doors.values import decode_args
from gandy.errors import RemoteProtocolError
from gandy.limits import MAX_QUEUED_BYTES
from gandy.wire.calls import (
    ANNOUNCE,
    BODY,
    BUSY,
    CALL,
    CANCEL,
    CAST,
    CREDIT,
    DIRECT,
    FAILED,
    FRAME_COST,
    LAST,
    LOST,
    MORE,
    PICKLED,
    REFUSED,
    RESULT,
    WINDOW_BYTES,
    Failure,
    Offer,
    encode_announcement,
    encode_failure,
    encode_refusal,
    read_frames,
    read_name,
)

EXPIRY: Final = 10.0  # seconds; WORKER_EXPIRE_SECONDS of the seed: ten PINGs that did not come
MAX_WORKERS: Final = 10_000  # in the table: anybody who connects can fill it

# Reasons to drop something.
NONSENSE: Final = "a message that makes no sense"
STRANGE: Final = "a result of an unknown worker"
JOBLESS: Final = "a result without a job"
CROWD: Final = "a worker above the limit"

# Seed 003: any message renews the time of a worker. One that is told to leave has this time to do it.
_RENEWING: Final = frozenset(BrokerEvent) - {BrokerEvent.JOB, BrokerEvent.EXPIRED, BrokerEvent.GONE}


class _Call:
    """A call that a worker has, or is about to get, or has answered."""

    __slots__ = ("flags", "flow", "is_sent", "owed", "pieces", "size")

    def __init__(self, flow: Flow, flags: int) -> None:
        self.flow = flow  # the result; complete, while it goes out
        self.flags = flags
        self.pieces: list[bytes] = []  # of arguments that are not complete
        self.size = 0  # of these
        self.owed = 0  # credit for them
        self.is_sent = False  # to the worker

    @property
    def number(self) -> int:
        """At the switchboard."""
        return self.flow.number


class _Entry:
    """One worker."""

    __slots__ = ("account", "call", "id", "peer", "routing_id", "state")

    def __init__(self, routing_id: bytes) -> None:
        self.routing_id = routing_id
        self.id = name_peer(PING_PONG, routing_id)
        self.state = WorkerState.ABSENT
        self.peer: Peer | None = None  # at the switchboard; it stays there until its last result is told
        self.account: Worker | None = None
        self.call: _Call | None = None


class PingPongDoor:
    """Workers of seed 003, each of which runs one call of `command` at a time."""

    def __init__(self, board: Switchboard, roll: Roll, command: str, expiry: float = EXPIRY) -> None:
        self.outbox: deque[Parcel] = deque()
        self.dropped: Counter[str] = Counter()  # what was said and could not be used, by reason
        self._board = board
        self._roll = roll
        self._command = command
        self._expiry = expiry
        self._entries: dict[bytes, _Entry] = {}  # by routing id
        self._ids: dict[str, _Entry] = {}
        self._peers: dict[Peer, _Entry] = {}
        self._held = 0  # bytes of arguments that are not complete
        self._expires: OrderedDict[bytes, float] = OrderedDict()  # routing ids, the next one first

    # What workers say

    def on_message(self, frames: list[bytes], now: float) -> None:
        if not frames:
            self.dropped[NONSENSE] += 1
            return
        routing_id, *said = frames
        entry = self._entries.get(routing_id)
        if entry is not None and entry.account is not None:
            self._roll.hear(entry.account)
        try:
            message = decode_worker(said)
        except RemoteProtocolError as error:
            self._on_nonsense(entry, said, str(error), now)
            return
        match message:
            case Ready():
                self._on_ready(routing_id, now)
            case Ping(count):
                self._on_ping(routing_id, count, now)
            case Result(data):
                self._on_result(entry, data, now)
            case _:
                assert_never(message)

    def _on_ready(self, routing_id: bytes, now: float) -> None:
        entry = self._maybe_add(routing_id)
        if entry is None:
            return
        had_job = entry.state in HAS_JOB
        self._move(entry, BrokerEvent.READY, now)
        if had_job:
            assert entry.call is not None
            self._lose(entry, entry.call.number, "began anew")
        if entry.state is WorkerState.GOING:
            self._send(entry, Exit())
            self._close(entry, now)
        else:
            self._admit(entry)
            self._send(entry, Pong())

    def _on_ping(self, routing_id: bytes, count: bytes | None, now: float) -> None:
        entry = self._maybe_add(routing_id)
        if entry is None:
            return
        self._move(entry, BrokerEvent.PING, now)
        if entry.state is WorkerState.READY:
            self._admit(entry)
        if entry.state is not WorkerState.GOING:
            self._send(entry, Pong(count))

    def _on_result(self, entry: _Entry | None, data: bytes, now: float) -> None:
        if entry is None or entry.state not in HAS_JOB:
            self._drop(entry, STRANGE if entry is None or entry.state is WorkerState.ABSENT else JOBLESS, now)
            return
        call = self._finish(entry, now)
        if call.flags & CAST:
            call.flow.close()
        else:
            call.flow.put_value(data)
        self._maybe_complete(entry, call.flow, now)

    def _on_nonsense(self, entry: _Entry | None, said: list[bytes], fault: str, now: float) -> None:
        """Where it can only be the answer to a job, the caller hears of it: no other answer will come."""
        if entry is None or entry.state not in HAS_JOB or not is_answer(said):
            self._drop(entry, NONSENSE, now)
            return
        self._finish(entry, now)
        self._fail(entry, "ValueError", f"the answer of worker {entry.id} is no result: {fault}")
        self._close(entry, now)

    def _finish(self, entry: _Entry, now: float) -> _Call:
        """The job has ended."""
        assert entry.call is not None
        self._move(entry, BrokerEvent.RESULT, now)
        if entry.state is WorkerState.GOING:
            self._send(entry, Exit())
        return entry.call

    def _drop(self, entry: _Entry | None, reason: str, now: float) -> None:
        self.dropped[reason] += 1
        if entry is not None and entry.state is not WorkerState.ABSENT:
            self._move(entry, BrokerEvent.NOISE, now)

    # Who is here

    def _maybe_add(self, routing_id: bytes) -> _Entry | None:
        """The worker, also a new one. None: there are too many."""
        entry = self._entries.get(routing_id)
        if entry is None:
            if len(self._entries) >= MAX_WORKERS:
                self.dropped[CROWD] += 1
                return None
            entry = self._entries[routing_id] = _Entry(routing_id)
            self._ids[entry.id] = entry
        return entry

    def _move(self, entry: _Entry, event: BrokerEvent, now: float) -> None:
        entry.state = BROKER_LAW[entry.state, event]
        if event in _RENEWING:
            self._expires[entry.routing_id] = now + self._expiry
            self._expires.move_to_end(entry.routing_id)

    def _admit(self, entry: _Entry) -> None:
        """It can be given calls, if it could not before."""
        if entry.peer is None:
            peer = entry.peer = self._board.add_peer(self.on_out)
            self._peers[peer] = entry
            entry.account = self._roll.enter(WorkerInfo(entry.id, entry.id.partition("/")[2], slots=0))
            self._board.on_worker(peer, entry.account)
        if not entry.peer.offers:
            self._announce(entry, True)

    def _announce(self, entry: _Entry, is_open: bool) -> None:
        assert entry.peer is not None
        offers = [Offer(self._command)] if is_open else []
        self._board.on_frame(entry.peer, ANNOUNCE, 0, 0, 0, encode_announcement(1, 1, offers))

    def _part(self, entry: _Entry, now: float, why: str, undelivered: int = -1) -> None:
        """It gets no more calls. What it has answered is still told; what it has not begun can go to another one."""
        call = entry.call
        if entry.peer is not None:
            self._announce(entry, False)
            if call is None or not call.flow.is_complete:
                for number in list(entry.peer.serves):  # also one that we have not been told of yet
                    if call is not None and call.is_sent and number != undelivered:
                        self._lose(entry, number, why)
                    else:
                        text = f"worker {entry.id} {why}, and the call has not begun there"
                        self._end(entry, number, LAST | REFUSED, encode_refusal(BUSY, text))
        self._close(entry, now)

    def _close(self, entry: _Entry, now: float) -> None:
        """Whoever has left, and whose last result is told, is forgotten."""
        if entry.call is not None or entry.state not in (WorkerState.ABSENT, WorkerState.GOING):
            return
        if entry.peer is not None:
            self._board.on_cut(entry.peer, now)
            del self._peers[entry.peer]
            entry.peer = entry.account = None
            self._roll.leave(entry.id)
        if entry.state is WorkerState.ABSENT:
            del self._entries[entry.routing_id]
            del self._ids[entry.id]

    def _send(self, entry: _Entry, message: Pong | Exit | Job, call: int = -1) -> None:
        self.outbox.append(Parcel([entry.routing_id, *encode(message)], call))

    # What else happens to them

    def close(self) -> None:
        """Workers stay, and look for the next broker."""

    def on_time(self, now: float) -> None:
        while self._expires and next(iter(self._expires.values())) <= now:
            routing_id, _ = self._expires.popitem(last=False)
            entry = self._entries[routing_id]
            self._move(entry, BrokerEvent.EXPIRED, now)
            if entry.state is WorkerState.ABSENT:
                self._part(entry, now, "was not heard for too long")

    def on_disconnect(self, routing_id: bytes, now: float) -> None:  # noqa: ARG002 - the same for all doors
        entry = self._entries.get(routing_id)
        if entry is not None:
            self._send(entry, Pong())  # it asks for nothing, and it comes back if nobody is there

    def on_undelivered(self, parcel: Parcel, now: float) -> None:
        entry = self._entries.get(parcel.frames[0])
        if entry is not None and entry.state is not WorkerState.ABSENT:
            undelivered = parcel.call
            if entry.call is not None and self._take_back(entry.routing_id, entry.call.number):
                undelivered = entry.call.number
            self._move(entry, BrokerEvent.GONE, now)
            self._expires.pop(entry.routing_id, None)
            self._part(entry, now, "was lost", undelivered)

    def _take_back(self, routing_id: bytes, call: int) -> bool:
        """Whether the call was about to be sent. Now it is not: who is lost may connect again before."""
        for at, parcel in enumerate(self.outbox):
            if parcel.call == call and parcel.frames[0] == routing_id:
                del self.outbox[at]
                return True
        return False

    def on_connect(self, now: float) -> None:
        """Whoever it is will say so."""

    def on_dismiss(self, worker: str, immediate: bool, now: float) -> None:
        entry = self._ids.get(worker)
        if entry is None or entry.state in (WorkerState.ABSENT, WorkerState.GOING):
            return
        self._move(entry, BrokerEvent.KILLED if immediate else BrokerEvent.DISMISSED, now)
        if entry.state is WorkerState.LEAVING:
            self._announce(entry, False)
            return
        self._send(entry, Exit())
        self._part(entry, now, "was told to leave")

    # Calls

    def on_out(self, peer: Peer, data: bytes, now: float) -> None:
        entry = self._peers.get(peer)
        if entry is None:
            return

        def on_frame(kind: int, subtype: int, number: int, padding: int, payload: bytes) -> None:
            if kind == CALL:
                self._on_call(entry, number, subtype, payload, now)
            elif entry.call is None or entry.call.number != number:
                return  # it is over already; or YIELD, and there are no slots that jobs could leave
            elif kind == BODY:
                self._on_body(entry, entry.call, subtype, payload, now)
            elif kind == CREDIT:
                entry.call.flow.grant(padding)
                self._maybe_complete(entry, entry.call.flow, now)
            elif kind == CANCEL:
                self._on_cancel(entry, entry.call, now)

        read_frames(data, 0, on_frame)

    def _on_call(self, entry: _Entry, number: int, flags: int, payload: bytes, now: float) -> None:
        _, at = read_name(payload)
        if flags & DIRECT:
            _, at = read_name(payload, at)
        assert entry.peer is not None
        call = entry.call = _Call(Flow(self._board, entry.peer, number), flags)
        if flags & MORE:
            self._collect(call, payload[at:])
        else:
            self._begin(entry, call, payload[at:], now)

    def _collect(self, call: _Call, piece: bytes) -> None:
        call.pieces.append(piece)
        call.size += len(piece)
        self._held += len(piece)

    def _on_body(self, entry: _Entry, call: _Call, subtype: int, payload: bytes, now: float) -> None:
        self._collect(call, payload)
        call.owed += len(payload) + FRAME_COST
        if call.size > MAX_BODY_BYTES:
            self._fail(entry, "ValueError", f"a job may have {MAX_BODY_BYTES:,} bytes, and this one has more")
        elif self._held > MAX_QUEUED_BYTES:
            text = f"jobs that are not complete have {MAX_QUEUED_BYTES:,} bytes already"
            self._end(entry, call.number, LAST | REFUSED, encode_refusal(BUSY, text))
        elif subtype & LAST:
            args = b"".join(call.pieces)
            self._release(call)
            self._begin(entry, call, args, now)
        elif call.owed >= WINDOW_BYTES // 2:
            self._grant(entry, call)

    def _release(self, call: _Call) -> None:
        self._held -= call.size
        call.size = 0
        call.pieces.clear()

    def _grant(self, entry: _Entry, call: _Call) -> None:
        assert entry.peer is not None
        owed, call.owed = call.owed, 0
        self._board.on_frame(entry.peer, CREDIT, 0, call.number, owed, b"")

    def _on_cancel(self, entry: _Entry, call: _Call, now: float) -> None:
        """The protocol has no word for it: a job that was sent keeps the slot until its result comes."""
        if call.is_sent and not call.flow.is_complete:
            call.flags |= CAST  # nobody will grant credit for the result
            return
        self._fail(entry, "Cancelled", "the call was cancelled")
        self._close(entry, now)

    def _begin(self, entry: _Entry, call: _Call, args: bytes, now: float) -> None:
        if call.flags & PICKLED:
            self._fail(entry, "TypeError", f"{self._command} takes bytes, and no pickles")
            return
        data = _find_job(args)
        if data is None:
            self._fail(entry, "TypeError", f"{self._command} takes one argument, bytes or text")
            return
        if data in BROKER_WORDS:
            self._fail(entry, "ValueError", f"this can be no job: {tell_fault(data)}")
            return
        call.is_sent = True
        self._move(entry, BrokerEvent.JOB, now)
        self._send(entry, Job(data), call.number)

    def _maybe_complete(self, entry: _Entry, flow: Flow, now: float) -> None:
        """The last piece of a result needs no credit."""
        if flow.is_done:
            self._end(entry, flow.number, LAST | flow.last_flags, flow.last)
            self._close(entry, now)

    def _fail(self, entry: _Entry, kind: str, message: str) -> None:
        assert entry.call is not None
        self._end(entry, entry.call.number, LAST | FAILED, encode_failure(Failure(kind, message)))

    def _lose(self, entry: _Entry, number: int, why: str) -> None:
        text = f"worker {entry.id} {why} while it had the call"
        self._end(entry, number, LAST | REFUSED, encode_refusal(LOST, text))

    def _end(self, entry: _Entry, number: int, flags: int, payload: bytes) -> None:
        """The slot is free, and the switchboard may have the next call for it."""
        assert entry.peer is not None
        if entry.call is not None:
            self._release(entry.call)
            entry.call = None
        self._board.on_frame(entry.peer, RESULT, flags, number, 0, payload)

    def check(self) -> None:
        """What must hold after every step; for tests."""
        entries = self._entries.values()
        assert list(self._ids.values()) == list(entries)
        assert set(self._peers.values()) == {entry for entry in entries if entry.peer is not None}
        assert self._held == sum(entry.call.size for entry in entries if entry.call is not None)
        for entry in entries:
            call, has_left = entry.call, entry.state in (WorkerState.ABSENT, WorkerState.GOING)
            has_job = call is not None and call.is_sent and not call.flow.is_complete
            assert has_job == (entry.state in HAS_JOB)
            assert entry.peer is not None or entry.state is WorkerState.GOING
            if has_left:
                assert (entry.peer is not None) == (call is not None and call.flow.is_complete)
            if entry.peer is not None:
                assert bool(entry.peer.offers) == (not has_left and entry.state is not WorkerState.LEAVING)
                assert call is None or call.number in entry.peer.serves
            if entry.state is not WorkerState.LEAVING:
                is_watched = entry.state not in (WorkerState.ABSENT, WorkerState.SILENT)
                assert is_watched == (entry.routing_id in self._expires)


def _find_job(args: bytes) -> bytes | None:
    """The only argument, where there is one, and it is bytes or text."""
    try:
        found = decode_args(args)
    except ValueError:
        return None
    job = found[0] if len(found) == 1 else None
    if isinstance(job, str):
        return job.encode()
    return job if isinstance(job, bytes) else None
