"""The calls of one round-robin worker: sends them to the worker as messages, and passes its answers to the callers.

It owns incomplete arguments, values that callers have not read yet, and streams of the worker. It does not know about
registration.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from msgspec import Struct

from gandy.core.calls import Call, Peer
from gandy.core.switchboard import Switchboard
from gandy.doors.base import Outgoing
from gandy.doors.flow import Flow
from gandy.doors.limits import MAX_FLOW_BYTES
from gandy.doors.roundrobin import wire
from gandy.doors.roundrobin.client_requests import ClientRequest
from gandy.doors.roundrobin.clients import Clients
from gandy.doors.roundrobin.codes import CommandCodes, Entry
from gandy.doors.roundrobin.limits import MAX_ASKED
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.outstanding import OutstandingCalls
from gandy.doors.roundrobin.streams import ABORT, DEFAULT_LEASE, GO_ON, StreamReader
from gandy.doors.values import decode_args, encode_payload
from gandy.errors import RemoteProtocolError
from gandy.moments import LONG_AGO, Monotonic
from gandy.wire import calls

EXPIRY: Final = 15.0  # seconds that a worker that has calls may be silent
UNANSWERED_PAUSE: Final = 2.0  # seconds after an INCREMENT without response until the call fails
# Seconds after the response to its first REGISTER until a worker gets calls. The original installs its commands when it
# has the response, silently drops what comes before, and has no message for being ready; its server checks its queue
# once a second. A worker that sends PING after it has registered is ready: the original sends none for two minutes.
READY_PAUSE: Final = 1.0
# Seconds that a worker may have a call without sending anything about it. Then we assume that it has dropped the call.
CALL_PATIENCE: Final = 3600.0
RENEWAL_PERIOD: Final = DEFAULT_LEASE / 4  # seconds between two requests to keep a stream
HOST: Final = b"60:gandy"  # the host id for streams that gandy's own callers read


class Times(Struct, frozen=True):
    """How long the door waits for its workers, in seconds."""

    expiry: float = EXPIRY
    ready_pause: float = READY_PAUSE
    call_limit: float = CALL_PATIENCE


class DoorParts(NamedTuple):
    """Everything that the workers of a door share."""

    board: Switchboard
    codes: CommandCodes
    clients: Clients
    send: Callable[[Outgoing], None]
    ids: MessageIds
    times: Times


class WorkerStream:
    """A stream of a round-robin worker for one of gandy's own callers."""

    def __init__(self, host: bytes, is_wanted_whole: bool) -> None:
        self.reader = StreamReader()
        self.host = host
        self.asked = b""  # the id of our request for the next packet
        self.renewed = LONG_AGO
        self._whole = bytearray() if is_wanted_whole else None

    def receive(self, packet: bytes, flow: Flow) -> None:
        """Raises: RemoteProtocolError, ValueError: the stream ends here, and has failed."""
        data = self.reader.receive(packet)
        if self._whole is None:
            flow.put_chunks(data)
        elif len(self._whole) + len(data) <= MAX_FLOW_BYTES:
            self._whole += data
        else:
            raise ValueError(f"it has more than {MAX_FLOW_BYTES:,} bytes: ask for a stream")
        if self.reader.is_aborted:
            raise ValueError("its worker aborted it")
        if self.reader.is_finished and self._whole is None:
            flow.close()
        elif self.reader.is_finished:
            flow.put_value(bytes(self._whole or b""))


