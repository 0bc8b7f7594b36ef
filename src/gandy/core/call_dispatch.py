"""Which worker gets a call, and which calls wait: for a slot, or for a worker that offers their command.

A call goes to the next worker in turn that offers its command and has a free slot. A call that finds none waits,
first come, first served for each command, and goes out as soon as a slot is returned.
"""

from collections import OrderedDict
from typing import Final

from gandy.core.call_output import CallOutput
from gandy.core.calls import Call, OfferedCommand, Peer
from gandy.core.offers import Offers
from gandy.core.sharing import Sharing
from gandy.core.waiting import WaitingCalls
from gandy.core.workers import KnownWorker
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import MAX_PATIENCE
from gandy.moments import NEVER, Monotonic
from gandy.wire.calls import (
    AT,
    BUSY,
    CALL,
    CANCEL,
    CAST,
    DIRECT,
    EXPIRED,
    LOST,
    MORE,
    NO_CLOCK,
    PATIENT,
    UNKNOWN,
    YIELD,
    Announcement,
    read_name,
)
from gandy.wire.stream import MAGIC
from gandy.wire.v2 import HEADER

GRACE: Final = 6.0  # seconds that a command is kept after its last worker left; see how long workers pause
LAST_ID: Final = 0xFFFF_FFFF

_pack: Final = HEADER.pack
_LATE: Final = "its time was over before a slot was free"


