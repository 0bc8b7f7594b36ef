"""The worker's side of calls: it handles the foreman's frames about them, and keeps the table of calls.

Every call ends with a result for the foreman, even if the client has gone: that frees the slots in the foreman's
account. Knows neither jobs nor sockets.
"""

from collections.abc import Callable
from functools import partial
from typing import Any, Final

from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.functions.values import decode_args, encode_value
from gandy.limits import MAX_CALL_PAYLOAD, MAX_VALUE_BYTES
from gandy.moments import Shared
from gandy.wire.calls import (
    ANNOUNCE,
    AT,
    BODY,
    CALL,
    CANCEL,
    CAST,
    CREDIT,
    DIRECT,
    EXPIRED,
    FAILED,
    FRAME_COST,
    LAST,
    MORE,
    NO_CLOCK,
    PICKLED,
    PLAIN_CALL,
    PLAIN_HEADER,
    PLAIN_RESULT,
    REFUSED,
    RESULT,
    UNKNOWN,
    WINDOW_BYTES,
    YIELD,
    encode_announcement,
    encode_failure,
    encode_refusal,
    read_name,
    read_time,
)
from gandy.wire.stream import MAGIC
from gandy.wire.v2 import HEADER
from gandy.worker.call_frames import CallFrames
from gandy.worker.call_results import CallResults, make_failure
from gandy.worker.call_runner import CallRunner
from gandy.worker.call_slots import CallSlots
from gandy.worker.commands import Commands, Way
from gandy.worker.ensemble_clock import EnsembleClock
from gandy.worker.loop_queue import LoopQueue
from gandy.worker.running_call import CallCancelled, RunningCall
from gandy.worker.threads import Threads

_HEAD: Final = HEADER.size
_pack_plain: Final = PLAIN_HEADER.pack
_unpack_plain: Final = PLAIN_HEADER.unpack_from
_FAILED_RESULT: Final = MAGIC | RESULT << 16 | (LAST | FAILED) << 24
_NEEDS_CALL: Final = MORE | PICKLED | CAST | AT  # with these, even a command that takes no time needs a RunningCall


