"""`gandy console server`: a round-robin server without a foreman. It uses the same door, and runs no jobs.

The loop has a thread of its own, so that messages pass while the user types.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future
from threading import Thread
from typing import Final, TypeVar

from gandy.clocks import read_monotonic
from gandy.config import Address
from gandy.core.foreman import Foreman
from gandy.core.reactor import Reactor
from gandy.core.workers import ROUND_ROBIN, KnownWorker, WorkerInfo
from gandy.doors.base import name_peer
from gandy.doors.door_socket import DoorSocket
from gandy.doors.roundrobin import wire
from gandy.doors.roundrobin.codes import CommandCodes
from gandy.doors.roundrobin.console.screen import BASIC, Screen, show_text
from gandy.doors.roundrobin.console.shell import ConsoleCommand
from gandy.doors.roundrobin.console.traffic import Traffic, format_address
from gandy.doors.roundrobin.door import RoundRobinDoor
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.worker_calls import Times
from gandy.doors.sockets.curve import ServerKeys
from gandy.doors.sockets.router import Router
from gandy.errors import RemoteProtocolError
from gandy.foreman.call_timers import CallTimers
from gandy.net import loop
from gandy.net.exposure import check_bind, describe_audience

ROLE: Final = "SERVER"
CLOSE_SECONDS: Final = 5.0  # for the thread to end

T = TypeVar("T")


class ServerConsole:
    """Implements `Console`."""

    def __init__(self, screen: Screen, url: str, curve: str | None, insecure: bool) -> None:
        """Raises: ConfigError."""
        self.commands = {
            "workers": ConsoleCommand(self._show_workers, "List the workers, and how many slots each has free.")
        }
        self._screen = screen
        address = check_bind(url, curve=curve is not None, insecure=insecure)
        keys = ServerKeys.open(curve) if curve is not None else None
        self._opened: Future[None] = Future()
        self._thread = Thread(target=self._run, args=(address, keys), name="gandy-server", daemon=True)
        self._thread.start()
        try:
            self._opened.result()
        except BaseException:
            self._thread.join(CLOSE_SECONDS)  # a loop that is still closing does not survive the end of Python
            raise
        screen.log(BASIC, f"{ROLE}: Listening at {self._address}")
        if keys is None:
            screen.log(0, f"{ROLE}: INSECURE: it has no keys, and is open to {describe_audience(address.host)}")
        screen.log(BASIC, f"{ROLE}: Up and running!")

    def close(self) -> None:
        self._loop.call_soon_threadsafe(self._should_stop.set)
        self._thread.join(CLOSE_SECONDS)

    def _run(self, address: Address, keys: ServerKeys | None) -> None:
        loop.run(self._serve(address, keys))

    async def _serve(self, address: Address, keys: ServerKeys | None) -> None:
        self._loop = asyncio.get_running_loop()
        self._should_stop = asyncio.Event()
        timers = CallTimers(Foreman(Reactor(), read_monotonic()))
        try:
            activity = ActivityLog(self._screen)
            router = WatchedRouter(address, keys, activity)
            self._address = router.address
            self._door = RoundRobinDoor(timers.switchboard, activity, CommandCodes(), Times(), MessageIds())
            timers.add_door(DoorSocket("round-robin", self._door, router, timers))
            activity.attach(router, self._door, timers)
        except Exception as error:  # noqa: BLE001 - the thread that waits for us raises any
            timers.close()
            self._opened.set_exception(error)
            return
        self._opened.set_result(None)
        await self._should_stop.wait()
        timers.close()
        activity.traffic.on_close()

    def _show_workers(self) -> None:
        """Prints at every level, as the user asked for it. The original prints nothing at level 0."""
        workers = self._ask(lambda: self._door.workers.list())
        if not workers:
            self._screen.answer("No workers are registered.")
        for at, (routing_id, free) in enumerate(workers):
            address = format_address(routing_id)
            self._screen.answer(f"worker_table[{at:2d}] = {{ address = {address} free_slots = {free} }}")

    def _ask(self, find: Callable[[], T]) -> T:
        """Call `find` in the loop's thread, which alone may use the door."""
        future: Future[T] = Future()
        self._loop.call_soon_threadsafe(lambda: future.set_result(find()))
        return future.result()


