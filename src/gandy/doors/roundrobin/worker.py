"""A worker for a round-robin server, an original one or gandy's.

It runs dispatches as calls of a `CallService`, as for a foreman, and sends back responses and slots. It outlives the
server: calls go on while there is none, and are answered through the next one, where the worker registers by itself.
"""

import asyncio
import logging
from pathlib import Path
from typing import Final

from gandy.doors.roundrobin import uplink_events, wire
from gandy.doors.roundrobin.codes import CommandCodes, format_code
from gandy.doors.roundrobin.dispatch import Dispatch, Dispatches
from gandy.doors.roundrobin.limits import MAX_REASON
from gandy.doors.roundrobin.uplink_thread import UplinkThread
from gandy.doors.roundrobin.worker_streams import WorkerStreams
from gandy.doors.sockets.dealer import Keys
from gandy.doors.values import encode_payload, find_failure
from gandy.doors.zmq_worker import prepare, work
from gandy.errors import ConfigError
from gandy.functions.values import decode_value, encode_value
from gandy.wire import calls
from gandy.worker.command_host import CommandHost
from gandy.worker.commands import Commands, load_all
from gandy.worker.main import OUTPUT_NAME, make_about

log = logging.getLogger("gandy.worker")

FAREWELL_SECONDS: Final = 5.0  # for calls to end, when the worker stops
GOODBYE_SECONDS: Final = 1.0  # for the server to read our DEREGISTER


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
        """`folder`: for isolated commands, and made only if there are some. Raises: ConfigError, GandyError."""
        self._loop = asyncio.get_running_loop()
        self._slots = slots
        self._commands = commands
        self._codes = codes
        self._dispatches = Dispatches(slots)
        self._done = asyncio.Event()
        self._deregistered = asyncio.Event()
        self._is_stopping = False
        self._is_silent = False  # the server is silent, and we have logged it
        self._host = CommandHost(commands, slots, self._on_answers, folder, preload)
        self._serving = self._host.calls
        try:
            self._uplink = UplinkThread(url, self._post, keys)
        except ConfigError:
            self._host.close()
            raise
        self._streams = WorkerStreams(self._serving, self._uplink, self._end)

    async def run(self) -> None:
        self._serving.on_welcome()
        self._uplink.register(self._slots)
        self._uplink.start()
        try:
            await self._done.wait()
        finally:
            for dispatch in self._dispatches.take_all():
                self._fail(dispatch, "the worker was stopped")
            self._host.close()
            await asyncio.to_thread(self._uplink.close)

    async def stop(self) -> None:
        """Accept no more dispatches, give calls a while to end, and leave."""
        if self._is_stopping:
            self._done.set()
            return
        self._is_stopping = True
        self._uplink.deregister()
        try:
            async with asyncio.timeout(GOODBYE_SECONDS):
                await self._deregistered.wait()
        except TimeoutError:
            log.warning("%s has not confirmed that this worker leaves", self._uplink.url)
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                while self._dispatches:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            log.warning("calls that did not end are aborted")
            await self._host.kill_all()
        self._done.set()

    # From the server

    def _post(self, events: list[uplink_events.Event]) -> None:
        """Runs in the thread of the connection."""
        try:
            self._loop.call_soon_threadsafe(self._on_events, events)
        except RuntimeError:  # the worker has stopped
            return

    def _on_events(self, events: list[uplink_events.Event]) -> None:
        if self._done.is_set():
            return
        for event in events:
            self._on_event(event)
        self._serving.flush()

    def _on_event(self, event: uplink_events.Event) -> None:
        match event:
            case uplink_events.Dispatched(ticket, message):
                self._on_dispatch(ticket, message)
            case uplink_events.StreamRequested(message):
                self._streams.on_request(message)
            case uplink_events.RegisterConfirmed():
                log.info("at work for the round-robin server at %s", self._uplink.url)
            case uplink_events.RegisterRefused(reason):
                log.warning("%s does not accept this worker: %s", self._uplink.url, reason)
            case uplink_events.Deregistered():
                self._deregistered.set()
            case uplink_events.Connected():
                self._is_silent = False
            case uplink_events.Unreachable() if not self._is_silent:
                self._is_silent = True
                log.warning(
                    "%s has not answered for %.0f s; trying again", self._uplink.url, self._uplink.silent_seconds
                )
            case _:
                pass

    def _on_dispatch(self, ticket: int, message: wire.QueueMessage) -> None:
        code = message.args[0] if message.args else b""
        entry = self._codes.find(code)
        command = self._commands.find(entry.name.encode()) if entry is not None else None
        if entry is None or command is None:
            # The original neither answers nor returns the slot, and has one slot less from then on.
            what = entry.name if entry is not None else format_code(code)
            log.warning("the server sent the command %s, which this worker does not have", what)
            text = f"the worker does not have the command {what}"
            self._uplink.finish(ticket, wire.make_response(message, wire.FAILED, text.encode()))
            return
        self._dispatches.add(Dispatch(ticket, message, entry, command, min(command.slots, self._slots)))
        self._start_waiting()

    def _start_waiting(self) -> None:
        while (dispatch := self._dispatches.start_next()) is not None:
            self._start(dispatch)

    def _start(self, dispatch: Dispatch) -> None:
        flags = calls.CAST if dispatch.is_cast else 0
        if dispatch.command.way.is_stream:
            flags |= calls.STREAM
        if (dispatch.entry.is_stream or dispatch.command.way.is_stream) and not dispatch.is_cast:
            self._streams.begin(dispatch)
        body = calls.encode_target(dispatch.command.name) + encode_value(dispatch.message.args[1:])
        self._serving.on_frame(calls.CALL, flags, dispatch.number, 0, body)

    # From the commands

    def _on_answers(self, data: bytes) -> None:
        calls.read_frames(data, 0, self._on_answer)

    def _on_answer(self, kind: int, flags: int, number: int, _argument: int, payload: bytes) -> None:
        dispatch = self._dispatches.find(number)
        if kind != calls.RESULT or dispatch is None:  # ANNOUNCE is for foremen
            return
        failure = find_failure(flags, payload)
        if failure is not None:
            self._fail(dispatch, failure)
            return
        dispatch.pieces.append(payload)
        try:
            frames = self._make_frames(dispatch) if flags & calls.WHOLE and not dispatch.is_cast else ()
        except ValueError as error:
            self._fail(dispatch, f"{dispatch.command.name} gave {error}")
            return
        cost = len(payload) + calls.FRAME_COST
        stream = self._streams.find(dispatch)
        if stream is not None:
            self._streams.write(stream, b"".join(frames), cost, is_last=bool(flags & calls.LAST))
        elif flags & calls.LAST:
            self._end(dispatch, wire.make_response(dispatch.message, *frames))
        else:
            self._serving.on_frame(calls.CREDIT, 0, number, cost, b"")

    def _make_frames(self, dispatch: Dispatch) -> tuple[bytes, ...]:
        """Raises: ValueError."""
        data = b"".join(dispatch.pieces)
        dispatch.pieces.clear()
        return () if dispatch.entry.is_bare else encode_payload(decode_value(data))

    def _fail(self, dispatch: Dispatch, reason: str) -> None:
        stream = self._streams.find(dispatch)
        if stream is not None and stream.has_begun:
            log.warning("a stream of %s ends early: %s", dispatch.command.name, reason)
            self._streams.break_off(stream)
            return
        self._serving.on_frame(calls.CANCEL, 0, dispatch.number, 0, b"")  # does nothing if the call has ended
        text = reason[:MAX_REASON].encode(errors="replace") or b"no reason was given"
        self._end(dispatch, wire.make_response(dispatch.message, wire.FAILED, text))

    def _end(self, dispatch: Dispatch, response: wire.QueueMessage | None) -> None:
        """Return the slot, and send the response."""
        self._dispatches.end(dispatch)
        self._streams.forget(dispatch)
        self._uplink.finish(dispatch.ticket, response)
        if self._dispatches.has_waiting:
            self._loop.call_soon(self._start_waiting)


def run(
    *,
    home: str,
    url: str,
    insecure: bool,
    curve: str | None,
    codes: tuple[str, ...],
    slots: int | None,
    name: str | None,
    preload: tuple[str, ...],
    commands: tuple[str, ...],
) -> int:
    """Raises: ConfigError, GandyError."""
    address, keys = prepare(url, insecure, curve)
    about = make_about(slots, (), name)
    installed = load_all(commands)
    table = CommandCodes(codes)
    missing = [entry.name for entry in table if installed.find(entry.name.encode()) is None]
    if missing:
        raise ConfigError(f"the command {missing[0]} is not installed: name its module with --commands MODULE")
    folder = Path(home) / OUTPUT_NAME / f"roundrobin-{about.name}"
    return work(lambda: RoundRobinService(address, about.slots, installed, table, folder, preload, keys))