class WorkerCalls:
    """The calls of one registered worker, which is `peer` at the switchboard."""

    def __init__(self, routing_id: bytes, peer: Peer, parts: DoorParts, now: Monotonic) -> None:
        self.outstanding = OutstandingCalls(now)
        self.is_closed = False  # it gets no more calls
        self.bodies: dict[int, bytearray] = {}  # arguments that are not complete
        self.flows: dict[int, Flow] = {}  # values that their callers have not read yet
        self.streams: dict[int, WorkerStream] = {}
        self._id = routing_id
        self._peer = peer
        self._parts = parts
        self._board = parts.board
        self._asked: deque[bytes] = deque(maxlen=MAX_ASKED)

    # From the switchboard

    def on_frame(self, kind: int, flags: int, number: int, argument: int, payload: bytes) -> None:
        """YIELD is ignored: it is for workers that run jobs."""
        call = self._peer.serves.get(number)
        if call is None:
            return
        if kind == calls.CALL:
            self._on_call(call, payload)
        elif kind == calls.BODY:
            self._on_body(call, flags, payload)
        elif kind == calls.CREDIT and (flow := self.flows.get(number)) is not None:
            flow.grant(argument)
            self._advance(flow)
        elif kind == calls.CANCEL:
            self._on_cancel(number)

    def _on_call(self, call: Call, payload: bytes) -> None:
        if call.client is None and not call.flags & calls.CAST:  # the client is gone
            self._end(call.id, 0)
            return
        if call.client is not None and self.is_closed:
            self._refuse(call.id)
            return
        request = self._parts.clients.find(call)
        if request is not None:
            self._pass_on(call.id, request)
            return
        _, at = calls.read_name(payload)
        if call.flags & calls.DIRECT:
            _, at = calls.read_name(payload, at)
        if call.flags & calls.MORE:
            self.bodies[call.id] = bytearray(payload[at:])
        else:
            self._give(call, payload[at:])

    def _on_body(self, call: Call, flags: int, payload: bytes) -> None:
        body = self.bodies.get(call.id)
        if body is None:  # the call is a client's message, which was passed on whole
            return
        body += payload
        if len(body) > MAX_FLOW_BYTES:
            del self.bodies[call.id]
            self._fail(call.id, "ValueError", f"this worker takes at most {MAX_FLOW_BYTES:,} bytes of arguments")
        elif flags & calls.LAST:
            del self.bodies[call.id]
            self._give(call, bytes(body))
        else:
            self._board.on_frame(self._peer, calls.CREDIT, 0, call.id, len(payload) + calls.FRAME_COST, b"")

    def _on_cancel(self, number: int) -> None:
        """The protocol can cancel streams only. Any other call has its slot until the worker returns it."""
        stream = self.streams.pop(number, None)
        if stream is not None and stream.reader.handle:
            self._ask(wire.MQS_MORE, stream.host, stream.reader.handle, ABORT)
        if self.flows.pop(number, None) is not None and number in self.outstanding.returned:
            self._end(number, 0)
        if self.bodies.pop(number, None) is not None:
            self._end(number, 0)

    def _pass_on(self, number: int, request: ClientRequest) -> None:
        """Send the worker a client's message, frame for frame."""
        message = request.message
        self.outstanding.begin(number, (message.path[::-1], message.id), request.is_cast, self._board.now)
        self._parts.send(Outgoing([self._id, *wire.encode(message)], number))

    def _give(self, call: Call, body: bytes) -> None:
        """Send the worker a call of one of gandy's own clients."""
        entry = self._get_entry(call)
        try:
            if call.flags & calls.PICKLED:
                raise ValueError("its worker does not accept pickles")
            frames = encode_payload(decode_args(body))
        except ValueError as error:
            self._fail(call.id, "ValueError", f"the arguments cannot be written as frames: {error}")
            return
        is_cast = bool(call.flags & calls.CAST)
        if entry.is_stream and not is_cast:
            host = frames[0] if frames else HOST
            self.streams[call.id] = WorkerStream(host, is_wanted_whole=not call.flags & calls.STREAM)
        message = wire.QueueMessage(
            wire.EXEC if is_cast else wire.TRACKEXEC, self._parts.ids.take_long(), (entry.code, *frames)
        )
        self.outstanding.begin(call.id, ((), message.id), is_cast, self._board.now)
        self._parts.send(Outgoing([self._id, *wire.encode(message)], call.id))

    def _get_entry(self, call: Call) -> Entry:
        entry = self._parts.codes.find_name(call.command.name.decode())
        assert entry is not None, "a worker offers what the table has"
        return entry

    def _ask(self, *args: bytes) -> bytes:
        """Send a request of our own about a stream, and return its id."""
        number = self._parts.ids.take_short()
        self._asked.append(number)
        self._parts.send(Outgoing([self._id, *wire.encode(wire.QueueMessage(wire.TRACKEXEC, number, args))]))
        return number

    # From the worker

    def on_increment(self, now: Monotonic) -> bool:
        """False if no call has a slot to return."""
        ended = self.outstanding.take_incremented(now)
        if ended is None:
            released = self.outstanding.release_oldest()
            if released is not None:
                self._board.release(self._peer, released)
            return released is not None
        if ended in self.flows:
            self.outstanding.returned.add(ended)
        else:
            self._end(ended, 0)
        return True

    def on_response(self, message: wire.QueueMessage, now: Monotonic) -> bool:
        """False if it answers nothing that this worker has."""
        for number, stream in self.streams.items():
            if stream.asked and (message.to, message.id) == ((), stream.asked):
                stream.asked = b""
                self.outstanding.touch(number, now)
                self._on_packet(number, stream, message.args)
                return True
        answered = self.outstanding.take_answered((message.to, message.id))
        if answered is None:
            return not message.to and message.id in self._asked
        self.outstanding.touch(answered, now)
        self._on_answer(self._peer.serves[answered], message, now)
        return True

    def _on_answer(self, call: Call, message: wire.QueueMessage, now: Monotonic) -> None:
        request = self._parts.clients.find(call)
        stream = self.streams.get(call.id)
        if request is not None:
            request.reply = wire.encode(message._replace(path=(*message.path, self._id)))
            self._complete(call.id, calls.WHOLE)
        elif call.client is None:  # the client is gone
            self.streams.pop(call.id, None)
            self._complete(call.id, 0)
        elif message.args[:1] == (wire.FAILED,):
            text = b" ".join(message.args[1:]).decode(errors="replace") or "the worker failed"
            self.streams.pop(call.id, None)
            self._complete(call.id, calls.FAILED, calls.encode_failure(calls.CallFailure("Exception", text)))
        elif stream is not None:
            stream.renewed = now
            self.flows[call.id] = Flow(self._board, self._peer, call.id)
            self._on_packet(call.id, stream, message.args)
        else:
            self._put_value(call, message.args)

    def _put_value(self, call: Call, frames: tuple[bytes, ...]) -> None:
        """Send the caller the value: one frame becomes bytes, several become a list of bytes."""
        is_bare = self._get_entry(call).is_bare
        value = "pong" if is_bare else None if not frames else frames[0] if len(frames) == 1 else list(frames)
        flow = self.flows[call.id] = Flow(self._board, self._peer, call.id)
        flow.put_value(value)
        self._advance(flow)

    def _on_packet(self, number: int, stream: WorkerStream, frames: tuple[bytes, ...]) -> None:
        flow = self.flows[number]
        try:
            stream.receive(frames[0] if frames else b"", flow)
        except (RemoteProtocolError, ValueError) as error:
            del self.streams[number]
            failure = calls.encode_failure(calls.CallFailure("Exception", f"the stream is broken: {error}"))
            self._complete(number, calls.FAILED, failure)
            return
        if stream.reader.is_finished:
            del self.streams[number]
        self._advance(flow)

    def _advance(self, flow: Flow) -> None:
        """The caller has granted credit, or there is more to send: end the call, or ask for the next packet."""
        stream = self.streams.get(flow.number)
        if flow.is_done:
            self._complete(flow.number, flow.last_flags, flow.last)
        elif stream is not None and stream.reader.handle and not stream.asked and flow.is_idle:
            stream.asked = self._ask(wire.MQS_MORE, stream.host, stream.reader.handle, GO_ON)
            self.outstanding.touch(flow.number, self._board.now)

    def _complete(self, number: int, flags: int, payload: bytes = b"") -> None:
        """Send the caller the end of the result. The call has its slot until the INCREMENT comes."""
        self.flows.pop(number, None)
        if number in self.outstanding.returned:
            self._end(number, flags, payload)
        else:
            self._board.on_answer(self._peer, number, flags, payload)

    def _fail(self, number: int, kind: str, text: str) -> None:
        self.streams.pop(number, None)
        self._end(number, calls.FAILED, calls.encode_failure(calls.CallFailure(kind, text)))

    def _end(self, number: int, flags: int, payload: bytes = b"") -> None:
        """End the call, and free its slot."""
        self.outstanding.end(number)
        self._board.on_frame(self._peer, calls.RESULT, flags | calls.LAST, number, 0, payload)

    # The worker is gone, or time passes

    def refuse_unbegun(self, undelivered: set[int]) -> None:
        """Refuse calls that the worker has not received, so that they go to other workers."""
        begun = self.outstanding.list_begun() - undelivered
        for number in [number for number in self._peer.serves if number not in begun]:
            self._refuse(number)

    def _refuse(self, number: int) -> None:
        request = self._parts.clients.find(self._peer.serves[number])
        if request is not None:
            request.is_undelivered = True
        self._end(number, calls.REFUSED, calls.encode_refusal(calls.BUSY, "its worker left before it began the call"))

    def on_time(self, now: Monotonic) -> None:
        for number in self.outstanding.list_given_up(now, UNANSWERED_PAUSE):
            self.outstanding.forget_response(number)
            self._fail(number, "RuntimeError", "its worker ended it without an answer")
        for number in self.outstanding.list_untouched(now - self._parts.times.call_limit):
            self._give_up(number, now)
        for stream in self.streams.values():
            if stream.reader.handle and now - stream.renewed >= RENEWAL_PERIOD:
                stream.renewed = now
                self._ask(wire.ONGOING, stream.host)

    def _give_up(self, number: int, now: Monotonic) -> None:
        """The worker has sent nothing about this call for too long: fail the call, and free its slot.

        If the worker still has the call, its INCREMENT will seem to be for another one, which it must not end.
        """
        stream = self.streams.get(number)
        if number in self.flows and (stream is None or not stream.asked):  # we wait for the caller, not the worker
            self.outstanding.touch(number, now)
            return
        self.outstanding.drop(number)
        self.flows.pop(number, None)
        limit = self._parts.times.call_limit
        self.outstanding.uncertain_until = now + limit
        self._fail(number, "TimeoutError", f"its worker has sent nothing about it for {limit:,.0f} s")