class WatchedRouter(Router):
    """Reports each message that it has sent."""

    def __init__(self, address: Address, keys: ServerKeys | None, activity: "ActivityLog") -> None:
        """Raises: ConfigError."""
        super().__init__(address, curve=keys)
        self._activity = activity

    def send(self, frames: list[bytes]) -> bool:
        is_sent = super().send(frames)
        if is_sent:
            self._activity.on_sent(frames)
        return is_sent


class ActivityLog:
    """Prints what the server does, and is its table of workers. Implements `WorkerRegistry`."""

    def __init__(self, screen: Screen) -> None:
        self._screen = screen
        self.traffic = Traffic(screen, ROLE)
        self._leaving: set[str] = set()  # workers that sent DEREGISTER

    def attach(self, router: Router, door: RoundRobinDoor, timers: CallTimers) -> None:
        """Log each message that the door gets, and what the door did with it."""
        if self._screen.level < BASIC:
            return
        self._door = door
        self._call_timers = timers
        self._pass_on = router.on_message
        router.on_message = self._on_message

    # The table of workers

    def add(self, info: WorkerInfo) -> KnownWorker:
        return KnownWorker(info, connected=True)

    def remove(self, worker: str) -> None:
        word = "Deregistered" if worker in self._leaving else "Lost"
        self._leaving.discard(worker)
        self._log(f"{word} worker {worker.partition('/')[2]}")

    def on_heard(self, worker: KnownWorker) -> None:
        """The console does not show it."""

    # Messages

    def _on_message(self, frames: list[bytes]) -> None:
        self.traffic.on_in(frames[1:])
        workers, sender = self._door.workers, frames[0]
        message = _find_message(frames[1:])
        was_here, queued = workers.has(sender), self._call_timers.switchboard.waiting.count
        word = message.args[0] if message is not None and message.args else b""
        if word == wire.DEREGISTER and was_here:
            self._leaving.add(name_peer(ROUND_ROBIN, sender))
        self._pass_on(frames)
        if message is not None and word == wire.REGISTER and workers.has(sender):
            self._leaving.discard(name_peer(ROUND_ROBIN, sender))
            slots = wire.parse_count(message.args[1]) if len(message.args) > 1 else 0
            self._log(f"Registered worker {format_address(sender)} with {slots} free slots")
        elif workers.has(sender) and not was_here:
            self._log(f"Found worker {format_address(sender)} again")
        if self._call_timers.switchboard.waiting.count > queued:
            self._log_queue()

    def _log_queue(self) -> None:
        reason = "WARNING - All workers busy." if self._door.workers.list() else "No workers registered."
        length = self._call_timers.switchboard.waiting.count
        self._log(f"{reason} Message added to queue. Current queue length = {length}")

    def on_sent(self, frames: list[bytes]) -> None:
        if self._screen.level < BASIC:
            return
        self.traffic.on_out(frames[1:])
        message = _find_message(frames[1:])
        if message is None:
            return
        address = format_address(frames[0])
        if message.command in (wire.EXEC, wire.TRACKEXEC) and self._door.workers.has(frames[0]):
            self._log(f"Passed message to worker {address}")
        elif message.command == wire.RESPONSE and message.args[:1] == (wire.FAILED,):
            reason = show_text(b" ".join(message.args[1:]).decode(errors="replace"))
            self._log(f"Reported a failure to {address}: {reason}")
        elif message.command == wire.RESPONSE and message.path:
            self._log(f"Passed response back to client {address}")

    def _log(self, text: str) -> None:
        self._screen.log(BASIC, f"{ROLE}: {text}")


def _find_message(frames: list[bytes]) -> wire.QueueMessage | None:
    try:
        return wire.decode(frames)
    except RemoteProtocolError:
        return None
