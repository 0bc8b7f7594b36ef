"""Calls on their way: which worker gets one, which ones wait, and whose result it is. No clock, no sockets, no values.

The round-robin of docs/protocol/roundrobin.md with its weak places mended. A call goes to the next worker in turn that
offers its command and has a free slot; a slot is taken when the call goes out, and returned when the worker says that
the work has ended. What finds no slot waits, first come first served for each command, and goes out as soon as a slot
is returned.

This is the hot path: plain calls on plain data, frames in and frames out, and nothing is opened but the header.
"""

from collections import OrderedDict
from struct import Struct as Layout
from typing import Final

from gandy.core.calls import Call, OfferedCommand, OnOut, Peer
from gandy.core.offers import Offers
from gandy.core.sharing import Sharing
from gandy.core.waiting import WaitingCalls
from gandy.core.workers import KnownWorker
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import MAX_CALL_PAYLOAD, MAX_CREDIT, MAX_PATIENCE, MAX_QUEUED_BYTES, MAX_QUEUED_CALLS
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
    EXPIRED,
    FAILED,
    FRAME_COST,
    LAST,
    LOST,
    MORE,
    NO_CLOCK,
    PATIENT,
    PLAIN_CALL,
    PLAIN_HEADER,
    PLAIN_RESULT,
    REFUSED,
    RESULT,
    UNKNOWN,
    YIELD,
    YIELDED,
    Announcement,
    decode_announcement,
    encode,
    encode_refusal,
    read_name,
    read_time,
)
from gandy.wire.stream import MAGIC
from gandy.wire.v2 import HEADER

GRACE: Final = 6.0  # seconds that a command whose last worker left is still expected back; see the worker's pauses
PATIENCE: Final = 0.02  # seconds that calls wait before tasks of jobs are asked to leave slots to them
LAST_ID: Final = 0xFFFF_FFFF

_HEAD: Final = HEADER.size
_SEQ_AT: Final = 4  # in a header
_pack: Final = HEADER.pack
_pack_number: Final = Layout("<I").pack_into
_unpack_plain: Final = PLAIN_HEADER.unpack_from
_COST: Final = FRAME_COST
_RARE: Final = DIRECT | AT
_LATE: Final = "its time was over before a slot was free"


