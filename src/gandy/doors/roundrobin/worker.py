"""A worker for a round-robin server (seed 002), an original one or gandy's: dispatches in, responses and slots out.

Commands run as they do for a foreman, see `CallService`; this is the other end of it. It outlives the server: calls go
on while there is none, and are answered through the next one, where the worker registers by itself.
"""

import asyncio
import logging
import secrets
from asyncio import TimerHandle
from collections import deque
from itertools import count
from pathlib import Path
from typing import Final

from gandy.doors.roundrobin.codes import CommandCodes, Entry, format_code
from gandy.doors.roundrobin.streams import (
    ABORT,
    ABORTED,
    HANDLE_BYTES,
    MAX_PACKET,
    RAW,
    Packet,
    StreamWriter,
    encode_packet,
    parse_lease,
)
from gandy.doors.roundrobin.uplink import (
    Asked,
    Connected,
    Deregistered,
    Dispatched,
    Event,
    Refused,
    Registered,
    Unreachable,
    make_response,
)
from gandy.doors.roundrobin.uplink_thread import UplinkThread
from gandy.doors.roundrobin.wire import FAILED as FAILURE
from gandy.doors.roundrobin.wire import MQS_MORE, SUCCESS, TRACKEXEC, Message, encode_status
from gandy.doors.sockets.dealer import Keys
from gandy.doors.values import encode_payload
from gandy.errors import ConfigError
from gandy.functions.values import decode_value, encode_value
from gandy.wire.calls import (
    CALL,
    CANCEL,
    CAST,
    CREDIT,
    FAILED,
    FRAME_COST,
    LAST,
    REFUSED,
    RESULT,
    STREAM,
    WHOLE,
    decode_failure,
    decode_refusal,
    encode_target,
    read_frames,
)
from gandy.worker.command_host import CommandHost
from gandy.worker.commands import Command, Commands

log = logging.getLogger("gandy.worker")

FAREWELL_SECONDS: Final = 5.0  # for calls to end, when the worker stops
GOODBYE_SECONDS: Final = 1.0  # for the server to hear of it
FLUSH_SECONDS: Final = 1.0  # that a reader waits for a full packet, as in the original
MAX_WAITING: Final = 2 * MAX_PACKET  # bytes of a stream; with less, its command may go on
MAX_REASON: Final = 2_000  # characters of the text that says why something failed
MAX_HANDLE: Final = 255  # bytes; one byte tells how many there are


class Dispatch:
    """It waits for a slot, runs, and is answered."""

    __slots__ = ("command", "entry", "message", "number", "pieces", "slots", "stream", "ticket")

    def __init__(self, ticket: int, message: Message, entry: Entry, command: Command, slots: int) -> None:
        self.ticket = ticket
        self.message = message
        self.entry = entry
        self.command = command
        self.slots = slots
        self.number = 0  # of the call, while it runs
        self.pieces: list[bytes] = []  # of a value that is not complete
        self.stream: Stream | None = None

    @property
    def is_cast(self) -> bool:
        return self.message.command != TRACKEXEC


class Stream:
    """What goes out in packets. At most one of them is waited for."""

    __slots__ = ("asked", "dispatch", "flusher", "host_id", "is_begun", "lease", "owed", "writer")

    def __init__(self, dispatch: Dispatch) -> None:
        self.dispatch = dispatch
        self.host_id = b"".join(dispatch.message.args[1:2])  # of its reader
        self.writer = StreamWriter(secrets.token_bytes(HANDLE_BYTES))  # who knows it may read the stream
        self.asked: Message | None = dispatch.message
        self.is_begun = False  # the first packet is out
        self.owed = 0  # credit
        self.flusher: TimerHandle | None = None
        self.lease: TimerHandle | None = None

    def stop(self) -> None:
        for timer in (self.flusher, self.lease):
            if timer is not None:
                timer.cancel()


