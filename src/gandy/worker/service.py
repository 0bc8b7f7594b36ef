"""A worker: its conversations with foremen, its tasks and its calls, and how they stop together.

It outlives foremen. Tasks go on while there is no link, and results wait until their foreman has acknowledged them.
"""

import asyncio
import logging
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from msgspec.structs import replace

from gandy.core.model import Cause
from gandy.core.shards import Directory
from gandy.limits import MAX_OUTPUT_BYTES
from gandy.reach import Reach
from gandy.wire.messages import About
from gandy.worker.call_service import CallService
from gandy.worker.call_slots import BorrowedSlots
from gandy.worker.commands import Commands
from gandy.worker.conversation import ShardConversation
from gandy.worker.conversations import Conversations
from gandy.worker.ensemble_clock import EnsembleClock
from gandy.worker.foreman_link import Dial
from gandy.worker.machine import MachineReporter
from gandy.worker.output_service import OutputService
from gandy.worker.task_service import TaskService
from gandy.worker.threads import Threads
from gandy.worker.trim import keep_trimmed
from gandy.worker.worker_folder import WorkerFolder

if TYPE_CHECKING:
    from gandy.bus import Ensemble

log = logging.getLogger("gandy.worker")

STOP_SECONDS = 5.0  # for the last results to be acknowledged, and calls to end, when the worker stops


