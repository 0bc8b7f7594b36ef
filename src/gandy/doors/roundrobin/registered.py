"""Workers at the round-robin door: who has registered, what each of them has, and when its slots come back.

Seed 002 returns a slot by INCREMENT, which does not say for what. So a slot is taken until an INCREMENT comes, also
where the caller has its response; and no INCREMENT returns more than what was taken.
"""

from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable
from math import inf
from typing import Final

from msgspec import Struct

from gandy.core.calls import Call, OnOut, Peer
from gandy.core.switchboard import Switchboard
from gandy.core.workers import ROUND_ROBIN, WorkerInfo
from gandy.doors.base import Parcel, Roll, name_peer
from gandy.doors.flow import MAX_FLOW_BYTES, Flow
from gandy.doors.roundrobin.clients import Clients, Request
from gandy.doors.roundrobin.codes import CommandCodes, Entry
from gandy.doors.roundrobin.holdings import InStream, Registered
from gandy.doors.roundrobin.streams import ABORT, DEFAULT_LEASE, GO_ON
from gandy.doors.roundrobin.wire import EXEC, MQS_MORE, ONGOING, PING, PONG, TRACKEXEC, Message, encode
from gandy.doors.roundrobin.wire import FAILED as FAILED_STATUS
from gandy.doors.values import decode_args, encode_payload
from gandy.errors import RemoteProtocolError
from gandy.limits import MAX_SLOTS
from gandy.wire.calls import (
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
    MORE,
    PICKLED,
    REFUSED,
    RESULT,
    STREAM,
    WHOLE,
    Announcement,
    Failure,
    Offer,
    encode_failure,
    encode_refusal,
    read_name,
)

MAX_WORKERS: Final = 10_000
EXPIRY: Final = 15.0  # seconds without a word from a worker that has something to do, then it is lost
QUIET: Final = 1 / 3  # of that time, then it is asked whether it is there
ASK_PERIOD: Final = 1 / 5  # of that time between two questions
IDLE: Final = 60.0  # seconds that a worker that has nothing to do may be silent beyond that
UNANSWERED_PAUSE: Final = 2.0  # seconds after an INCREMENT without response until the response is given up
PAST: Final = 60.0  # seconds that a worker that came back may still be busy with what it had before
# Seconds after the response to its first REGISTER until a worker gets calls. The original installs its commands when it
# has the response, drops what comes before without a word, and has no word for being ready. Its server looks at what
# waits once a second. A worker that says PING after it has registered is ready: the original does not for two minutes.
READY_PAUSE: Final = 1.0
# Seconds that a worker may have a call without a word about it. Then it has dropped the call, or it is very slow.
CALL_LIMIT: Final = 3600.0
MAX_LOST: Final = 1_000  # lost workers that are remembered
REMEMBER: Final = 600.0  # seconds
RENEWAL_PERIOD: Final = DEFAULT_LEASE / 4  # seconds between two words that a stream is still wanted
HOST: Final = b"60:gandy"  # who reads streams for gandy's own callers

Send = Callable[[Parcel], None]


class Times(Struct, frozen=True):
    """How long the door waits for its workers, in seconds."""

    expiry: float = EXPIRY
    ready_pause: float = READY_PAUSE
    call_limit: float = CALL_LIMIT


