"""Frames of calls: each call goes to its worker, each result to its caller. No clock, no sockets, no values.

The round-robin of docs/protocol/roundrobin.md without its weaknesses; `call_dispatch` says which worker is next.
This is the hot path: frames in, frames out, and only headers are decoded.
"""

from struct import Struct as Layout
from typing import Final

from gandy.core.call_dispatch import CallDispatcher
from gandy.core.call_meter import EACH
from gandy.core.call_output import CallOutput
from gandy.core.calls import Call, OnOut, Peer
from gandy.core.waiting import WaitingCalls
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import MAX_CALL_PAYLOAD, MAX_CREDIT, MAX_QUEUED_BYTES, MAX_QUEUED_CALLS
from gandy.moments import NEVER, Monotonic
from gandy.wire.calls import (
    ANNOUNCE,
    AT,
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
    PLAIN_CALL,
    PLAIN_HEADER,
    PLAIN_RESULT,
    REFUSED,
    RESULT,
    YIELDED,
    decode_announcement,
    read_name,
    read_time,
)
from gandy.wire.stream import MAGIC
from gandy.wire.v2 import HEADER

_HEAD: Final = HEADER.size
_SEQ_AT: Final = 4  # in a header
_pack: Final = HEADER.pack
_pack_number: Final = Layout("<I").pack_into
_unpack_plain: Final = PLAIN_HEADER.unpack_from
_COST: Final = FRAME_COST
_RARE: Final = DIRECT | AT