class WorkerService:
    """One worker. `run` returns when a foreman stops the worker, or after `stop`."""

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
        self._done = asyncio.Event()
        self._is_leaving = False  # a foreman has stopped it, and it waits for calls to end
        self._stopping: asyncio.Task[None] | None = None  # if a foreman has stopped it at once
        # A plain foreman has no attempts, and would accept a saved result of another foreman's task as its own.
        is_plain = any(place.scheme == "plain" for place in reach.places)
        own = WorkerFolder(folder)
        journal = None if is_plain else own.open_journal(about.id)
        self._about = about if is_plain else replace(about, former=own.left.ids, folder=_format_folder(folder))
        self._reserved = reserved
        self._commands = commands or Commands()
        self._commands.on_change = self._announce_soon  # any thread may install a command
        self._threads = Threads(about.slots + reserved)
        self._clock = EnsembleClock(self._announce)
        self._call_slots = BorrowedSlots(reserved)
        parts = (about.slots, self._call_slots, self._clock, journal, self._done)
        self._tasks = TaskService(own, preload, *parts, self._on_capacity)
        self._tasks.scheduler.on_shared = self._on_shared
        self._reader = OutputService(self._tasks.runner)
        self._machine = MachineReporter()
        self.conversations = Conversations(reach, self._tasks, self._make_conversation, self._on_closed)

    def _make_conversation(self, dial: Callable[[ShardConversation], Dial]) -> ShardConversation:
        return ShardConversation(self._about, self._make_calls, self._tasks, self._reader, self._machine, self, dial)

    def _make_calls(self, write: Callable[[bytes], None]) -> CallService:
        slots = self._about.slots + self._reserved
        calls = CallService(self._commands, slots, self._reserved, write, self._threads, self._clock)
        calls.on_room = self._on_call_room
        calls.runner.isolated = self._tasks.isolated
        self._call_slots.parts.append(calls.slots)
        return calls

    def _on_closed(self, conversation: ShardConversation) -> None:
        self._call_slots.parts.remove(conversation.calls.slots)
        self._tasks.start_waiting()
        if self._tasks.is_draining:  # perhaps for this conversation alone
            self.on_left(immediate=False)

    async def run(self) -> None:
        """Raises: ConfigError."""
        try:
            if self._ensemble_name is not None:
                self._join(self._ensemble_name)
        except BaseException:
            self._tasks.runner.close()
            raise
        linking = asyncio.create_task(self.conversations.keep())
        done = asyncio.create_task(self._done.wait())
        others = [
            asyncio.create_task(work)
            for work in (
                keep_trimmed(self._tasks.runner.folder.outputs, self._max_output_bytes),
                self._tasks.watch_disk(),
                self._machine.keep(),
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
        self._commands.on_change = lambda: None
        for each in self.conversations.all:
            each.calls.on_cut()
        self._threads.close()
        self._tasks.close()
        if self._ensemble is not None:
            await asyncio.to_thread(self._ensemble.close)
        await self.conversations.close()

    async def stop(self) -> None:
        """End all tasks, report them to their foremen, and stop. A second call stops at once."""
        if self._tasks.is_stopping:
            self._done.set()
            return
        self._tasks.is_stopping = self.conversations.is_closing = True
        self._tasks.start_waiting()
        self._tasks.results.flush()
        for each in self.conversations.all:
            each.calls.leave()
        self._tasks.runner.kill_all(Cause.WORKER_STOPPED, f"worker {self._about.name} was stopped")
        await self._tasks.runner.running.wait_idle()
        self._tasks.large_results.give_up()
        self._tasks.results.flush_held()
        try:
            async with asyncio.timeout(STOP_SECONDS):
                while any(map(_is_waiting, self.conversations.all)):
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
        self._clock.join(self._ensemble)

    # What conversations report

    def on_directory(self, conversation: ShardConversation, directory: Directory) -> None:
        self.conversations.on_directory(conversation, directory)

    def on_cut(self, conversation: ShardConversation) -> None:
        self.conversations.on_cut(conversation)
        self._tasks.request_turn()  # it wants no slots any more

    def on_refused(self) -> None:
        log.error("the foreman refuses this worker")
        self._done.set()

    def on_stop(self) -> None:
        """A foreman dismisses the worker from the crew: take no more tasks of any foreman."""
        self._tasks.is_draining = self.conversations.is_closing = True
        others = [each for each in self.conversations.all if each.side.slots.limit]
        for each in others:
            each.drain()
        for each in others:
            each.on_messages()  # it may have nothing left to do
        self._tasks.start_waiting()

    def on_left(self, immediate: bool) -> None:
        if immediate:
            log.info("stopped by the foreman")
            self._tasks.runner.kill_all(Cause.WORKER_STOPPED, "stopped by the foreman", immediate=True)
            self._leave_others()
        elif all(each.has_left for each in self.conversations.all):
            log.info("stopped by the foreman")
            self._leave()

    def _leave_others(self) -> None:
        """Leave at once, but for what other foremen must know: that their tasks were killed on purpose."""
        if len(self.conversations.all) == 1:
            self._done.set()
        elif self._stopping is None:
            self._stopping = asyncio.create_task(self.stop())

    def _leave(self) -> None:
        """Leave once all calls have ended."""
        if all(each.calls.is_idle for each in self.conversations.all):
            self._done.set()
            return
        for each in self.conversations.all:
            each.calls.leave()
        self._is_leaving = True

    def _on_call_room(self) -> None:
        """A call has ended, or a foreman needs slots for calls."""
        if self._is_leaving and all(each.calls.is_idle for each in self.conversations.all):
            asyncio.get_running_loop().call_soon(self._done.set)  # later, so that its result is written first
        if (self._tasks.scheduler.ready or self._call_slots.wanted) and not self._done.is_set():
            self._tasks.start_waiting()
            self._tasks.results.flush()

    # What conversations are told

    def _on_capacity(self) -> None:
        """The worker uses another number of slots, for lack of something."""
        for each in self.conversations.all:
            each.report_capacity()

    def _on_shared(self) -> None:
        for each in self.conversations.all:
            each.update_capacity()

    def _announce(self) -> None:
        for each in self.conversations.all:
            each.calls.announce()

    def _announce_soon(self) -> None:
        for each in tuple(self.conversations.all):
            each.calls.announce_soon()


def _is_waiting(conversation: ShardConversation) -> bool:
    """True if a worker that stops waits for this foreman: to acknowledge results, or for calls to end."""
    is_busy = conversation.side.results.by_pair or not conversation.calls.is_idle
    return bool(is_busy) and not conversation.has_left and conversation.link.link is not None


def _format_folder(folder: Path) -> str:
    """Return the folder's path for HELLO; empty if it is not printable: then the foreman does not read the folder."""
    path = str(folder.absolute())
    return path if path.isprintable() else ""