class Switchboard:
    """All calls of one foreman. Whatever is in `touched` after a step has something to send."""

    def __init__(self, now: Monotonic, max_queued: int = MAX_QUEUED_CALLS, max_bytes: int = MAX_QUEUED_BYTES) -> None:
        self.touched: set[Peer] = set()
        self.now = now  # of the frames that come; a step is short
        self._opened = now
        self._offers = Offers()
        self._waiting = WaitingCalls(max_queued, max_bytes)
        self._sharing = Sharing(self._waiting)
        self._workers: dict[str, Peer] = {}
        self._peers = 0

    @property
    def queued(self) -> int:
        return self._waiting.count

    @property
    def needs_ticks(self) -> bool:
        """Whether `on_time` has something to look after."""
        return bool(self._waiting.count or self._sharing.asked)

    def add_peer(self, on_out: OnOut | None = None) -> Peer:
        self._peers += 1
        return Peer(self._peers, on_out)

    def next_turn(self, peer: Peer) -> int:
        """When a worker is looked at, as a number: the least one is the next."""
        return self._offers.next_turn(peer)

    def list_offers(self, worker: str) -> list[str]:
        peer = self._workers.get(worker)
        return [] if peer is None else sorted(name.decode(errors="replace") for name in peer.offers)

    def count_running(self, worker: str) -> int:
        peer = self._workers.get(worker)
        return 0 if peer is None else len(peer.serves)

    # Frames

    def pass_calls(self, client: Peer, data: bytes, at: int) -> int:
        """The short way of plain calls to workers with a free slot: frames stay as they are, but for their numbers."""
        end, calls, commands, find_worker = len(data), client.calls, self._offers.commands, self._offers.find_worker
        frames, begin, receiver = bytearray(), at, None
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
            _pack_number(frames, at + _SEQ_AT, self._assign(call, peer))
            at = stop
        if receiver is not None:
            self._pass_on(receiver, frames[begin:at])
        return at

    def pass_results(self, peer: Peer, data: bytes, at: int) -> int:
        """The same for plain results."""
        end, serves = len(data), peer.serves
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
            _pack_number(frames, at + _SEQ_AT, seq)
            at = stop
        if receiver is not None:
            self._pass_on(receiver, frames[begin:at])
            if peer.missing or self._waiting.count:
                self._drain(peer, self.now)
        return at

    def _pass_on(self, peer: Peer, frames: bytearray) -> None:
        if not peer.out:
            self.touched.add(peer)
        peer.out.append(frames)

    def on_frame(self, peer: Peer, kind: int, subtype: int, seq: int, padding: int, payload: bytes) -> None:
        """At `now`. Raises: RemoteProtocolError. Close the link."""
        if kind == CALL:
            self._on_call(peer, subtype, seq, padding, payload, self.now)
        elif kind == RESULT:
            self._on_result(peer, subtype, seq, payload, self.now)
        else:
            self._on_rare(peer, kind, subtype, seq, padding, payload, self.now)

    def _on_call(self, client: Peer, flags: int, seq: int, age_ms: int, payload: bytes, now: Monotonic) -> None:
        end = payload[0] + 1 if payload else 0
        name = payload[1:end]
        command = self._offers.commands.get(name)
        if command is None or end > len(payload):
            command = self._add_unknown(client, flags, seq, payload, now)
            if command is None:
                return
        worker = b""
        if flags & _RARE:
            worker, end = read_name(payload, end) if flags & DIRECT else (b"", end)
            if flags & AT:
                read_time(payload, end)
        call = Call(client, seq, command, flags, now + age_ms * 0.001 if age_ms else NEVER)
        if flags & CAST and not flags & MORE:
            call.client = None
        elif seq in client.calls:
            raise RemoteProtocolError(f"call {seq} is in progress already", ErrorCode.BAD_SEQ)
        else:
            client.calls[seq] = call
        if worker:
            self._on_direct(call, worker.decode(errors="replace"), payload, now)
        elif flags & AT:
            self._on_timed(call, payload, now)
        elif command.queue or (peer := self._offers.find_worker(command)) is None:
            self._wait(call, payload)
        else:
            self._send(call, peer, payload, now)

    def _send(self, call: Call, peer: Peer, payload: bytes, now: Monotonic) -> None:
        number = self._assign(call, peer)
        left = 0 if call.deadline == NEVER else max(1, int((call.deadline - now) * 1000))
        out = peer.out
        if not out:
            self.touched.add(peer)
        out.append(_pack(MAGIC, CALL, call.flags, number, left, len(payload)))
        out.append(payload)

    def _assign(self, call: Call, peer: Peer) -> int:
        """A slot is taken when the call goes out. Gives the number of the call there."""
        number, serves = peer.next_id, peer.serves
        while number in serves:
            number = (number + 1) & LAST_ID
        peer.next_id = (number + 1) & LAST_ID
        serves[number] = call
        call.peer, call.id, call.slots = peer, number, call.command.offers[peer]
        peer.slots.by_calls += call.slots
        return number

    def _on_result(self, peer: Peer, flags: int, seq: int, payload: bytes, now: Monotonic) -> None:
        call = peer.serves.get(seq)
        if call is None:
            raise RemoteProtocolError(f"a result of call {seq}, which is not in progress", ErrorCode.BAD_SEQ)
        client = call.client
        if client is not None and (flags & LAST or not call.flags & CAST):  # who still sends a cast hears of its end
            out = client.out
            if not out:
                self.touched.add(client)
            out.append(_pack(MAGIC, RESULT, flags, call.client_id, 0, len(payload)))
            out.append(payload)
        if flags & LAST:
            del peer.serves[seq]
            peer.slots.by_calls -= call.slots
            if client is not None:
                del client.calls[call.client_id]
            if peer.missing or self._waiting.count:
                self._drain(peer, now)
            return
        if flags & (FAILED | REFUSED):
            raise RemoteProtocolError(f"call {seq} failed, and sends more", ErrorCode.BAD_STATE)
        if call.credit <= 0:  # a worker that has some left may send one frame more, however long
            raise RemoteProtocolError(f"call {seq} has sent more than it may", ErrorCode.TOO_LONG)
        call.credit -= len(payload) + _COST

    def on_answer(self, peer: Peer, seq: int, flags: int, payload: bytes = b"") -> None:
        """The caller has all that it gets. The slot stays taken until a RESULT with LAST, which no caller waits for."""
        call = peer.serves[seq]
        client, call.client = call.client, None
        if client is not None:
            del client.calls[call.client_id]
            self._send_frame(client, RESULT, flags | LAST, call.client_id, 0, payload)

    def release(self, peer: Peer, seq: int) -> None:
        """The slots of a call are free, though its answer is still to come."""
        call = peer.serves[seq]
        peer.slots.by_calls -= call.slots
        call.slots = 0
        self._drain(peer, self.now)

    def _on_rare(
        self, peer: Peer, kind: int, subtype: int, seq: int, padding: int, payload: bytes, now: Monotonic
    ) -> None:
        if kind == BODY:
            self._on_body(peer, subtype, seq, payload, now)
        elif kind == CREDIT:
            self._on_credit(peer, seq, padding)
        elif kind == CANCEL:
            self._on_cancel(peer, seq, now)
        elif kind == ANNOUNCE:
            self.announce(peer, decode_announcement(payload), now)
        elif kind == YIELDED:
            if self._sharing.on_yielded(peer, seq, padding, now):
                self._drain(peer, now)
        else:
            raise RemoteProtocolError(f"unknown message type 0x{kind:02x}", ErrorCode.UNKNOWN_TYPE)

    def _on_body(self, client: Peer, subtype: int, seq: int, payload: bytes, now: Monotonic) -> None:
        call = client.calls.get(seq)
        if call is None:
            return  # it is over already, and the client is about to hear of it
        if call.is_complete or not call.flags & MORE:
            raise RemoteProtocolError(f"call {seq} has all its arguments", ErrorCode.BAD_STATE)
        if call.client_credit <= 0:  # as with results: one frame more than there is credit for
            raise RemoteProtocolError(f"call {seq} has sent more than it may", ErrorCode.TOO_LONG)
        call.client_credit -= len(payload) + _COST
        call.is_complete = bool(subtype & LAST)
        if call.peer is not None:
            self._send_frame(call.peer, BODY, subtype, call.id, 0, payload)
        elif not self._waiting.extend(call, BODY, subtype, payload):
            self._leave(call, now)
            self._end(call, BUSY, f"calls that wait have {self._waiting.bytes:,} bytes already")
            return
        if call.is_complete and call.flags & CAST:
            # That was all of a cast: nothing comes back.
            del client.calls[seq]
            call.client = None

    def _on_credit(self, peer: Peer, seq: int, count: int) -> None:
        """From a client for its call, or from a worker for the arguments of one: no peer is both."""
        call = peer.calls.get(seq)
        if call is not None and call.peer is not None:
            count = min(count, MAX_CREDIT - call.credit)
            call.credit += count
            self._send_frame(call.peer, CREDIT, 0, call.id, count)
            return
        call = peer.serves.get(seq)
        if call is not None and call.client is not None:
            count = min(count, MAX_CREDIT - call.client_credit)
            call.client_credit += count
            self._send_frame(call.client, CREDIT, 0, call.client_id, count)

    def _on_cancel(self, client: Peer, seq: int, now: Monotonic) -> None:
        call = client.calls.pop(seq, None)
        if call is not None:
            self._abandon(call, now)

    def _abandon(self, call: Call, now: Monotonic) -> None:
        """Its result is not wanted. The slot is free when the worker says so."""
        call.client = None
        if call.peer is None:
            self._leave(call, now)
        else:
            self._send_frame(call.peer, CANCEL, 0, call.id)

    def _send_frame(
        self, peer: Peer, kind: int, subtype: int, seq: int, padding: int = 0, payload: bytes = b""
    ) -> None:
        self.touched.add(peer)
        peer.out.append(encode(kind, subtype, seq, padding, payload))

    def _refuse(self, client: Peer, seq: int, code: int, text: str) -> None:
        self._send_frame(client, RESULT, LAST | REFUSED, seq, 0, encode_refusal(code, text))

    def _end(self, call: Call, code: int, text: str) -> None:
        """The call is over, and not because its worker said so."""
        client, call.client = call.client, None
        if client is not None:
            del client.calls[call.client_id]
            if not call.flags & CAST or not call.is_complete:  # a client that still sends a cast must know
                self._refuse(client, call.client_id, code, text)

    # Who gets a call

    def _on_direct(self, call: Call, worker: str, payload: bytes, now: Monotonic) -> None:
        peer = self._workers.get(worker)
        if peer is None or call.command.name not in peer.offers:
            self._end(call, LOST, f"worker {worker} is not here, or does not offer it any more")
        elif call.flags & AT and not peer.knows_time:
            self._end(call, NO_CLOCK, f"worker {worker} does not know the shared time")
        elif peer.direct or peer.count_free() < peer.offers[call.command.name]:
            self._wait(call, payload, peer)
        else:
            self._send(call, peer, payload, now)

    def _on_timed(self, call: Call, payload: bytes, now: Monotonic) -> None:
        """It has a worker from the beginning: one that knows the time, and has a free slot if any of these has."""
        command = call.command
        peer = self._offers.find_timely(command)
        if peer is not None:
            self._on_direct(call, peer.id, payload, now)
        elif command.offers:
            name = command.name.decode(errors="replace")
            self._end(call, NO_CLOCK, f"no worker that offers {name} knows the shared time")
        else:
            self._end(call, UNKNOWN, _describe_unknown(command.name))

    # Those who wait

    def _wait(self, call: Call, payload: bytes, peer: Peer | None = None) -> None:
        if self._waiting.has_room(len(payload)):
            self._waiting.add(call, payload, peer)
        else:
            name = call.command.name.decode(errors="replace")
            self._end(call, BUSY, f"{self._waiting.count:,} calls wait already, and no slot is free for {name}")

    def _leave(self, call: Call, now: Monotonic) -> None:
        """It waits no longer, and gets no slot. Those behind it may need fewer slots than it did."""
        target = call.target
        self._waiting.remove(call)
        if target is not None:
            self._drain(target, now)

    def _drain(self, peer: Peer, now: Monotonic) -> None:
        """A worker may have free slots: the call that has waited longest gets them."""
        self._offers.line_up(peer)
        while self._waiting.count and (call := self._waiting.find(peer)) is not None:
            self._waiting.remove(call)
            if call.deadline <= now:
                self._end(call, EXPIRED, _LATE)
                continue
            (_, _, payload), *more = call.pending
            call.pending = ()
            if not call.flags & DIRECT:
                self._offers.use(peer)
            self._send(call, peer, payload, now)
            for kind, subtype, data in more:
                self._send_frame(peer, kind, subtype, call.id, 0, data)

    def on_room(self, worker: str, now: Monotonic) -> None:
        """Jobs have left slots of this worker."""
        peer = self._workers.get(worker)
        if peer is not None and (self._waiting.count or peer.missing):
            self._drain(peer, now)

    # Who is here

    def announce(self, peer: Peer, said: Announcement, now: Monotonic) -> None:
        """What a worker offers from now on, and what no more. A door may offer commands that have no slot yet."""
        if not peer.id:
            raise RemoteProtocolError("an announcement of a peer that is not a worker", ErrorCode.BAD_STATE)
        offers = {offer.name.encode(): offer.slots for offer in said.offers}
        for name in peer.offers.keys() - offers.keys():
            self._withdraw(peer, self._offers.commands[name], now)
        peer.slots.reserved = said.reserved
        assert peer.worker is not None
        peer.knows_time = peer.worker.knows_time = said.knows_time
        peer.offers = offers
        for name, slots in offers.items():
            self._offers.add(peer, name, slots, now)
        self._drain(peer, now)

    def _withdraw(self, peer: Peer, command: OfferedCommand, now: Monotonic) -> None:
        self._offers.withdraw(peer, command, now)
        for call in [call for call in peer.direct.values() if call.command is command]:
            self._waiting.remove(call)
            self._end(call, LOST, "its worker does not offer the command any more")

    def on_worker(self, peer: Peer, worker: KnownWorker) -> Peer | None:
        """A link turned out to be a worker's. Its announcement follows. Gives the link that it had before, if any."""
        before = self._workers.get(worker.info.id)
        if before is not None:
            self.on_cut(before, self.now)
        peer.id, peer.worker, peer.slots = worker.info.id, worker, worker.slots
        worker.serves = peer.serves
        worker.knows_time = False  # until it says so
        self._workers[peer.id] = peer
        self._offers.add_worker(peer)
        return before

    def on_cut(self, peer: Peer, now: Monotonic) -> None:
        """The link is gone: calls that it made are not wanted, and those that it ran are lost."""
        while peer.calls:
            self._abandon(peer.calls.popitem()[1], now)
        for name in peer.offers:
            self._withdraw(peer, self._offers.commands[name], now)
        peer.offers = {}
        for call in peer.serves.values():
            call.peer = None
            self._end(call, LOST, f"worker {peer.id} was lost while it had the call")
        peer.serves.clear()
        self._sharing.on_cut(peer)
        self.touched.discard(peer)
        if self._workers.get(peer.id) is peer:  # else the account is that of a newer link
            peer.slots.forget_calls()
            del self._workers[peer.id]
            self._offers.remove_worker(peer)

    def _add_unknown(self, client: Peer, flags: int, seq: int, payload: bytes, now: Monotonic) -> OfferedCommand | None:
        """No worker offers it. Just after the start of a foreman, workers are still on their way."""
        name, _ = read_name(payload)
        is_hopeless = now - self._opened >= GRACE and not flags & PATIENT
        if is_hopeless or len(self._offers.commands) >= self._waiting.max_calls:
            if not flags & CAST or flags & MORE:
                self._refuse(client, seq, UNKNOWN, _describe_unknown(name))
            return None
        command = self._offers.commands[name] = OfferedCommand(name, now)
        return command

    # Time

    def on_time(self, now: Monotonic) -> None:
        """Now and then: calls that wait too long, commands that no worker offers any more, slots to be shared."""
        for command in list(self._waiting.commands.values()):
            self._expire(command.queue, now)
        for peer in self._workers.values():
            if peer.direct and self._expire(peer.direct, now):
                self._drain(peer, now)
        for command in [command for command in self._offers.commands.values() if not command.offers]:
            if now - command.gone_since >= GRACE:
                self._forget(command, is_final=now - command.gone_since >= MAX_PATIENCE)

    def _expire(self, queue: OrderedDict[int, Call], now: Monotonic) -> bool:
        late = [call for call in queue.values() if call.deadline <= now]
        for call in late:
            self._waiting.remove(call)
            self._end(call, EXPIRED, _LATE)
        return bool(late)

    def _forget(self, command: OfferedCommand, is_final: bool) -> None:
        for call in [call for call in command.queue.values() if is_final or not call.flags & PATIENT]:
            self._waiting.remove(call)
            self._end(call, UNKNOWN, _describe_unknown(command.name))
        if not command.queue:
            del self._offers.commands[command.name]

    def share(self, now: Monotonic) -> None:
        """Calls that find no slot have tasks of jobs leave some, but never all that a task needs for long."""
        for peer in self._sharing.decide(self._workers.values(), now):
            self._send_frame(peer, YIELD, 0, peer.slots.request.count, peer.slots.request.slots)

    def check(self) -> None:
        """What must hold after every step in which no task ended; for tests."""
        self.check_tables()
        self.check_room()

    def check_tables(self) -> None:
        """What must hold after every step; for tests."""
        self._offers.check()
        commands, waiting = self._offers.commands, self._waiting
        queued = [call for command in waiting.commands.values() for call in command.queue.values()]
        queued += [call for peer in self._workers.values() for call in peer.direct.values()]
        assert len(queued) == waiting.count
        assert sum(len(data) for call in queued for _, _, data in call.pending) == waiting.bytes
        assert all(call.peer is None for call in queued)
        for command in commands.values():
            assert bool(command.queue) == (command.name in waiting.commands)
            orders = list(command.queue)
            assert orders == sorted(orders)
        assert {peer for command in commands.values() for peer in command.offers} <= set(self._workers.values())
        for peer in self._workers.values():
            assert peer.worker is not None
            assert (peer.worker.slots, peer.worker.serves) == (peer.slots, peer.serves)
            assert peer.slots.by_calls == sum(call.slots for call in peer.serves.values())
            for number, call in peer.serves.items():
                assert (call.peer, call.id) == (peer, number)
                assert call.client is None or call.client.calls[call.client_id] is call

    def check_room(self) -> None:
        """What must hold unless tasks have left slots, which are for other tasks first; for tests."""
        commands = self._offers.commands
        for peer in self._workers.values():
            for name, slots in peer.offers.items():
                assert not (commands[name].queue and peer.count_free() >= slots), "a slot is free and a call waits"
            first = next(iter(peer.direct.values()), None)
            assert first is None or peer.count_free() < peer.offers[first.command.name], (
                "a slot is free and a call waits"
            )


def _describe_unknown(name: bytes) -> str:
    return f"no worker offers the command {name.decode(errors='replace')}"
