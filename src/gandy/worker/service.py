"""A worker: its link to the foreman, its tasks and its calls, and how they stop together.

It outlives the foreman. Tasks go on while there is no link, and results wait until the foreman has acknowledged them.
"""

import asyncio
import logging
import os
import signal
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from gandy.core.extensions import (
    ARGUMENTS,
    BEGUN,
    CAPACITY,
    FETCH,
    PIECE,
    PIECES,
    READ,
    READ_MANY,
    RETRACT,
    RETRACTED,
    WORKER_OFFERS,
    Begun,
    Capacity,
    Fetch,
    Retraction,
    decode_piece,
    decode_retraction,
    encode,
    make_problem,
)
from gandy.core.model import AttemptKey, Cause
from gandy.errors import RemoteProtocolError
from gandy.limits import MAX_OUTPUT_BYTES, MAX_PROBLEM
from gandy.reach import Reach
from gandy.talk.events import (
    ExtensionReceived,
    HelloRefused,
    Kill,
    Leave,
    Recalled,
    Start,
    Welcomed,
    WorkerEvent,
)
from gandy.talk.worker import WorkerSide
from gandy.wire.messages import About, Extended, Extension
from gandy.worker.call_service import CallService
from gandy.worker.commands import Commands
from gandy.worker.foreman_link import ForemanLink
from gandy.worker.output_service import OutputService
from gandy.worker.task_service import TaskService
from gandy.worker.trim import keep_trimmed
from gandy.worker.worker_folder import WorkerFolder

if TYPE_CHECKING:
    from gandy.bus import Ensemble

log = logging.getLogger("gandy.worker")

STOP_SECONDS = 5.0  # for the last results to be acknowledged, and calls to end, when the worker stops


