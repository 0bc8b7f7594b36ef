"""A worker for a ping-pong broker, an original one or gandy's. Jobs and results are bytes."""

import asyncio
import logging
from pathlib import Path
from typing import Final

from gandy.doors.pingpong.frontend import FrontendThread
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

FAREWELL_SECONDS: Final = 5.0  # for a job to end, when the worker stops


class PingPongService:
    """One worker with one slot and one command. `run` ends after `stop`, or when the broker sends EXIT."""

    def __init__(
        self,
        url: str,
        name: str,
        commands: Commands,
        folder: Path,
        preload: tuple[str, ...] = (),
        keys: Keys | None = None,
    ) -> None:
        """Raises: ConfigError, GandyError."""
        command = commands.find(name.encode())
        if command is None:
            raise ConfigError(f"the command {name} is not installed: name its module with --commands MODULE")
        self._loop = asyncio.get_running_loop()
        self._target = calls.encode_target(name)
        self._flags = calls.STREAM if command.way.is_stream else 0
        self._number = 0  # of the last call
        self._running: int | None = None  # the number of the call whose result is the job's
        self._pieces: list[bytes] = []
        self._values: list[bytes] = []  # of a stream: the result is all of them
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._done = asyncio.Event()
        self._host = CommandHost(commands, 1, self._on_answers, folder, preload)
        try:
            self._frontend = FrontendThread(url, self._post_job, self._post_exit, keys)
        except ConfigError:
            self._host.close()
            raise

    async def run(self) -> None:
        self._host.calls.on_welcome()
        self._frontend.start()
        log.info("looking for the ping-pong broker at %s", self._frontend.url)
        try:
            await self._done.wait()
        finally:
            self._host.close()
            await asyncio.to_thread(self._frontend.close)

    async def stop(self) -> None:
        """Let the job end, and leave. The protocol has no message for that: the broker notices the lost connection."""
        if self._done.is_set():
            return
        try:
            async with asyncio.timeout(FAREWELL_SECONDS):
                await self._is_idle.wait()
        except TimeoutError:
            log.warning("the job did not end, and is aborted")
            await self._host.kill_all()
        self._done.set()

    # In the thread of the frontend

    def _post_job(self, data: bytes) -> None:
        self._loop.call_soon_threadsafe(self._on_job, data)

    def _post_exit(self) -> None:
        self._loop.call_soon_threadsafe(self._on_exit)

    # On the loop

    def _on_exit(self) -> None:
        log.info("the broker stops this worker")
        self._done.set()

    def _on_job(self, data: bytes) -> None:
        self._is_idle.clear()
        self._number = self._running = (self._number + 1) & 0xFFFF_FFFF
        self._host.calls.on_frame(calls.CALL, self._flags, self._number, 0, self._target + encode_value([data]))
        self._host.calls.flush()

    def _on_answers(self, data: bytes) -> None:
        calls.read_frames(data, 0, self._on_answer)

    def _on_answer(self, kind: int, flags: int, number: int, _argument: int, payload: bytes) -> None:
        if kind != calls.RESULT or number != self._running:  # a call that was cancelled may still send values
            return
        failure = find_failure(flags, payload)
        if failure is not None:
            self._finish(b"ERROR " + failure.encode(errors="replace"))
            return
        self._pieces.append(payload)
        if flags & calls.WHOLE and not self._keep_value():
            return
        if flags & calls.LAST:
            self._finish(b"".join(self._values))
        else:
            self._host.calls.on_frame(calls.CREDIT, 0, number, len(payload) + calls.FRAME_COST, b"")

    def _keep_value(self) -> bool:
        try:
            self._values.append(b"".join(encode_payload(decode_value(b"".join(self._pieces)))))
        except ValueError as error:
            self._host.calls.on_frame(calls.CANCEL, 0, self._number, 0, b"")
            self._finish(f"ERROR the value cannot be written as bytes: {error}".encode())
            return False
        self._pieces.clear()
        return True

    def _finish(self, result: bytes) -> None:
        self._pieces.clear()
        self._values.clear()
        self._running = None
        self._is_idle.set()
        self._frontend.finish(result)


def run(
    *,
    home: str,
    url: str,
    insecure: bool,
    curve: str | None,
    command: str,
    name: str | None,
    preload: tuple[str, ...],
    commands: tuple[str, ...],
) -> int:
    """Raises: ConfigError, GandyError."""
    address, keys = prepare(url, insecure, curve)
    about = make_about(1, (), name)
    installed = load_all(commands)
    folder = Path(home) / OUTPUT_NAME / f"pingpong-{about.name}"
    return work(lambda: PingPongService(address, command, installed, folder, preload, keys))