class CallDispatcher:
    """A slot is taken when a call goes out, and returned when the worker says that the work has ended."""

    def __init__(self, now: Monotonic, output: CallOutput, waiting: WaitingCalls) -> None:
        self.offers = Offers()
        self.waiting = waiting
        self.sharing = Sharing(waiting)
        self._output = output
        self._opened = now

    @property
    def needs_ticks(self) -> bool:
        """True if `share` has something to do soon."""
        return bool(self.waiting.count or self.sharing.asked)

    # Sending

    def send(self, call: Call, peer: Peer, payload: bytes, now: Monotonic) -> None:
        """Send a call to a worker with a free slot."""
        number = self.assign(call, peer)
        if self._output.meter is not None:
            call.sent = float(now)
        left = 0 if call.deadline == NEVER else max(1, int((call.deadline - now) * 1000))
        out = peer.out
        if not out:
            self._output.touched.add(peer)
        out.append(_pack(MAGIC, CALL, call.flags, number, left, len(payload)))
        out.append(payload)

    def assign(self, call: Call, peer: Peer) -> int:
        """Take a slot for a call. Returns the number of the call at the worker."""
        number, serves = peer.next_id, peer.serves
        while number in serves:
            number = (number + 1) & LAST_ID
        peer.next_id = (number + 1) & LAST_ID
        serves[number] = call
        call.peer, call.id, call.slots = peer, number, call.command.offers[peer]
        peer.slots.by_calls += call.slots
        return number

    def send_to_worker(self, call: Call, worker: str, payload: bytes, now: Monotonic) -> None:
        """Send a call that is for this worker and no other."""
        peer = self.offers.workers.get(worker)
        if peer is None or call.command.name not in peer.offers:
            self._output.end(call, LOST, f"worker {worker} is not here, or does not offer it any more")
        elif call.flags & AT and not peer.knows_time:
            self._output.end(call, NO_CLOCK, f"worker {worker} does not know the shared time")
        elif peer.direct or peer.count_free() < peer.offers[call.command.name]:
            self.wait(call, payload, peer)
        else:
            self.send(call, peer, payload, now)

    def send_timed(self, call: Call, payload: bytes, now: Monotonic) -> None:
        """Choose the worker at once: one that knows the time, with a free slot if any of these has one."""
        command = call.command
        peer = self.offers.find_timely(command)
        if peer is not None:
            self.send_to_worker(call, peer.id, payload, now)
        elif command.offers:
            name = command.name.decode(errors="replace")
            self._output.end(call, NO_CLOCK, f"no worker that offers {name} knows the shared time")
        else:
            self._output.end(call, UNKNOWN, _describe_unknown(command.name))

    def expect_command(
        self, client: Peer, flags: int, seq: int, payload: bytes, now: Monotonic
    ) -> OfferedCommand | None:
        """Keep a place for a command that no worker offers yet: after a start of the foreman, workers reconnect.

        Returns None, and refuses the call, if no worker is expected to offer the command.
        """
        name, _ = read_name(payload)
        is_hopeless = now - self._opened >= GRACE and not flags & PATIENT
        if is_hopeless or len(self.offers.commands) >= self.waiting.max_calls:
            if not flags & CAST or flags & MORE:
                self._output.refuse(client, seq, UNKNOWN, _describe_unknown(name))
            return None
        command = self.offers.commands[name] = OfferedCommand(name, now)
        return command

    # Waiting

    def wait(self, call: Call, payload: bytes, peer: Peer | None = None) -> None:
        if self.waiting.has_room(len(payload)):
            self.waiting.add(call, payload, peer)
        else:
            name = call.command.name.decode(errors="replace")
            self._output.end(call, BUSY, f"{self.waiting.count:,} calls wait already, and no slot is free for {name}")

    def leave(self, call: Call, now: Monotonic) -> None:
        """Take a call out of its queue, without a slot. Calls behind it may need fewer slots than it did."""
        target = call.target
        self.waiting.remove(call)
        if target is not None:
            self.drain(target, now)

    def abandon(self, call: Call, now: Monotonic) -> None:
        """Cancel a call whose client does not want its result. The slot is free when the worker says so."""
        call.client = None
        if call.peer is None:
            self.leave(call, now)
        else:
            self._output.add(call.peer, CANCEL, 0, call.id)

    def drain(self, peer: Peer, now: Monotonic) -> None:
        """Give the free slots of a worker to the calls that have waited longest."""
        self.offers.line_up(peer)
        while self.waiting.count and (call := self.waiting.find(peer)) is not None:
            self.waiting.remove(call)
            if call.deadline <= now:
                self._output.end(call, EXPIRED, _LATE)
                continue
            (_, _, payload), *more = call.pending
            call.pending = ()
            if not call.flags & DIRECT:
                self.offers.use(peer)
            self.send(call, peer, payload, now)
            for kind, subtype, data in more:
                self._output.add(peer, kind, subtype, call.id, 0, data)

    # Workers

    def on_worker(self, peer: Peer, worker: KnownWorker, now: Monotonic) -> None:
        """Add a worker, whose announcement follows. This link replaces the one that it had before."""
        before = self.offers.workers.get(worker.info.id)
        if before is not None:
            self.on_cut(before, now)
        peer.id, peer.worker, peer.slots = worker.info.id, worker, worker.slots
        worker.serves = peer.serves
        worker.knows_time = False  # until it says so
        self.offers.add_worker(peer)

    def announce(self, peer: Peer, announcement: Announcement, now: Monotonic) -> None:
        """Replace what a worker offers. A door may offer commands that have no slot yet.

        Raises: RemoteProtocolError.
        """
        if not peer.id:
            raise RemoteProtocolError("an announcement of a peer that is not a worker", ErrorCode.BAD_STATE)
        offers = {offer.name.encode(): offer.slots for offer in announcement.offers}
        for name in peer.offers.keys() - offers.keys():
            self._withdraw(peer, self.offers.commands[name], now)
        peer.slots.reserved = announcement.reserved
        assert peer.worker is not None
        peer.knows_time = peer.worker.knows_time = announcement.knows_time
        peer.offers = offers
        for name, slots in offers.items():
            self.offers.add(peer, name, slots, now)
        self.drain(peer, now)

    def _withdraw(self, peer: Peer, command: OfferedCommand, now: Monotonic) -> None:
        self.offers.withdraw(peer, command, now)
        for call in [call for call in peer.direct.values() if call.command is command]:
            self.waiting.remove(call)
            self._output.end(call, LOST, "its worker does not offer the command any more")

    def on_cut(self, peer: Peer, now: Monotonic) -> None:
        """The link is gone: calls that it made are cancelled, and calls that it ran are lost."""
        while peer.calls:
            self.abandon(peer.calls.popitem()[1], now)
        for name in peer.offers:
            self._withdraw(peer, self.offers.commands[name], now)
        peer.offers = {}
        for call in peer.serves.values():
            call.peer = None
            self._output.end(call, LOST, f"worker {peer.id} was lost while it had the call")
        peer.serves.clear()
        self.sharing.on_cut(peer)
        self._output.touched.discard(peer)
        if self.offers.remove_worker(peer):
            peer.slots.forget_calls()

    # Time

    def on_time(self, now: Monotonic) -> None:
        """Expire calls that have waited too long, and commands that no worker offers any more."""
        for command in list(self.waiting.commands.values()):
            self._expire(command.queue, now)
        for peer in self.offers.workers.values():
            if peer.direct and self._expire(peer.direct, now):
                self.drain(peer, now)
        for command in [command for command in self.offers.commands.values() if not command.offers]:
            if now - command.gone_since >= GRACE:
                self._forget(command, is_final=now - command.gone_since >= MAX_PATIENCE)

    def _expire(self, queue: OrderedDict[int, Call], now: Monotonic) -> bool:
        late = [call for call in queue.values() if call.deadline <= now]
        for call in late:
            self.waiting.remove(call)
            self._output.end(call, EXPIRED, _LATE)
        return bool(late)

    def _forget(self, command: OfferedCommand, is_final: bool) -> None:
        for call in [call for call in command.queue.values() if is_final or not call.flags & PATIENT]:
            self.waiting.remove(call)
            self._output.end(call, UNKNOWN, _describe_unknown(command.name))
        if not command.queue:
            del self.offers.commands[command.name]

    def share(self, now: Monotonic) -> None:
        """Ask workers to leave slots of tasks to calls that wait, or to use them for tasks again."""
        for peer in self.sharing.decide(self.offers.workers.values(), now):
            self._output.add(peer, YIELD, 0, peer.slots.request.count, peer.slots.request.slots)

    def check(self, *, is_settled: bool = True) -> None:
        """What must hold after every step; for tests. Until `is_settled`, free slots may be meant for tasks."""
        if is_settled:
            self._check_room()
        self.offers.check()
        commands, waiting, workers = self.offers.commands, self.waiting, self.offers.workers
        queued = [call for command in waiting.commands.values() for call in command.queue.values()]
        queued += [call for peer in workers.values() for call in peer.direct.values()]
        assert len(queued) == waiting.count
        assert sum(len(data) for call in queued for _, _, data in call.pending) == waiting.bytes
        assert all(call.peer is None for call in queued)
        known = set(workers.values())
        for command in commands.values():
            assert bool(command.queue) == (command.name in waiting.commands)
            assert not command.queue or list(command.queue) == sorted(command.queue)
            assert known.issuperset(command.offers)
        for peer in known:
            assert peer.worker is not None
            assert peer.worker.slots is peer.slots
            assert peer.worker.serves == peer.serves
            assert peer.slots.by_calls == sum([call.slots for call in peer.serves.values()])
            for number, call in peer.serves.items():
                assert (call.peer, call.id) == (peer, number)
                assert call.client is None or call.client.calls[call.client_id] is call

    def _check_room(self) -> None:
        """No call waits for a slot that is free; for tests."""
        commands = self.offers.commands
        for peer in self.offers.workers.values():
            for name, slots in peer.offers.items():
                assert not (commands[name].queue and peer.count_free() >= slots), "a slot is free and a call waits"
            first = next(iter(peer.direct.values()), None)
            assert first is None or peer.count_free() < peer.offers[first.command.name], (
                "a slot is free and a call waits"
            )


def _describe_unknown(name: bytes) -> str:
    return f"no worker offers the command {name.decode(errors='replace')}"
