"""Calls on a simulated worker: arguments in pieces, values as credit allows, cancels, and slots that tasks leave."""

from typing import TYPE_CHECKING, Final

import msgspec

from gandy.wire import calls
from gandy.wire.calls import AT, CAST, DIRECT, FAILED, FRAME_COST, LAST, MORE, REFUSED, WHOLE, WINDOW_BYTES, Offer
from gandy.wire.messages import Extension

if TYPE_CHECKING:
    from tests.sim.workers import GandyWorker

DURATIONS: Final = (0.0, 0.01, 0.1, 0.5)  # seconds of a call
CANCEL_SECONDS: Final = 0.01  # from a cancel until the work has ended
STREAMED: Final = "feed"  # the command that gives a stream
WIDE: Final = "wide"  # the command whose calls take several slots


class ServedCall:
    """One call that this worker has."""

    def __init__(self, number: int, name: str, flags: int, slots: int) -> None:
        self.number = number
        self.name = name
        self.flags = flags
        self.slots = slots
        self.at: float | None = None
        self.body = b""
        self.token = b""
        self.credit = WINDOW_BYTES
        self.pieces = 0  # of a stream, that are still to be sent
        self.is_cancelled = False


class CallRunner:
    """All calls of one worker."""

    def __init__(self, worker: "GandyWorker", commands: tuple[str, ...], reserved: int) -> None:
        self._worker = worker
        self._commands = commands
        self.reserved = reserved
        self._calls: dict[int, ServedCall] = {}
        self._offers: dict[str, int] = {}
        self._out: list[bytes] = []
        self._is_linked = False
        self.in_use = 0  # slots
        self.wanted = 0  # slots that tasks should leave to calls
        self._wanted_number = 0
        self._yielded = 0

    @property
    def borrowed(self) -> int:
        return max(self.wanted, self.in_use - self.reserved, 0)

    @property
    def is_idle(self) -> bool:
        return not self._calls

    def on_welcome(self) -> None:
        self._is_linked = Extension.CALLS in self._worker.side.framing.agreed
        self.announce()

    def on_cut(self) -> None:
        """Results cannot be sent any more."""
        self._is_linked = False
        self._calls.clear()
        self._out.clear()
        self.in_use = self.wanted = self._yielded = 0

    def announce(self) -> None:
        """Some of its commands, perhaps different from before."""
        worker = self._worker
        count = worker.random.randint(min(1, len(self._commands)), len(self._commands))
        names = worker.random.sample(self._commands, count)
        total = worker.slots + self.reserved
        self._offers = {name: min(2, total) if name == WIDE else 1 for name in names}
        self._send_offers()

    def look_at_clock(self) -> None:
        self._send_offers()

    def leave(self) -> None:
        self._offers = {}
        self._send_offers()

    def _send_offers(self) -> None:
        worker = self._worker
        offers = [Offer(name, slots) for name, slots in self._offers.items()]
        knows_time = worker.clock.read() is not None
        payload = calls.encode_announcement(worker.slots + self.reserved, self.reserved, offers, knows_time)
        self._say(calls.ANNOUNCE, 0, 0, 0, payload)
        self.flush()

    def report_yielded(self, free: int) -> None:
        """Tasks leave so many of their slots free, of those that were wanted."""
        given = min(self.wanted, free)
        if given != self._yielded and self._is_linked:
            self._yielded = given
            self._worker.laws.seen["yielded"] += given > 0
            self._say(calls.YIELDED, 0, self._wanted_number, given)
            self.flush()

    # Messages of the foreman

    def on_frame(self, kind: int, subtype: int, number: int, padding: int, payload: bytes) -> None:
        call = self._calls.get(number)
        if kind == calls.CALL:
            assert call is None
            self._on_call(number, subtype, payload)
        elif kind == calls.YIELD:
            self.wanted, self._wanted_number, self._yielded = padding, number, 0
            self._worker.tasks.start()
        elif call is None:
            pass
        elif kind == calls.BODY:
            self._on_body(call, subtype, payload)
        elif kind == calls.CREDIT:
            call.credit += padding
            self._go_on(call)
        elif kind == calls.CANCEL:
            call.is_cancelled = True
            self._worker.call_later(
                CANCEL_SECONDS, lambda: self._end(call, LAST | FAILED, _encode_failure("cancelled"))
            )

    def _on_call(self, number: int, flags: int, payload: bytes) -> None:
        name, at = calls.read_name(payload)
        if flags & DIRECT:
            _, at = calls.read_name(payload, at)
        time: float | None = None
        if flags & AT:
            time, at = calls.read_time(payload, at)
        slots = self._offers.get(name.decode())
        if slots is None:
            self._worker.laws.seen["command withdrawn"] += 1
            self._say(calls.RESULT, LAST | REFUSED, number, 0, calls.encode_refusal(calls.UNKNOWN, "no more"))
            return
        call = self._calls[number] = ServedCall(number, name.decode(), flags, slots)
        call.at, call.body = time, payload[at:]
        self.in_use += slots
        self._worker.check_slots()
        if not flags & MORE:
            self._prepare(call)

    def _on_body(self, call: ServedCall, flags: int, payload: bytes) -> None:
        call.body += payload
        if flags & LAST:
            self._prepare(call)
        else:
            self._say(calls.CREDIT, 0, call.number, len(payload) + FRAME_COST)

    # Running

    def _prepare(self, call: ServedCall) -> None:
        """All its arguments are here."""
        call.token = msgspec.msgpack.decode(call.body)[-1]
        if call.at is None:
            self._begin(call)
            return
        shared = self._worker.clock.read()
        if shared is None:
            self._refuse(call, calls.NO_CLOCK)
        elif shared > call.at:
            self._refuse(call, calls.EXPIRED)
        else:
            self._hold(call, call.at)

    def _hold(self, call: ServedCall, at: float) -> None:
        if self._calls.get(call.number) is not call or call.is_cancelled:
            return
        shared = self._worker.clock.read()
        if shared is None:
            self._refuse(call, calls.NO_CLOCK)
        elif shared >= at:
            self._worker.laws.seen["timed call"] += 1
            self._begin(call)
        else:
            self._worker.call_later(max(1e-5, at - shared), lambda: self._hold(call, at))
        self.flush()

    def _begin(self, call: ServedCall) -> None:
        worker = self._worker
        worker.laws.on_begun(worker.name, call.token, call.name)
        if call.name == STREAMED and not call.flags & CAST:
            call.pieces = worker.random.choice((1, 2, 5))
        worker.call_later(worker.random.choice(DURATIONS), lambda: self._go_on(call))

    def _go_on(self, call: ServedCall) -> None:
        """Send a piece if there is credit, and finally the end."""
        if self._calls.get(call.number) is not call or call.is_cancelled or not call.token:
            return
        worker = self._worker
        if call.pieces and call.credit <= 0:
            return  # continued when credit comes
        if call.pieces:
            call.pieces -= 1
            piece = msgspec.msgpack.encode((call.token + b":") * worker.random.choice((1, 1, 10_000)))
            call.credit -= len(piece) + FRAME_COST
            self._say(calls.RESULT, WHOLE, call.number, 0, piece)
            worker.call_later(worker.random.choice(DURATIONS) / 4, lambda: self._go_on(call))
            self.flush()
        elif worker.happens(worker.luck.call_failure):
            self._end(call, LAST | FAILED, _encode_failure(call.token.decode()))
        elif call.name == STREAMED:
            self._end(call, LAST, b"")
        else:
            self._end(call, LAST | WHOLE, b"" if call.flags & CAST else msgspec.msgpack.encode(call.token))

    def _refuse(self, call: ServedCall, code: int) -> None:
        self._end(call, LAST | REFUSED, calls.encode_refusal(code, "no"))

    def _end(self, call: ServedCall, flags: int, payload: bytes) -> None:
        """The work has ended, and the slot is free."""
        if self._calls.get(call.number) is call:
            del self._calls[call.number]
            self.in_use -= call.slots
            self._say(calls.RESULT, flags, call.number, 0, payload)
            self._worker.tasks.start()
            self._worker.flush()
            self.flush()
            self._worker.maybe_leave()

    def _say(self, kind: int, subtype: int, number: int, padding: int, payload: bytes = b"") -> None:
        if self._is_linked:
            self._out.append(calls.encode(kind, subtype, number, padding, payload))

    def flush(self) -> None:
        if self._out and self._worker.end is not None:
            self._worker.end.wire.write_up(b"".join(self._out))
        self._out.clear()


def _encode_failure(text: str) -> bytes:
    return calls.encode_failure(calls.CallFailure("ValueError", text))