class WorkerService:
    """One worker. `run` returns when the foreman stops the worker, or after `stop`."""

    def __init__(
        self,
        reach: Reach,
        about: About,
        folder: Path,
        max_output_bytes: int = MAX_OUTPUT_BYTES,
        preload: tuple[str, ...] = (),
        commands: Commands | None = None,
        reserved: int = 0,
        ensemble: str | None = None,
        insecure: bool = False,
    ) -> None:
        """`ensemble`: whose clock it follows; by default, the ensemble in which it looks for the foreman."""
        self._reach = reach
        sought = (place.host for place in reach.places if place.scheme == "ensemble")
        self._ensemble_name = ensemble or next(sought, None)
        self._is_insecure = insecure
        self._ensemble: Ensemble | None = None  # once `run` has joined it
        self._max_output_bytes = max_output_bytes
        self._about = about
        self._done = asyncio.Event()
        self._is_leaving = False  # the foreman has stopped it, and it waits for calls to end
        # A plain foreman has no attempts, and would accept a saved result of another foreman's task as its own.
        is_plain = any(place.scheme == "plain" for place in reach.places)
        own = WorkerFolder(folder)
        journal = None if is_plain else own.open_journal(about.id)
        self._calls = CallService(commands or Commands(), about.slots + reserved, reserved, self._write)
        self._calls.on_room = self._on_call_room
        self._side = WorkerSide(
            about.slots,
            about if is_plain else replace(about, former=own.left.ids, folder=_format_folder(folder)),
            offers=WORKER_OFFERS,
            on_call=self._calls.on_frame,
            take_plain_calls=self._calls.take_plain,
        )
        if journal is not None:
            self._side.inherit(own.left.results)
        self._link = ForemanLink(reach, self._side, self._calls, self)
        parts = (self._calls, self._side, self._link, journal, self._done)
        self._tasks = TaskService(own, preload, *parts, self._send_fetch, self._send_begun, self._send_capacity)
        self._reader = OutputService(self._tasks.runner)
        self.flush = self._tasks.results.flush

    async def run(self) -> None:
        """Raises: ConfigError."""
        try:
            if self._ensemble_name is not None:
                self._join(self._ensemble_name)
        except BaseException:
            self._tasks.runner.close()
            raise
        linking = asyncio.create_task(self._link.keep())
        done = asyncio.create_task(self._done.wait())
        others = [
            asyncio.create_task(work)
            for work in (
                self._link.send_heartbeats(),
                keep_trimmed(self._tasks.runner.folder.outputs, self._max_output_bytes),
                self._tasks.watch_disk(),
            )
        ]
        try:
            await asyncio.wait({linking, done}, return_when=asyncio.FIRST_COMPLETED)
            if linking.done():
                linking.result()
        finally:
            for task in (linking, done, *others):
                task.cancel()
            await asyncio.gather(linking, done, *others, return_exceptions=True)
            self._done.set()  # whatever the reason, nothing more is started
            await self._close()

    async def _close(self) -> None:
        # Calls first: closing them kills isolated commands, which run in the runner of tasks.
        self._calls.close()
        self._tasks.close()
        if self._ensemble is not None:
            await asyncio.to_thread(self._ensemble.close)
        await self._link.close()

    async def stop(self) -> None:
        """End all tasks, report them to the foreman, and stop. A second call stops at once."""
        if self._tasks.is_stopping:
            self._done.set()
            return
        self._tasks.is_stopping = True
        self._tasks.start_waiting()
        self.flush()
        self._calls.leave()
        self._tasks.runner.kill_all(Cause.WORKER_STOPPED, f"worker {self._about.name} was stopped")
        await self._tasks.runner.running.wait_idle()
        self._tasks.large_results.give_up()
        self._tasks.results.flush_held()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                while (self._side.results.by_pair or not self._calls.is_idle) and self._link.link is not None:
                    await asyncio.sleep(0.01)
        except TimeoutError:
            log.warning("calls that did not end are aborted, and results may be lost")
        self._done.set()

    def die(self) -> NoReturn:
        """The guardian of this process was killed: kill what runs, save what has ended, and die too."""
        try:
            self._tasks.end_now()
        finally:
            os.kill(os.getpid(), signal.SIGKILL)
        raise AssertionError("it is dead")

    def _join(self, name: str) -> None:
        """Join the ensemble by whose clock timed tasks and calls begin."""
        from gandy.bus import Ensemble  # imported late: most workers are in no ensemble

        self._ensemble = Ensemble(name, insecure=self._is_insecure)
        self._reach.ensemble = self._ensemble
        self._calls.clock.join(self._ensemble)

    def _write(self, data: bytes) -> None:
        if self._link.link is not None:
            self._link.link.write(data)

    # What the link reports

    def on_messages(self) -> None:
        """Raises: RemoteProtocolError."""
        is_about_jobs = False
        while (event := self._side.next_event()) is not None:
            is_about_jobs = True
            self._on_event(event)
        if is_about_jobs:
            # Once for all messages that came together, so that the journal is written at most once.
            self._tasks.results.forget_acknowledged()
            self._tasks.start_waiting()
        self._calls.flush()

    def _on_event(self, event: WorkerEvent) -> None:
        match event:
            case Welcomed(extensions):
                self._on_welcome(extensions)
            case Start(tasks):
                self._tasks.start(tasks)
            case Kill(pairs):
                self._tasks.kill(pairs)
            case Recalled(pairs):
                self._tasks.give_back(pairs)
            case ExtensionReceived():
                self._on_extension(event)
            case HelloRefused():
                log.error("the foreman refuses this worker")
                self._done.set()
            case Leave(immediate):
                self._leave(immediate)
            case _:
                pass

    def _on_welcome(self, extensions: Extension) -> None:
        self._link.is_welcome = True
        self._tasks.results.on_welcome()
        if Extension.CALLS in extensions:
            self._calls.on_welcome()
        if self._tasks.throttle.problem:
            self._send_capacity()
        if Extension.BEGUN in extensions:
            self._tasks.begun.on_welcome()
        log.info("at work for the foreman at %s", self._reach)

    def on_cut(self) -> None:
        self._tasks.inputs.fetcher.on_cut()
        self._tasks.begun.on_cut()
        self._calls.on_cut()

    def _leave(self, immediate: bool) -> None:
        if immediate:
            self._tasks.runner.kill_all(Cause.WORKER_STOPPED, "stopped by the foreman", immediate=True)
        log.info("stopped by the foreman")
        if immediate or self._calls.is_idle:
            self._done.set()
        else:
            self._calls.leave()
            self._is_leaving = True

    def _on_call_room(self) -> None:
        """A call has ended, or the foreman needs slots for calls."""
        if self._is_leaving and self._calls.is_idle:
            asyncio.get_running_loop().call_soon(self._done.set)  # later, so that its result is written first
        if (self._tasks.scheduler.ready or self._calls.slots.wanted) and not self._done.is_set():
            self._tasks.start_waiting()
            self.flush()

    def _on_extension(self, message: ExtensionReceived) -> None:
        send = self._side.framing.send_extended
        if message.type == READ:
            send(Extended(PIECE, encode(self._reader.read_piece(message.payload))), message.seq)
        elif message.type == READ_MANY:
            send(Extended(PIECES, encode(self._reader.read_pieces(message.payload))), message.seq)
        elif message.type == ARGUMENTS:
            try:
                piece = decode_piece(message.payload)
            except RemoteProtocolError as error:
                piece = make_problem(f"the foreman sent no arguments: {error}")
            self._tasks.inputs.fetcher.on_piece(message.seq, piece)
        elif message.type == RETRACT:
            dropped = self._tasks.retract(_read_retraction(message.payload))
            send(Extended(RETRACTED, encode(Retraction(dropped))), message.seq)

    # What the worker sends unasked

    def _send_fetch(self, fetch: Fetch, number: int) -> bool:
        if not self._link.agreed(Extension.OUTPUT):
            return False
        self._side.framing.send_extended(Extended(FETCH, encode(fetch)), number)
        self.flush()
        return True

    def _send_begun(self, attempts: list[AttemptKey]) -> None:
        self._side.framing.send_extended(Extended(BEGUN, encode(Begun(tuple(attempts)))))
        self.flush()

    def _send_capacity(self) -> None:
        """Report how many slots we use now, and what we are short of."""
        if not self._link.is_welcome or not self._link.agreed(Extension.HEARTBEAT):
            return
        problem = self._tasks.throttle.problem
        slots = min(self._about.slots, self._tasks.throttle.slots + self._calls.slots.borrowed)
        capacity = Capacity(slots, 0 if problem else self._about.ahead, problem[:MAX_PROBLEM])
        self._side.framing.send_extended(Extended(CAPACITY, encode(capacity)), 0)


def _read_retraction(payload: bytes) -> tuple[AttemptKey, ...]:
    """Return the attempts that the foreman wants back; none if its request is invalid."""
    try:
        return decode_retraction(payload).attempts
    except RemoteProtocolError as error:
        log.warning("the foreman's request is not valid: %s", error)
        return ()


def _format_folder(folder: Path) -> str:
    """Return the folder's path for HELLO; empty if it is not printable: then the foreman does not read the folder."""
    path = str(folder.absolute())
    return path if path.isprintable() else ""