class Workers:
    """All of them, by routing id."""

    def __init__(
        self,
        board: Switchboard,
        roll: Roll,
        codes: CommandCodes,
        clients: Clients,
        on_out: OnOut,
        send: Send,
        times: Times,
    ) -> None:
        self._board = board
        self._times = times
        self._on_out = on_out
        self._roll = roll
        self._codes = codes
        self._clients = clients
        self._send = send
        self._workers: dict[bytes, Registered] = {}
        self._by_peer: dict[Peer, Registered] = {}
        self.lost: OrderedDict[bytes, tuple[int, float]] = OrderedDict()  # slots, and since when
        self._speakers: OrderedDict[bytes, None] = OrderedDict()  # who knows PING, before it registers
        self.dropped: Counter[str] = Counter()
        self.on_change: Callable[[], None] = lambda: None  # somebody registered, or is gone
        self._has_newcomers = False
        self._ids = 0

    def list(self) -> list[tuple[bytes, int]]:
        """Those who are registered, with their free slots, in the order of their turn."""
        here = [worker for worker in self._workers.values() if not worker.is_leaving]
        here.sort(key=lambda worker: self._board.tell_turn(worker.peer))
        return [(worker.id, worker.free) for worker in here]

    def list_slots(self) -> dict[bytes, int]:
        """Those who are or were here, with the slots that they told."""
        here = {worker.id: worker.slots for worker in self._workers.values() if not worker.is_leaving}
        return here | {routing_id: slots for routing_id, (slots, _) in self.lost.items()}

    def find(self, peer: Peer) -> Registered | None:
        return self._by_peer.get(peer)

    def has(self, routing_id: bytes) -> bool:
        return routing_id in self._workers

    # Who is here

    def register(self, routing_id: bytes, slots: int, now: float, is_ready: bool = False) -> bool:
        """So many slots are free from now on. Whether there is a place in the table.

        `is_ready`: it did not just start, so it need not be given time until it can be given calls.
        """
        worker = self._workers.get(routing_id)
        if worker is None:
            if len(self._workers) >= MAX_WORKERS:
                self.dropped["too many workers"] += 1
                return False
            worker = self._enter(routing_id, now)
            if self._times.ready_pause and not is_ready:
                worker.ready_at = now + self._times.ready_pause
        self.lost.pop(routing_id, None)
        worker.slots = max(0, min(slots, MAX_SLOTS))
        worker.is_leaving = False
        worker.account.draining = False
        self._announce(worker)
        self.on_change()
        return True

    def _enter(self, routing_id: bytes, now: float) -> Registered:
        peer = self._board.add_peer(self._on_out)
        name = name_peer(ROUND_ROBIN, routing_id)
        account = self._roll.enter(WorkerInfo(name, name.partition("/")[2], 0))
        self._board.on_worker(peer, account)
        worker = self._workers[routing_id] = self._by_peer[peer] = Registered(routing_id, peer, account, now)
        worker.answers_pings = routing_id in self._speakers
        if routing_id in self.lost:
            worker.past_until = now + PAST
        return worker

    def _announce(self, worker: Registered) -> None:
        """Seed 002: the number of free slots is overwritten. What the worker has at the moment is beside it.

        One that is not ready offers its commands, so that calls wait for it, and has no slot.
        """
        slots = 0 if worker.is_leaving or worker.ready_at > -inf else worker.slots
        total = min(slots + worker.peer.slots.by_calls, MAX_SLOTS)
        is_offering = not worker.is_leaving and (total or worker.slots)
        offers = tuple(Offer(entry.name) for entry in self._codes) if is_offering else ()
        self._board.announce(worker.peer, Announcement(total, total, offers), self._board.now)

    def deregister(self, routing_id: bytes, now: float) -> None:
        """It gets nothing new; what it has may still be answered."""
        self.lost.pop(routing_id, None)
        worker = self._workers.get(routing_id)
        if worker is not None:
            worker.is_leaving = worker.account.draining = True
            self._announce(worker)
            self.on_change()
            self._maybe_leave(worker, now)

    def dismiss(self, name: str, immediate: bool, now: float) -> None:
        """The protocol has no word for it: the worker just gets nothing any more, until it registers again."""
        worker = next((worker for worker in self._workers.values() if worker.account.info.id == name), None)
        if worker is not None and immediate:
            self._remove(worker, now)
        elif worker is not None:
            self.deregister(worker.id, now)

    def _maybe_leave(self, worker: Registered, now: float) -> None:
        if worker.is_leaving and not worker.peer.serves:
            self._remove(worker, now)

    def lose(self, routing_id: bytes, undelivered: Iterable[int], now: float) -> None:
        """It is gone, and these calls have not reached it. Should it speak again, it is registered again."""
        worker = self._workers[routing_id]
        if not worker.is_leaving:
            self.lost[routing_id] = (worker.slots, now)
            if len(self.lost) > MAX_LOST:
                self.lost.popitem(last=False)
        self._remove(worker, now, undelivered)

    def _remove(self, worker: Registered, now: float, undelivered: Iterable[int] = ()) -> None:
        """What it has begun is lost. What it has not is for others."""
        worker.is_leaving = True
        self._announce(worker)  # or it would get the next one
        begun = worker.list_begun().difference(undelivered)
        for number in [number for number in worker.peer.serves if number not in begun]:
            self._refuse(worker, number)
        del self._workers[worker.id], self._by_peer[worker.peer]
        self._board.on_cut(worker.peer, now)
        self._roll.leave(worker.account.info.id)
        self.on_change()

    def _refuse(self, worker: Registered, number: int) -> None:
        """The worker has never heard of this call."""
        request = self._clients.find(worker.peer.serves[number])
        if request is not None:
            request.is_undelivered = True
        self._end(worker, number, REFUSED, encode_refusal(BUSY, "its worker was gone, and has not begun it"))

    # Life

    def on_heard(self, routing_id: bytes, command: bytes, now: float) -> None:
        """A message came from somebody, worker or not."""
        is_ping = command in (PING, PONG)
        worker = self._workers.get(routing_id)
        if worker is not None:
            worker.heard, worker.asked_since = now, inf
            worker.answers_pings = worker.answers_pings or is_ping
            self._roll.hear(worker.account)
            if command == PING:  # gandy's workers say so when they have the response to REGISTER
                self._get_ready(worker)
            return
        if is_ping:
            self._speakers[routing_id] = None
            if len(self._speakers) > MAX_WORKERS:
                self._speakers.popitem(last=False)

    def take_back(self, routing_id: bytes, now: float) -> None:
        """Somebody speaks, and says nothing about slots."""
        if routing_id in self.lost:
            slots, _ = self.lost[routing_id]
            self.register(routing_id, slots, now, is_ready=True)

    def ask(self, routing_id: bytes) -> None:
        """Send a PING. What matters is whether it can be sent, and then whether it is answered."""
        self._send(Parcel([routing_id, *encode(Message(PING, self._make_id(8)))]))

    def on_connect(self) -> None:
        """It may be one of those that we lost; they are asked all together, a moment later."""
        self._has_newcomers = True

    def on_time(self, now: float) -> None:
        if self._has_newcomers:
            self._has_newcomers = False
            for routing_id in self.lost:
                self.ask(routing_id)
        for routing_id in [key for key, (_, since) in self.lost.items() if now - since >= REMEMBER]:
            del self.lost[routing_id]
        for worker in list(self._workers.values()):
            # Silence alone proves nothing: it had nothing to say, or we were stopped for a while.
            expiry = self._times.expiry
            if now - worker.asked_since >= expiry - expiry * QUIET and worker.answers_pings:
                self.lose(worker.id, (), now)
                continue
            if worker.ready_at <= now:
                self._get_ready(worker)
            self._maybe_ask(worker, now)
            self._give_up(worker, now)
            self._renew_streams(worker, now)
            self._maybe_leave(worker, now)

    def _get_ready(self, worker: Registered) -> None:
        if worker.ready_at > -inf:
            worker.ready_at = -inf
            self._announce(worker)

    def _maybe_ask(self, worker: Registered, now: float) -> None:
        silence = now - worker.heard - (0.0 if worker.peer.serves else IDLE)
        if silence >= self._times.expiry * QUIET and now - worker.asked >= self._times.expiry * ASK_PERIOD:
            worker.asked = now
            worker.asked_since = min(worker.asked_since, now)
            self.ask(worker.id)

    def _renew_streams(self, worker: Registered, now: float) -> None:
        for stream in worker.streams.values():
            if stream.reader.handle and now - stream.renewed >= RENEWAL_PERIOD:
                stream.renewed = now
                self._tell(worker, ONGOING, stream.host)

    def _give_up(self, worker: Registered, now: float) -> None:
        """Slots came back without responses. While there are other calls, nobody knows which ones have ended."""
        is_sure = worker.is_idle and now >= worker.past_until
        for number in list(worker.released) if is_sure and now - worker.incremented_at >= UNANSWERED_PAUSE else ():
            worker.forget(number)
            self._fail(worker, number, "RuntimeError", "its worker ended it without an answer")
        for number in worker.list_untouched(now - self._times.call_limit):
            self._write_off(worker, number, now)

    def _write_off(self, worker: Registered, number: int, now: float) -> None:
        """The worker has said nothing about this call for too long: its caller gets a failure, and the slot is free.

        Should the worker still have it, its INCREMENT will seem to be for another call, which must not end by that.
        """
        stream = worker.streams.get(number)
        if number in worker.flows and (stream is None or not stream.asked):  # it is the caller's turn to speak
            worker.touch(number, now)
            return
        worker.drop(number)
        worker.flows.pop(number, None)
        worker.past_until = now + self._times.call_limit
        text = f"its worker has said nothing about it for {self._times.call_limit:,.0f} s"
        self._fail(worker, number, "TimeoutError", text)

    # What the switchboard says

    def on_frame(self, worker: Registered, kind: int, flags: int, number: int, padding: int, payload: bytes) -> None:
        """YIELD is for workers that run jobs."""
        call = worker.peer.serves.get(number)
        if call is None:
            return
        if kind == CALL:
            self._on_call(worker, call, payload)
        elif kind == BODY:
            self._on_body(worker, call, flags, payload)
        elif kind == CREDIT and (flow := worker.flows.get(number)) is not None:
            flow.grant(padding)
            self._go_on(worker, flow)
        elif kind == CANCEL:
            self._on_cancel(worker, number)

    def _on_call(self, worker: Registered, call: Call, payload: bytes) -> None:
        if call.client is None and not call.flags & CAST:  # nobody wants it any more
            self._end(worker, call.id, 0)
            return
        if call.client is not None and worker.is_leaving:
            self._refuse(worker, call.id)
            return
        request = self._clients.find(call)
        if request is not None:
            self._pass(worker, call.id, request)
            return
        _, at = read_name(payload)
        if call.flags & DIRECT:
            _, at = read_name(payload, at)
        if call.flags & MORE:
            worker.bodies[call.id] = bytearray(payload[at:])
        else:
            self._give(worker, call, payload[at:])

    def _on_body(self, worker: Registered, call: Call, flags: int, payload: bytes) -> None:
        body = worker.bodies.get(call.id)
        if body is None:  # of a message, which went out whole
            return
        body += payload
        if len(body) > MAX_FLOW_BYTES:
            del worker.bodies[call.id]
            self._fail(worker, call.id, "ValueError", f"arguments may have {MAX_FLOW_BYTES:,} bytes there")
        elif flags & LAST:
            del worker.bodies[call.id]
            self._give(worker, call, bytes(body))
        else:
            self._board.on_frame(worker.peer, CREDIT, 0, call.id, len(payload) + FRAME_COST, b"")

    def _on_cancel(self, worker: Registered, number: int) -> None:
        """There is no word for it, but for streams. The slot comes back when the worker says so."""
        stream = worker.streams.pop(number, None)
        if stream is not None and stream.reader.handle:
            self._tell(worker, MQS_MORE, stream.host, stream.reader.handle, ABORT)
        if worker.flows.pop(number, None) is not None and number in worker.returned:
            self._end(worker, number, 0)
        if worker.bodies.pop(number, None) is not None:
            self._end(worker, number, 0)

    def _pass(self, worker: Registered, number: int, request: Request) -> None:
        """A client's message, as it is."""
        message = request.message
        worker.begin(number, (message.path[::-1], message.id), request.is_cast, self._board.now)
        self._send(Parcel([worker.id, *encode(message)], number))

    def _give(self, worker: Registered, call: Call, body: bytes) -> None:
        """A call of one of gandy's own clients."""
        entry = self._get_entry(call)
        try:
            if call.flags & PICKLED:
                raise ValueError("its worker does not know pickles")
            frames = encode_payload(decode_args(body))
        except ValueError as error:
            self._fail(worker, call.id, "ValueError", f"the arguments cannot be told in frames: {error}")
            return
        number = self._make_id(8)
        if entry.is_stream and not call.flags & CAST:
            host = frames[0] if frames else HOST
            worker.streams[call.id] = InStream(host, is_wanted_whole=not call.flags & STREAM)
        command = EXEC if call.flags & CAST else TRACKEXEC
        worker.begin(call.id, ((), number), command == EXEC, self._board.now)
        self._send(Parcel([worker.id, *encode(Message(command, number, (entry.code, *frames)))], call.id))

    def _get_entry(self, call: Call) -> Entry:
        entry = self._codes.find_name(call.command.name.decode())
        assert entry is not None, "a worker offers what the table has"
        return entry

    def _tell(self, worker: Registered, *args: bytes) -> bytes:
        number = self._make_id(4)
        worker.told.append(number)
        self._send(Parcel([worker.id, *encode(Message(TRACKEXEC, number, args))]))
        return number

    def _make_id(self, size: int) -> bytes:
        self._ids = (self._ids + 1) & 0xFFFF_FFFF
        return self._ids.to_bytes(size, "little")

    # What the worker says

    def on_increment(self, routing_id: bytes, now: float) -> None:
        worker = self._workers.get(routing_id)
        if worker is None:
            return
        worker.incremented_at = now
        if worker.answered:
            self._return(worker, worker.answered.popleft())
        elif worker.casts:
            self._return(worker, worker.casts.popleft())
        elif len(worker.released) < len(worker.unanswered):
            oldest = next(number for number in worker.unanswered if number not in worker.released)
            worker.released.add(oldest)  # perhaps it was another one; the number of slots is right
            self._board.release(worker.peer, oldest)
        else:
            self.dropped["INCREMENT"] += 1
        self._maybe_leave(worker, now)

    def _return(self, worker: Registered, number: int) -> None:
        if number in worker.flows:
            worker.returned.add(number)
        else:
            self._end(worker, number, 0)

    def on_response(self, routing_id: bytes, message: Message, now: float) -> bool:
        """Whether it belongs to something that this worker has."""
        worker = self._workers.get(routing_id)
        if worker is None:
            return False
        for number, stream in worker.streams.items():
            if stream.asked and (message.to, message.id) == ((), stream.asked):
                stream.asked = b""
                worker.touch(number, now)
                self._receive(worker, number, stream, message.args)
                return True
        answered = worker.answer((message.to, message.id))
        if answered is None:
            return not message.to and message.id in worker.told
        worker.touch(answered, now)
        self._on_answer(worker, worker.peer.serves[answered], message, now)
        return True

    def _on_answer(self, worker: Registered, call: Call, message: Message, now: float) -> None:
        request = self._clients.find(call)
        stream = worker.streams.get(call.id)
        if request is not None:
            request.reply = encode(message._replace(path=(*message.path, worker.id)))
            self._complete(worker, call.id, WHOLE)
        elif call.client is None:  # nobody wants it any more
            worker.streams.pop(call.id, None)
            self._complete(worker, call.id, 0)
        elif message.args[:1] == (FAILED_STATUS,):
            text = b" ".join(message.args[1:]).decode(errors="replace") or "the worker failed"
            worker.streams.pop(call.id, None)
            self._complete(worker, call.id, FAILED, encode_failure(Failure("Exception", text)))
        elif stream is not None:
            stream.renewed = now
            worker.flows[call.id] = Flow(self._board, worker.peer, call.id)
            self._receive(worker, call.id, stream, message.args)
        else:
            self._put(worker, call, message.args)

    def _put(self, worker: Registered, call: Call, frames: tuple[bytes, ...]) -> None:
        """A value: bytes, or several of them."""
        is_bare = self._get_entry(call).is_bare
        value = "pong" if is_bare else None if not frames else frames[0] if len(frames) == 1 else list(frames)
        flow = worker.flows[call.id] = Flow(self._board, worker.peer, call.id)
        flow.put_value(value)
        self._go_on(worker, flow)

    def _receive(self, worker: Registered, number: int, stream: InStream, frames: tuple[bytes, ...]) -> None:
        """A packet of a stream."""
        flow = worker.flows[number]
        try:
            data = stream.reader.receive(frames[0] if frames else b"")
            if stream.whole is None:
                flow.put_chunks(data)
            elif len(stream.whole) + len(data) <= MAX_FLOW_BYTES:
                stream.whole += data
            else:
                raise ValueError(f"it has more than {MAX_FLOW_BYTES:,} bytes: ask for a stream")
            if stream.reader.is_aborted:
                raise ValueError("its worker gave it up")
        except (RemoteProtocolError, ValueError) as error:
            del worker.streams[number]
            failure = encode_failure(Failure("Exception", f"the stream is broken: {error}"))
            self._complete(worker, number, FAILED, failure)
            return
        if stream.reader.is_finished:
            del worker.streams[number]
            if stream.whole is None:
                flow.close()
            else:
                flow.put_value(bytes(stream.whole))
        self._go_on(worker, flow)

    def _go_on(self, worker: Registered, flow: Flow) -> None:
        """The caller has read something, or there is more for it."""
        stream = worker.streams.get(flow.number)
        if flow.is_done:
            self._complete(worker, flow.number, flow.last_flags, flow.last)
        elif stream is not None and stream.reader.handle and not stream.asked and flow.is_idle:
            stream.asked = self._tell(worker, MQS_MORE, stream.host, stream.reader.handle, GO_ON)
            worker.touch(flow.number, self._board.now)

    def _complete(self, worker: Registered, number: int, flags: int, payload: bytes = b"") -> None:
        """The caller has all. The slot comes back with the INCREMENT, if that has not come yet."""
        worker.flows.pop(number, None)
        if number in worker.returned:
            self._end(worker, number, flags, payload)
        else:
            self._board.on_answer(worker.peer, number, flags, payload)

    def _fail(self, worker: Registered, number: int, kind: str, text: str) -> None:
        worker.streams.pop(number, None)
        self._end(worker, number, FAILED, encode_failure(Failure(kind, text)))

    def _end(self, worker: Registered, number: int, flags: int, payload: bytes = b"") -> None:
        """The slot is free."""
        worker.returned.discard(number)
        worker.touched.pop(number, None)
        self._board.on_frame(worker.peer, RESULT, flags | LAST, number, 0, payload)