class CallService:
    """All calls of one conversation. Runs on the current loop."""

    def __init__(
        self,
        commands: Commands,
        slots: int,
        reserved: int,
        write: Callable[[bytes], None],
        threads: Threads | None = None,
        clock: EnsembleClock | None = None,
    ) -> None:
        """`threads` and `clock`: of a worker that has several conversations."""
        self._commands = commands
        self._all_slots = slots
        self._calls: dict[int, RunningCall] = {}  # of the current link, by number
        self._is_leaving = False
        self._frames = CallFrames(write)
        self.flush = self._frames.flush
        queue = LoopQueue(self._frames.flush)
        self.slots = CallSlots(reserved, self._frames)
        self.results = CallResults(self._frames, queue, self._end)
        self.runner = CallRunner(threads or Threads(slots), self.results, queue)
        self.on_room: Callable[[], None] = lambda: None  # called when slots become free, or are no longer wanted
        self.clock = clock or EnsembleClock(self.announce)
        self._queue = queue

    @property
    def is_idle(self) -> bool:
        return not self._calls

    def on_welcome(self) -> None:
        """The foreman has agreed to calls: announce our commands."""
        self._frames.is_open = True
        self.announce()
        self._frames.flush()

    def on_cut(self) -> None:
        """The link is gone: cancel all calls. Calls of the next link have new numbers."""
        self._frames.close()
        self.slots.forget_request()
        for call in list(self._calls.values()):
            self._cancel(call)
        self._calls.clear()

    def leave(self) -> None:
        """Withdraw all commands. Calls that run go on."""
        self._is_leaving = True
        self.announce()

    def announce_soon(self) -> None:
        """Announce our commands again. Any thread may call this."""
        self._queue.put(self.announce)

    def announce(self) -> None:
        """Announce our commands to the foreman."""
        offers = [] if self._is_leaving else self._commands.offers(self._all_slots)
        payload = encode_announcement(self._all_slots, self.slots.reserved, offers, self.clock.is_known)
        self._frames.send(ANNOUNCE, 0, 0, 0, payload)

    # What the foreman sends

    def take_plain(self, data: bytes, at: int) -> int:
        """Answer plain calls of commands that take no time. `flush` sends the answers.

        Returns where the first frame begins that is not such a call.
        """
        # Not with `read_frames`: this loop is most of what an echo costs. A body begins with the length of the name, so
        # the keys of `at_once` include that length, and no name is decoded.
        end, at_once = len(data), self._commands.at_once
        while (body := at + _HEAD) < end:
            head, number, _, size = _unpack_plain(data, at)
            stop = body + size
            args = body + 1 + data[body]
            if head != PLAIN_CALL or not args <= stop <= end or size > MAX_CALL_PAYLOAD:
                break
            function = at_once.get(data[body:args])
            if function is None:
                break
            self._answer(number, function, data[args:stop])
            at = stop
        return at

    def on_frame(self, kind: int, subtype: int, number: int, argument: int, payload: bytes) -> None:
        """Handle a frame from the foreman. Raises: RemoteProtocolError."""
        if kind == CALL:
            self._on_call(number, subtype, payload)
        elif kind == BODY:
            self._on_body(number, subtype, payload)
        elif kind == CREDIT:
            if (call := self._calls.get(number)) is not None:
                call.add_credit(argument)
        elif kind == CANCEL:
            if (call := self._calls.get(number)) is not None:
                self._cancel(call)
        elif kind == YIELD:
            self.slots.on_yield(number, argument)
            self.on_room()
        else:
            raise RemoteProtocolError(f"unknown message type 0x{kind:02x}", ErrorCode.UNKNOWN_TYPE)

    def _on_call(self, number: int, flags: int, payload: bytes) -> None:
        name, at = read_name(payload)
        if flags & DIRECT:
            _, at = read_name(payload, at)
        time: Shared | None = None
        if flags & AT:
            time, at = read_time(payload, at)
        command = self._commands.find(name)
        if command is not None and command.way is Way.AT_ONCE and not flags & _NEEDS_CALL:
            self._answer(number, command.function, payload[at:])
            self._frames.flush_soon()
            return
        if command is None:
            text = f"the worker does not offer the command {name.decode(errors='replace')} any more"
            self._frames.send(RESULT, LAST | REFUSED, number, 0, encode_refusal(UNKNOWN, text))
            return
        call = self._calls[number] = RunningCall(number, flags, command, min(command.slots, self._all_slots))
        self.slots.in_use += call.slots
        call.at = time
        if flags & MORE:
            call.pieces.append(payload[at:])
        else:
            self._begin(call, payload[at:])

    def _answer(self, number: int, function: Callable[..., Any], body: bytes) -> None:
        """Run a command that takes no time: it uses no slot, and needs no RunningCall."""
        try:
            data = encode_value(function(*decode_args(body)))
            head = PLAIN_RESULT
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            data, head = encode_failure(make_failure(error)), _FAILED_RESULT
        self._frames.parts.append(_pack_plain(head, number, 0, len(data)) + data)

    def _on_body(self, number: int, subtype: int, payload: bytes) -> None:
        call = self._calls.get(number)
        if call is None:
            return
        call.size += len(payload)
        if call.size > MAX_VALUE_BYTES:
            raise RemoteProtocolError(
                f"the arguments of a call have more than {MAX_VALUE_BYTES} bytes", ErrorCode.TOO_LONG
            )
        call.pieces.append(payload)
        if subtype & LAST:
            body = b"".join(call.pieces)
            call.pieces.clear()
            self._begin(call, body)
            return
        call.owed += len(payload) + FRAME_COST
        if call.owed >= WINDOW_BYTES // 2:
            self._frames.send(CREDIT, 0, number, call.owed)
            call.owed = 0

    def _cancel(self, call: RunningCall) -> None:
        call.is_cancelled = True
        if call.held is not None:
            call.held.cancel()
        if call.pieces or call.held is not None:  # it has not begun
            self.results.fail(call, CallCancelled())
        else:
            self.runner.cancel(call)

    # From the last argument to the result

    def _begin(self, call: RunningCall, body: bytes) -> None:
        """Start a call whose arguments are complete, or hold it until its time."""
        try:
            start = self.runner.prepare(call, body)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            self.results.fail(call, error)
            return
        if call.at is None:
            start()
        else:
            self._hold(call, call.at, start)

    def _hold(self, call: RunningCall, at: Shared, start: Callable[[], None]) -> None:
        """Keep the call's slots until its time. Refuse it if it is late: of several workers, none may begin late."""
        self.clock.update()
        if not self.clock.is_known:
            self.results.refuse(call, NO_CLOCK, "the worker does not know the shared time")
        elif (late := self.clock.seconds_since(at)) > 0:
            self.results.refuse(call, EXPIRED, f"its time had passed by {late:.3f} s when it reached its worker")
        else:
            on_lost = partial(self.results.refuse, call, NO_CLOCK)
            call.held = self.clock.call_at(at, partial(self._start_held, call, start), on_lost)

    def _start_held(self, call: RunningCall, start: Callable[[], None]) -> None:
        call.held = None
        start()
        self._frames.flush()

    def _end(self, call: RunningCall, flags: int, payload: bytes) -> None:
        """End a call whose work has ended: free its slots and send the result."""
        if call.is_over:
            return
        call.is_over = True
        self.slots.in_use -= call.slots
        if self._calls.get(call.number) is call:  # else its link is gone
            del self._calls[call.number]
            self._frames.send(RESULT, flags, call.number, 0, payload)
        self.on_room()