class Switchboard:
    """All calls of one foreman. `output` has the frames to send after a step."""

    def __init__(self, now: Monotonic, max_queued: int = MAX_QUEUED_CALLS, max_bytes: int = MAX_QUEUED_BYTES) -> None:
        self.now = now  # of the frames that come; a step is short
        self.output = CallOutput()
        self.touched = self.output.touched
        self.waiting = WaitingCalls(max_queued, max_bytes)
        self.dispatcher = CallDispatcher(now, self.output, self.waiting)
        self._peers = 0

    def add_peer(self, on_out: OnOut | None = None) -> Peer:
        self._peers += 1
        return Peer(self._peers, on_out)

    def pass_calls(self, client: Peer, data: bytes, at: int) -> int:
        """The short way of plain calls to workers with a free slot: frames stay as they are, but for their numbers."""
        assign, offers = self.dispatcher.assign, self.dispatcher.offers
        end, calls, commands, find_worker = len(data), client.calls, offers.commands, offers.find_worker
        frames, begin, receiver = bytearray(), at, None
        began, first = 0.0 if self.output.meter is None else float(self.now), at
        while (body := at + _HEAD) < end:
            head, seq, age_ms, size = _unpack_plain(data, at)
            stop, name_end = body + size, body + 1 + data[body]
            if head != PLAIN_CALL or age_ms or not name_end <= stop <= end or size > MAX_CALL_PAYLOAD:
                break
            command = commands.get(data[body + 1 : name_end])
            if command is None or command.queue or seq in calls or (peer := find_worker(command)) is None:
                break
            if peer is not receiver:
                if receiver is None:
                    frames = bytearray(data)
                else:
                    self._pass_on(receiver, frames[begin:at])
                begin, receiver = at, peer
            call = calls[seq] = Call(client, seq, command)
            if began and (at == first or not seq % EACH):
                call.began = call.sent = began
            _pack_number(frames, at + _SEQ_AT, assign(call, peer))
            at = stop
        if receiver is not None:
            self._pass_on(receiver, frames[begin:at])
        return at

    def pass_results(self, peer: Peer, data: bytes, at: int) -> int:
        """The same for plain results."""
        end, serves, meter = len(data), peer.serves, self.output.meter
        count = len(serves)
        frames, begin, receiver = bytearray(), at, None
        while (body := at + _HEAD) <= end:
            head, number, padding, size = _unpack_plain(data, at)
            stop = body + size
            if head != PLAIN_RESULT or padding or stop > end or size > MAX_CALL_PAYLOAD:
                break
            call = serves.get(number)
            if call is None or (client := call.client) is None:
                break
            if client is not receiver:
                if receiver is None:
                    frames = bytearray(data)
                else:
                    self._pass_on(receiver, frames[begin:at])
                begin, receiver = at, client
            seq = call.client_id
            del serves[number], client.calls[seq]
            peer.slots.by_calls -= call.slots
            if meter is not None:
                call.command.ended += 1
                if call.sent:
                    meter.note_time(call, self.now)
            _pack_number(frames, at + _SEQ_AT, seq)
            at = stop
        self.output.ended += count - len(serves)
        if receiver is not None:
            self._pass_on(receiver, frames[begin:at])
            if peer.missing or self.waiting.count:
                self.dispatcher.drain(peer, self.now)
        return at

    def _pass_on(self, peer: Peer, frames: bytearray) -> None:
        if not peer.out:
            self.touched.add(peer)
        peer.out.append(frames)

    def on_frame(self, peer: Peer, kind: int, subtype: int, seq: int, argument: int, payload: bytes) -> None:
        """At `now`. Raises: RemoteProtocolError. Close the link."""
        if kind == CALL:
            self._on_call(peer, subtype, seq, argument, payload, self.now)
        elif kind == RESULT:
            self._on_result(peer, subtype, seq, payload)
        else:
            self._on_rare(peer, kind, subtype, seq, argument, payload)

    def _on_call(self, client: Peer, flags: int, seq: int, age_ms: int, payload: bytes, now: Monotonic) -> None:
        end = payload[0] + 1 if payload else 0
        name = payload[1:end]
        command = self.dispatcher.offers.commands.get(name)
        if command is None or end > len(payload):
            command = self.dispatcher.expect_command(client, flags, seq, payload, now)
            if command is None:
                return
        worker = b""
        if flags & _RARE:
            worker, end = read_name(payload, end) if flags & DIRECT else (b"", end)
            if flags & AT:
                read_time(payload, end)
        call = Call(client, seq, command, flags, now + age_ms * 0.001 if age_ms else NEVER)
        if self.output.meter is not None:
            call.began = float(now)
        if flags & CAST and not flags & MORE:
            call.client = None
        elif seq in client.calls:
            raise RemoteProtocolError(f"call {seq} is in progress already", ErrorCode.BAD_SEQ)
        else:
            client.calls[seq] = call
        if worker:
            self.dispatcher.send_to_worker(call, worker.decode(errors="replace"), payload, now)
        elif flags & AT:
            self.dispatcher.send_timed(call, payload, now)
        elif command.queue or (peer := self.dispatcher.offers.find_worker(command)) is None:
            self.dispatcher.wait(call, payload)
        else:
            self.dispatcher.send(call, peer, payload, now)

    def _on_result(self, peer: Peer, flags: int, seq: int, payload: bytes) -> None:
        call = peer.serves.get(seq)
        if call is None:
            raise RemoteProtocolError(f"a result of call {seq}, which is not in progress", ErrorCode.BAD_SEQ)
        client = call.client
        # Of a cast, a client that still sends its arguments must know the end.
        if client is not None and (flags & LAST or not call.flags & CAST):
            out = client.out
            if not out:
                self.touched.add(client)
            out.append(_pack(MAGIC, RESULT, flags, call.client_id, 0, len(payload)))
            out.append(payload)
        if flags & LAST:
            if self.output.meter is not None:
                self.output.meter.note_end(call, self.now, has_failed=bool(flags & (FAILED | REFUSED)))
            self.output.ended += 1
            del peer.serves[seq]
            peer.slots.by_calls -= call.slots
            if client is not None:
                del client.calls[call.client_id]
            if peer.missing or self.waiting.count:
                self.dispatcher.drain(peer, self.now)
            return
        if flags & (FAILED | REFUSED):
            raise RemoteProtocolError(f"call {seq} failed, and sends more", ErrorCode.BAD_STATE)
        if call.credit <= 0:  # a worker that has some left may send one frame more, however long
            raise RemoteProtocolError(f"call {seq} has sent more than it may", ErrorCode.TOO_LONG)
        call.credit -= len(payload) + _COST

    def on_answer(self, peer: Peer, seq: int, flags: int, payload: bytes = b"") -> None:
        """Send the caller its last answer. The slot stays taken until a RESULT with LAST, which no caller waits for."""
        call = peer.serves[seq]
        client, call.client = call.client, None
        if client is not None:
            del client.calls[call.client_id]
            self.output.add(client, RESULT, flags | LAST, call.client_id, 0, payload)

    def release(self, peer: Peer, seq: int) -> None:
        """The slots of a call are free, though its answer is still to come."""
        call = peer.serves[seq]
        peer.slots.by_calls -= call.slots
        call.slots = 0
        self.dispatcher.drain(peer, self.now)

    def _on_rare(self, peer: Peer, kind: int, subtype: int, seq: int, argument: int, payload: bytes) -> None:
        if kind == BODY:
            self._on_body(peer, subtype, seq, payload)
        elif kind == CREDIT:
            self._on_credit(peer, seq, argument)
        elif kind == CANCEL:
            call = peer.calls.pop(seq, None)
            if call is not None:
                self.dispatcher.abandon(call, self.now)
        elif kind == ANNOUNCE:
            self.dispatcher.announce(peer, decode_announcement(payload), self.now)
        elif kind == YIELDED:
            if self.dispatcher.sharing.on_yielded(peer, seq, argument, self.now):
                self.dispatcher.drain(peer, self.now)
        else:
            raise RemoteProtocolError(f"unknown message type 0x{kind:02x}", ErrorCode.UNKNOWN_TYPE)

    def _on_body(self, client: Peer, subtype: int, seq: int, payload: bytes) -> None:
        call = client.calls.get(seq)
        if call is None:
            return  # it has ended, and the client is about to receive why
        if call.is_complete or not call.flags & MORE:
            raise RemoteProtocolError(f"call {seq} has all its arguments", ErrorCode.BAD_STATE)
        if call.client_credit <= 0:  # as with results: one frame more than there is credit for
            raise RemoteProtocolError(f"call {seq} has sent more than it may", ErrorCode.TOO_LONG)
        call.client_credit -= len(payload) + _COST
        call.is_complete = bool(subtype & LAST)
        if call.peer is not None:
            self.output.add(call.peer, BODY, subtype, call.id, 0, payload)
        elif not self.waiting.extend(call, BODY, subtype, payload):
            self.dispatcher.leave(call, self.now)
            self.output.end(call, BUSY, f"calls that wait have {self.waiting.bytes:,} bytes already")
            return
        if call.is_complete and call.flags & CAST:
            del client.calls[seq]  # that was all of a cast: nothing comes back
            call.client = None

    def _on_credit(self, peer: Peer, seq: int, count: int) -> None:
        """From a client for its call, or from a worker for the arguments of one: no peer is both."""
        call = peer.calls.get(seq)
        if call is not None and call.peer is not None:
            count = min(count, MAX_CREDIT - call.credit)
            call.credit += count
            self.output.add(call.peer, CREDIT, 0, call.id, count)
            return
        call = peer.serves.get(seq)
        if call is not None and call.client is not None:
            count = min(count, MAX_CREDIT - call.client_credit)
            call.client_credit += count
            self.output.add(call.client, CREDIT, 0, call.client_id, count)
