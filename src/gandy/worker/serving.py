"""Calls of commands, as their worker sees them: arguments in, the function runs, values out as credit allows.

It owns what runs here, and tells the foreman of each call when its work has ended, whether anybody wants the result or
not: that returns the slot. It knows neither jobs nor sockets.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import aclosing, closing
from functools import partial
from threading import Condition
from typing import Any, Final, assert_never

from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.functions.failures import describe_error, format_error
from gandy.functions.values import decode_args, encode_value
from gandy.limits import MAX_PIECE_BYTES, MAX_VALUE_BYTES
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
    MAX_CALL_PAYLOAD,
    MORE,
    NO_CLOCK,
    PICKLED,
    PLAIN_CALL,
    PLAIN_HEADER,
    PLAIN_RESULT,
    REFUSED,
    RESULT,
    STREAM,
    UNKNOWN,
    WHOLE,
    WINDOW_BYTES,
    YIELD,
    YIELDED,
    Failure,
    encode_announcement,
    encode_failure,
    encode_refusal,
    read_name,
    read_time,
)
from gandy.wire.stream import MAGIC
from gandy.wire.v2 import HEADER
from gandy.worker.appointments import Appointment, Appointments
from gandy.worker.commands import Command, Commands, Way
from gandy.worker.threads import Threads

log = logging.getLogger("gandy.worker")

_HEAD: Final = HEADER.size
_pack: Final = HEADER.pack
_pack_plain: Final = PLAIN_HEADER.pack
_unpack_plain: Final = PLAIN_HEADER.unpack_from
_DONE: Final = LAST | WHOLE
_FAILED_RESULT: Final = MAGIC | RESULT << 16 | (LAST | FAILED) << 24
_LONG_WAY: Final = MORE | PICKLED | CAST | AT  # for these, a command that takes no time needs a call too


class Call:
    """One call that runs here."""

    __slots__ = (
        "at",
        "command",
        "credit",
        "flags",
        "held",
        "is_cancelled",
        "is_over",
        "number",
        "owed",
        "pieces",
        "room",
        "size",
        "slots",
        "task",
    )

    def __init__(self, number: int, flags: int, command: Command, slots: int) -> None:
        self.number = number
        self.flags = flags
        self.command = command
        self.slots = slots
        self.at: float | None = None  # shared time at which it begins
        self.held: Appointment | None = None  # until then
        self.is_cancelled = False
        self.is_over = False
        self.credit = WINDOW_BYTES
        self.room: Condition | asyncio.Event | None = None  # to wait for credit
        self.task: asyncio.Task[None] | None = None
        self.pieces: list[bytes] = []  # of arguments that are not complete
        self.size = 0  # of these
        self.owed = 0  # credit for them

    @property
    def is_pickled(self) -> bool:
        return bool(self.flags & PICKLED)


class Cancelled(Exception):
    """Nobody wants the rest."""


class Serving:
    """All calls of one worker, on the current loop."""

    def __init__(self, commands: Commands, slots: int, reserved: int, write: Callable[[bytes], None]) -> None:
        self._commands = commands
        self._slots = slots
        self._reserved = reserved
        self._write = write
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, Call] = {}
        self._out: list[bytes] = []
        self._flush_is_due = False
        self._is_linked = False
        self._is_leaving = False
        self._threads = Threads(slots)
        self._posted: deque[Callable[[], None]] = deque()  # from threads
        self._is_woken = False
        self.in_use = 0  # slots
        self.wanted = 0  # slots that tasks of jobs should leave to calls
        self._wanted_number = 0
        self._yielded = 0
        self.on_room: Callable[[], None] = lambda: None  # slots are free, or no longer wanted
        self.appointments = Appointments()
        self.run_isolated: Callable[[Call, bytes], None] = lambda _call, _body: None
        self.kill_isolated: Callable[[Call], None] = lambda _call: None
        commands.on_change = lambda: self._post(self._announce)

    @property
    def borrowed(self) -> int:
        """Slots that tasks of jobs cannot have."""
        return max(self.wanted, self.in_use - self._reserved, 0)

    def on_welcome(self) -> None:
        """The foreman takes announcements and has calls for us."""
        self._is_linked = True
        self._announce()
        self.flush()

    def on_cut(self) -> None:
        """Nobody is there to hear of results. Calls of the next link have new numbers."""
        self._is_linked = False
        self.wanted = self._yielded = 0
        for call in list(self._calls.values()):
            self._cancel(call)
        self._calls.clear()
        self._out.clear()

    def close(self) -> None:
        self.on_cut()
        self._commands.on_change = lambda: None
        self._threads.close()

    @property
    def is_idle(self) -> bool:
        return not self._calls

    def leave(self) -> None:
        """Offer nothing any more. What runs goes on."""
        self._is_leaving = True
        self._announce()

    def _announce(self) -> None:
        if self._is_linked:
            offers = [] if self._is_leaving else self._commands.offers(self._slots)
            said = encode_announcement(self._slots, self._reserved, offers, self.appointments.knows_time)
            self._say(ANNOUNCE, 0, 0, 0, said)

    def on_clock(self) -> None:
        """Whether we know the shared time has changed, or somebody looks whether it has."""
        if self.appointments.look():
            self._announce()

    def tell_yielded(self, free: int) -> None:
        """Tasks of jobs leave so many of their slots free, of those that were wanted."""
        given = min(self.wanted, free)
        if given != self._yielded and self._is_linked:
            self._yielded = given
            self._say(YIELDED, 0, self._wanted_number, given)

    # What the foreman says

    def take_plain(self, data: bytes, at: int) -> int:
        """Answer plain calls of commands that take no time. `flush` sends the answers."""
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

    def on_frame(self, kind: int, subtype: int, number: int, padding: int, payload: bytes) -> None:
        """Raises: RemoteProtocolError."""
        if kind == CALL:
            self._on_call(number, subtype, payload)
        elif kind == BODY:
            self._on_body(number, subtype, payload)
        elif kind == CREDIT:
            self._on_credit(number, padding)
        elif kind == CANCEL:
            call = self._calls.get(number)
            if call is not None:
                self._cancel(call)
        elif kind == YIELD:
            self.wanted, self._wanted_number, self._yielded = padding, number, 0
            self.on_room()
        else:
            raise RemoteProtocolError(f"unknown message type 0x{kind:02x}", ErrorCode.UNKNOWN_TYPE)

    def _on_call(self, number: int, flags: int, payload: bytes) -> None:
        name, at = read_name(payload)
        if flags & DIRECT:
            _, at = read_name(payload, at)
        time: float | None = None
        if flags & AT:
            time, at = read_time(payload, at)
        command = self._commands.find(name)
        if command is not None and command.way is Way.AT_ONCE and not flags & _LONG_WAY:
            self._answer(number, command.function, payload[at:])
            self._flush_soon()
            return
        if command is None:
            text = f"the worker does not offer the command {name.decode(errors='replace')} any more"
            refusal = encode_refusal(UNKNOWN, text)
            self._say(RESULT, LAST | REFUSED, number, 0, refusal)
            return
        call = self._calls[number] = Call(number, flags, command, min(command.slots, self._slots))
        self.in_use += call.slots
        call.at = time
        if flags & MORE:
            call.pieces.append(payload[at:])
        else:
            self._begin(call, payload[at:])

    def _answer(self, number: int, function: Callable[..., Any], body: bytes) -> None:
        """The short way: a command that takes no time takes no slot either."""
        try:
            data = encode_value(function(*decode_args(body)))
            head = PLAIN_RESULT
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            data, head = encode_failure(make_failure(error)), _FAILED_RESULT
        self._out.append(_pack_plain(head, number, 0, len(data)) + data)

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
            self._say(CREDIT, 0, number, call.owed)
            call.owed = 0

    def _on_credit(self, number: int, count: int) -> None:
        call = self._calls.get(number)
        if call is None:
            return
        if isinstance(call.room, Condition):
            with call.room:
                call.credit += count
                call.room.notify_all()
        else:
            call.credit += count
            if call.room is not None:
                call.room.set()

    def _cancel(self, call: Call) -> None:
        call.is_cancelled = True
        if call.held is not None:
            call.held.cancel()
        if call.pieces or call.held is not None:  # it has not begun
            self._fail(call, Cancelled())
        elif call.task is not None:
            call.task.cancel()
        elif isinstance(call.room, Condition):
            with call.room:
                call.room.notify_all()
        elif call.command.way is Way.PROCESS:
            self.kill_isolated(call)

    # Running

    def _begin(self, call: Call, body: bytes) -> None:
        """All its arguments are here."""
        try:
            start = self._prepare(call, body)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            self._fail(call, error)
            return
        if call.at is None:
            start()
        else:
            self._hold(call, call.at, start)

    def _prepare(self, call: Call, body: bytes) -> Callable[[], None]:
        """All that can be done before it begins. Raises: whatever the arguments want."""
        way = call.command.way
        if way.is_stream and not call.flags & (STREAM | CAST):
            raise TypeError(f"{call.command.name} gives a stream: ask for one")
        if way is Way.PROCESS:
            return partial(self._start_isolated, call, body)
        args = decode_args(body, call.is_pickled)
        match way:
            case Way.AT_ONCE:
                return partial(self._run_at_once, call, args)
            case Way.LOOP:
                return lambda: self._spawn(call, self._run(call, args))
            case Way.LOOP_STREAM:
                return lambda: self._spawn(call, self._run_stream(call, args))
            case Way.THREAD:
                return partial(self._threads.submit, self._work, call, args)
            case Way.THREAD_STREAM:
                call.room = Condition()
                return partial(self._threads.submit, self._work_stream, call, args)
            case _:
                assert_never(way)

    def _run_at_once(self, call: Call, args: Sequence[Any]) -> None:
        try:
            value = call.command.function(*args)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            self._fail(call, error)
        else:
            self._finish(call, value)

    def _start_isolated(self, call: Call, body: bytes) -> None:
        try:
            self.run_isolated(call, body)
        except Exception as error:  # noqa: BLE001 - whatever it is, the caller gets it
            self._fail(call, error)

    def _hold(self, call: Call, at: float, start: Callable[[], None]) -> None:
        """Until its time, with its slot. Who calls several workers wants all of them or a reason, and nothing late."""
        self.on_clock()
        if not self.appointments.knows_time:
            self.refuse(call, NO_CLOCK, "the worker does not know the shared time")
        elif (late := self.appointments.tell_late(at)) > 0:
            self.refuse(call, EXPIRED, f"its time was over by {late:.3f} s when its worker had it")
        else:
            on_lost = partial(self.refuse, call, NO_CLOCK)
            call.held = self.appointments.make(at, partial(self._start_held, call, start), on_lost)

    def _start_held(self, call: Call, start: Callable[[], None]) -> None:
        call.held = None
        start()
        self.flush()

    def _spawn(self, call: Call, work: Coroutine[Any, Any, None]) -> None:
        call.task = self._loop.create_task(work)
        call.task.add_done_callback(lambda _task: self._on_task_done(call))

    def _on_task_done(self, call: Call) -> None:
        """A task that is cancelled before its first step never runs, not even its `except`."""
        if not call.is_over and call.is_cancelled:
            self._fail(call, Cancelled())

    async def _run(self, call: Call, args: Sequence[Any]) -> None:
        try:
            value = await call.command.function(*args)
        except BaseException as error:  # noqa: BLE001 - also that it was cancelled
            self._fail(call, error)
        else:
            self._finish(call, value)

    async def _run_stream(self, call: Call, args: Sequence[Any]) -> None:
        call.room = asyncio.Event()
        try:
            values: AsyncIterator[Any] = call.command.function(*args)
            async with aclosing(values):  # type: ignore[type-var]
                async for value in values:
                    await self._send_pieces(call, encode_value(value, call.is_pickled), WHOLE)
        except BaseException as error:  # noqa: BLE001 - also that it was cancelled
            self._fail(call, error)
        else:
            self._end(call, LAST, b"")

    async def _send_pieces(self, call: Call, body: bytes, last: int) -> None:
        """A value, cut into pieces, each when there is credit for it. The end of a call needs none."""
        assert isinstance(call.room, asyncio.Event)
        for at in range(0, len(body) or 1, MAX_PIECE_BYTES):
            piece = body[at : at + MAX_PIECE_BYTES]
            is_end = at + MAX_PIECE_BYTES >= len(body)
            if is_end and last & LAST:
                self._end(call, last, piece)
                return
            if call.flags & CAST:  # nobody reads it, and nobody grants credit
                await asyncio.sleep(0)
                return
            while call.credit <= 0 and not call.is_cancelled:
                call.room.clear()
                await call.room.wait()
            if call.is_cancelled:  # and the command did not care
                raise Cancelled
            call.credit -= len(piece) + FRAME_COST
            self._say(RESULT, last if is_end else 0, call.number, 0, piece)

    # In threads

    def _work(self, call: Call, args: Sequence[Any]) -> None:
        if call.is_cancelled:  # while it waited for a thread
            self._post(self._fail, call, Cancelled())
            return
        try:
            value = call.command.function(*args)
        except BaseException as error:  # noqa: BLE001 - a thread of ours must not die of it
            self._post(self._fail, call, error)
        else:
            self._post(self._finish, call, value)

    def _work_stream(self, call: Call, args: Sequence[Any]) -> None:
        try:
            values: Iterator[Any] = call.command.function(*args)
            with closing(values):  # type: ignore[type-var]
                for value in values:
                    self._post_pieces(call, encode_value(value, call.is_pickled))
        except BaseException as error:  # noqa: BLE001 - a thread of ours must not die of it
            self._post(self._fail, call, error)
        else:
            self._post(self._end, call, LAST, b"")

    def _post_pieces(self, call: Call, body: bytes) -> None:
        assert isinstance(call.room, Condition)
        for at in range(0, len(body) or 1, MAX_PIECE_BYTES):
            piece = body[at : at + MAX_PIECE_BYTES]
            if call.flags & CAST and not call.is_cancelled:  # nobody reads it, and nobody grants credit
                return
            with call.room:
                while call.credit <= 0 and not call.is_cancelled:
                    call.room.wait()
                call.credit -= len(piece) + FRAME_COST
            if call.is_cancelled:
                raise Cancelled
            flags = WHOLE if at + MAX_PIECE_BYTES >= len(body) else 0
            self._post(self._say_if_wanted, call, flags, piece)

    def _say_if_wanted(self, call: Call, flags: int, piece: bytes) -> None:
        if self._calls.get(call.number) is call:
            self._say(RESULT, flags, call.number, 0, piece)

    def _post(self, act: Callable[..., None], *args: Any) -> None:
        """Have it done on the loop. Many threads at once wake it once."""
        self._posted.append(lambda: act(*args))
        if not self._is_woken:
            self._is_woken = True
            try:
                self._loop.call_soon_threadsafe(self._pull)
            except RuntimeError:  # the worker has stopped
                self._posted.clear()

    def _pull(self) -> None:
        self._is_woken = False
        while self._posted:
            try:
                self._posted.popleft()()
            except Exception:  # the others must not wait for it
                log.exception("a call could not be ended")
        self.flush()

    # How calls end

    def _finish(self, call: Call, value: Any) -> None:
        try:
            body = encode_value(None if call.flags & CAST else value, call.is_pickled)
            if len(body) > MAX_VALUE_BYTES:
                raise ValueError(f"a value may have {MAX_VALUE_BYTES:,} bytes, not {len(body):,}: use a stream")
        except Exception as error:  # noqa: BLE001 - pickling runs what the value wants to run
            error.args = (f"the value of {call.command.name} {error}",)
            self._fail(call, error)
            return
        self.finish_encoded(call, body)

    def finish_encoded(self, call: Call, body: bytes) -> None:
        if call.is_cancelled:
            self._fail(call, Cancelled())
        elif len(body) <= MAX_PIECE_BYTES or call.flags & CAST:
            self._end(call, _DONE, b"" if call.flags & CAST else body)
        else:
            call.room = asyncio.Event()
            self._spawn(call, self._send_large(call, body))

    async def _send_large(self, call: Call, body: bytes) -> None:
        try:
            await self._send_pieces(call, body, _DONE)
        except BaseException as error:  # noqa: BLE001 - also that it was cancelled
            self._fail(call, error)

    def _fail(self, call: Call, error: BaseException) -> None:
        if call.is_cancelled:
            failure = Failure("Cancelled", "the call was cancelled")
        else:
            failure = make_failure(error, call.is_pickled)
        self.fail_with(call, failure)

    def refuse(self, call: Call, code: int, text: str) -> None:
        """The worker is to blame, and not the command."""
        self._end(call, LAST | REFUSED, encode_refusal(code, text))

    def fail_with(self, call: Call, failure: Failure) -> None:
        data = encode_failure(failure)
        if len(data) > MAX_PIECE_BYTES:
            data = encode_failure(Failure(failure.kind, failure.message[:1000], failure.trace[-10_000:]))
        self._end(call, LAST | FAILED, data)

    def _end(self, call: Call, flags: int, payload: bytes) -> None:
        """The work has ended, and the slot is free."""
        if call.is_over:
            return
        call.is_over = True
        self.in_use -= call.slots
        if self._calls.get(call.number) is call:
            del self._calls[call.number]
            self._say(RESULT, flags, call.number, 0, payload)
        self.on_room()

    def _say(self, kind: int, subtype: int, number: int, padding: int, payload: bytes = b"") -> None:
        if self._is_linked:
            self._out.append(_pack(MAGIC, kind, subtype, number, padding, len(payload)))
            self._out.append(payload)
            self._flush_soon()

    def _flush_soon(self) -> None:
        if not self._flush_is_due:
            self._flush_is_due = True
            self._loop.call_soon(self.flush)

    def flush(self) -> None:
        self._flush_is_due = False
        if self._out:
            data = b"".join(self._out)
            self._out.clear()
            self._write(data)


def make_failure(error: BaseException, is_pickled: bool = False) -> Failure:
    """What the caller is told."""
    trace = format_error(error)
    pickled = b""
    if is_pickled:
        from gandy.functions import pack_error

        pickled = pack_error(error, trace)
    return Failure(type(error).__name__, describe_error(error), trace, pickled)