class RoundRobinService:
    """One worker. `run` ends after `stop`."""

    def __init__(
        self,
        url: str,
        slots: int,
        commands: Commands,
        codes: CommandCodes,
        folder: Path,
        preload: tuple[str, ...] = (),
        keys: Keys | None = None,
    ) -> None:
        """`folder` is for isolated commands, and made only where there are some. Raises: ConfigError, GandyError."""
        self._loop = asyncio.get_running_loop()
        self._slots = slots
        self._commands = commands
        self._codes = codes
        self._in_use = 0  # slots
        self._waiting: deque[Dispatch] = deque()  # for slots; a server that counts well sends no more than there are
        self._running: dict[int, Dispatch] = {}  # that run, by number
        self._streams: dict[bytes, Stream] = {}  # of those, by handle
        self._numbers = count(1)
        self._done = asyncio.Event()
        self._gone = asyncio.Event()  # the server has heard that we stop
        self._is_stopping = False
        self._is_silent = False  # the server is, and we said so
        self._host = CommandHost(commands, slots, self._on_answers, folder, preload)
        self._serving = self._host.calls
        try:
            self._uplink = UplinkThread(url, self._post, keys)
        except ConfigError:
            self._host.close()
            raise

    async def run(self) -> None:
        self._serving.on_welcome()
        self._uplink.register(self._slots)
        self._uplink.start()
        try:
            await self._done.wait()
        finally:
            unanswered = [*self._running.values(), *self._waiting]
            self._waiting.clear()
            for dispatch in unanswered:
                self._fail(dispatch, "the worker was stopped")
            self._host.close()
            await asyncio.to_thread(self._uplink.close)

    async def stop(self) -> None:
        """Take nothing more, let calls end for a while, and go."""
        if self._is_stopping:
            self._done.set()
            return
        self._is_stopping = True
        self._uplink.deregister()
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._gone.wait()
        except TimeoutError:
            log.warning("%s may not know that this worker stops", self._uplink.url)
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                while self._running or self._waiting:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            log.warning("calls that did not end are broken off")
            await self._host.kill_all()
        self._done.set()

    # What the server says

    def _post(self, events: list[Event]) -> None:
        """In the thread of the connection."""
        try:
            self._loop.call_soon_threadsafe(self._on_events, events)
        except RuntimeError:  # the worker has stopped
            return

    def _on_events(self, events: list[Event]) -> None:
        if self._done.is_set():
            return
        for event in events:
            self._on_event(event)
        self._serving.flush()

    def _on_event(self, event: Event) -> None:
        match event:
            case Dispatched(ticket, message):
                self._on_dispatch(ticket, message)
            case Asked(message):
                self._on_asked(message)
            case Registered():
                log.info("at work for the round-robin server at %s", self._uplink.url)
            case Refused(reason):
                log.warning("%s does not take this worker: %s", self._uplink.url, reason)
            case Deregistered():
                self._gone.set()
            case Connected():
                self._is_silent = False
            case Unreachable() if not self._is_silent:
                self._is_silent = True
                log.warning(
                    "%s has not answered for %.0f s; trying again", self._uplink.url, self._uplink.silent_seconds
                )
            case _:
                pass

    def _on_dispatch(self, ticket: int, message: Message) -> None:
        code = message.args[0] if message.args else b""
        entry = self._codes.find(code)
        command = self._commands.find(entry.name.encode()) if entry is not None else None
        if entry is None or command is None:
            # The original neither answers nor gives the slot back, and has one less for ever.
            what = entry.name if entry is not None else format_code(code)
            log.warning("the server sent the command %s, which this worker does not have", what)
            text = f"the worker does not have the command {what}"
            self._uplink.finish(ticket, make_response(message, FAILURE, text.encode()))
            return
        self._waiting.append(Dispatch(ticket, message, entry, command, min(command.slots, self._slots)))
        self._start_waiting()

    def _start_waiting(self) -> None:
        while self._waiting and self._in_use + self._waiting[0].slots <= self._slots:
            self._start(self._waiting.popleft())

    def _start(self, dispatch: Dispatch) -> None:
        dispatch.number = next(self._numbers) & 0xFFFF_FFFF
        self._in_use += dispatch.slots
        self._running[dispatch.number] = dispatch
        flags = CAST if dispatch.is_cast else 0
        if dispatch.command.way.is_stream:
            flags |= STREAM
        if (dispatch.entry.is_stream or dispatch.command.way.is_stream) and not dispatch.is_cast:
            self._begin_stream(dispatch)
        body = encode_target(dispatch.command.name) + encode_value(dispatch.message.args[1:])
        self._serving.on_frame(CALL, flags, dispatch.number, 0, body)

    # What the commands give

    def _on_answers(self, data: bytes) -> None:
        read_frames(data, 0, self._on_answer)

    def _on_answer(self, kind: int, subtype: int, number: int, _padding: int, payload: bytes) -> None:
        dispatch = self._running.get(number)
        if kind != RESULT or dispatch is None:  # what it offers is of no interest here
            return
        if subtype & (FAILED | REFUSED):
            is_refused = subtype & REFUSED
            self._fail(dispatch, decode_refusal(payload)[1] if is_refused else decode_failure(payload).message)
            return
        dispatch.pieces.append(payload)
        try:
            frames = self._make_frames(dispatch) if subtype & WHOLE and not dispatch.is_cast else ()
        except ValueError as error:
            self._fail(dispatch, f"{dispatch.command.name} gave {error}")
            return
        cost = len(payload) + FRAME_COST
        if dispatch.stream is not None:
            self._write_stream(dispatch.stream, b"".join(frames), cost, is_last=bool(subtype & LAST))
        elif subtype & LAST:
            self._end(dispatch, make_response(dispatch.message, *frames))
        else:
            self._serving.on_frame(CREDIT, 0, number, cost, b"")

    def _make_frames(self, dispatch: Dispatch) -> tuple[bytes, ...]:
        """Raises: ValueError."""
        data = b"".join(dispatch.pieces)
        dispatch.pieces.clear()
        return () if dispatch.entry.is_bare else encode_payload(decode_value(data))

    def _fail(self, dispatch: Dispatch, reason: str) -> None:
        stream = dispatch.stream
        if stream is not None and stream.is_begun:
            log.warning("a stream of %s ends early: %s", dispatch.command.name, reason)
            self._break_off(stream)
            return
        self._cancel(dispatch)
        text = reason[:MAX_REASON].encode(errors="replace") or b"no reason was given"
        self._end(dispatch, make_response(dispatch.message, FAILURE, text))

    def _cancel(self, dispatch: Dispatch) -> None:
        """Nobody wants the rest. Where there is none, this does nothing."""
        self._serving.on_frame(CANCEL, 0, dispatch.number, 0, b"")

    def _reply(self, message: Message, *payload: bytes) -> None:
        response = make_response(message, *payload)
        if response is not None:
            self._uplink.send(response)

    def _end(self, dispatch: Dispatch, response: Message | None = None) -> None:
        """The slot goes back, with the response or after it."""
        if self._running.pop(dispatch.number, None) is not None:
            self._in_use -= dispatch.slots
            if dispatch.stream is not None:
                dispatch.stream.stop()
                del self._streams[dispatch.stream.writer.handle]
        self._uplink.finish(dispatch.ticket, response)
        if self._waiting:
            self._loop.call_soon(self._start_waiting)

    # Streams

    def _begin_stream(self, dispatch: Dispatch) -> None:
        stream = dispatch.stream = Stream(dispatch)
        self._streams[stream.writer.handle] = stream
        self._renew(stream)
        self._flush_later(stream)

    def _renew(self, stream: Stream) -> None:
        """Its reader is there."""
        if stream.lease is not None:
            stream.lease.cancel()
        stream.lease = self._loop.call_later(parse_lease(stream.host_id), self._expire, stream)

    def _expire(self, stream: Stream) -> None:
        log.warning("nobody reads a stream of %s any more", stream.dispatch.command.name)
        self._break_off(stream)

    def _break_off(self, stream: Stream) -> None:
        self._cancel(stream.dispatch)
        stream.writer.abort()
        if stream.asked is not None:
            self._send_packet(stream)
        else:
            self._end(stream.dispatch)

    def _write_stream(self, stream: Stream, data: bytes, cost: int, is_last: bool) -> None:
        stream.owed += cost
        stream.writer.write(data)
        if is_last:
            stream.writer.close()
        self._send_packet(stream)

    def _flush_later(self, stream: Stream) -> None:
        """Who waits for a packet does not wait for ever."""
        stream.flusher = self._loop.call_later(FLUSH_SECONDS, self._send_packet, stream, True)

    def _send_packet(self, stream: Stream, at_once: bool = False) -> None:
        """To who waits for one, when it is full, the last, or wanted at once; and have the command go on."""
        packet = stream.writer.take(at_once) if stream.asked is not None else None
        response = None
        if packet is not None and stream.asked is not None:
            response = make_response(stream.asked, packet)
            stream.asked = None
            stream.is_begun = True
            if stream.flusher is not None:
                stream.flusher.cancel()
        if stream.writer.is_over:
            self._end(stream.dispatch, response)
            return
        if response is not None:
            self._uplink.send(response)
        if stream.owed and stream.writer.waiting < MAX_WAITING:
            owed, stream.owed = stream.owed, 0
            self._serving.on_frame(CREDIT, 0, stream.dispatch.number, owed, b"")

    def _on_asked(self, message: Message) -> None:
        """The server passes these on, and counts no slot: none is given back."""
        if message.args[0] == MQS_MORE:
            self._on_more(message, *message.args[2:4])
            return
        found = [stream for stream in self._streams.values() if stream.host_id in message.args[1:2]]
        for stream in found:
            self._renew(stream)
        self._reply(message, encode_status(SUCCESS) if found else FAILURE)

    def _on_more(self, message: Message, handle: bytes = b"", word: bytes = b"") -> None:
        stream = self._streams.get(handle)
        if stream is None or word == ABORT:
            is_sane = 0 < len(handle) <= MAX_HANDLE
            if stream is not None:
                self._break_off(stream)
            self._reply(message, encode_packet(Packet(ABORTED, RAW, handle)) if is_sane else FAILURE)
        elif stream.asked is not None or message.command != TRACKEXEC:
            self._reply(message, FAILURE, b"another request for this stream is under way")
        else:
            stream.asked = message
            self._renew(stream)
            self._flush_later(stream)
            self._send_packet(stream)
