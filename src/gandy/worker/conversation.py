"""A worker's conversation with one foreman: its link, its tasks, its calls, and what both sides send unasked.

A worker has one for each shard of the crew, and a single one if the crew has a single foreman. It outlives links.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Protocol

from gandy.core.extensions import (
    ARGUMENTS,
    BEGUN,
    CAPACITY,
    DIRECTORY,
    FETCH,
    LOAD,
    PIECE,
    PIECES,
    READ,
    READ_MANY,
    RETRACT,
    RETRACTED,
    WANT,
    WORKER_OFFERS,
    Begun,
    Capacity,
    Fetch,
    MachineLoad,
    Retraction,
    decode_directory,
    decode_piece,
    decode_retraction,
    decode_want,
    encode,
    make_problem,
)
from gandy.core.model import AttemptKey
from gandy.core.shards import Directory
from gandy.errors import RemoteProtocolError
from gandy.limits import MAX_PROBLEM
from gandy.talk.events import ExtensionReceived, HelloRefused, Kill, Leave, Recalled, Start, Welcomed, WorkerEvent
from gandy.talk.worker import WorkerSide
from gandy.wire.messages import About, Extended, Extension
from gandy.worker.begun import BegunReporter
from gandy.worker.call_service import CallService
from gandy.worker.capacity import CapacityReporter
from gandy.worker.foreman_link import Dial, ForemanLink
from gandy.worker.function_inputs import FunctionInputs
from gandy.worker.machine import MachineReporter
from gandy.worker.output_service import OutputService
from gandy.worker.running_task import RunningTask
from gandy.worker.shard_queue import ShardQueue
from gandy.worker.task_service import TaskService

log = logging.getLogger("gandy.worker")


class ConversationOwner(Protocol):
    """The worker, as its conversations know it."""

    def on_directory(self, conversation: "ShardConversation", directory: Directory) -> None:
        """The foreman says where all shards are."""

    def on_cut(self, conversation: "ShardConversation") -> None: ...

    def on_refused(self) -> None:
        """The foreman refuses this worker."""

    def on_stop(self) -> None:
        """The foreman dismisses the worker, once its tasks have ended."""

    def on_left(self, immediate: bool) -> None:
        """Nothing is left to do for one foreman."""


class ShardConversation:
    """One per shard, on the current loop."""

    def __init__(
        self,
        about: About,
        make_calls: Callable[[Callable[[bytes], None]], CallService],
        tasks: TaskService,
        reader: OutputService,
        machine: MachineReporter,
        owner: ConversationOwner,
        dial: Callable[["ShardConversation"], Dial],
    ) -> None:
        self.has_left = False  # the worker is dismissed, and nothing is left to do for this foreman
        self.linking: asyncio.Task[None] | None = None  # keeps the link up
        self.calls = make_calls(self._write)
        self.side = WorkerSide(
            about.slots,
            about,
            offers=WORKER_OFFERS,
            on_call=self.calls.on_frame,
            take_plain_calls=self.calls.take_plain,
        )
        self.link = ForemanLink(dial(self), self.side, self.calls, self)
        inputs = FunctionInputs(self._send_fetch)
        begun = BegunReporter(tasks.runner.running, self._is_ours, self._report_ends, self._send_begun)
        self.queue = ShardQueue(self.side, inputs, begun)
        self._capacity = CapacityReporter(
            self.queue, self._find_capacity, self._send_capacity, lambda: self.calls.slots.wanted > 0
        )
        self._about = about
        self._tasks = tasks
        self._reader = reader
        self._machine = machine
        self._owner = owner

    @property
    def shard(self) -> int:
        return self.queue.shard

    @property
    def is_empty(self) -> bool:
        """True if nothing would be lost with this conversation."""
        return not self.side.slots.running and not self.side.results.by_pair and self.calls.is_idle

    def abandon(self) -> None:
        """Drop all that is held for a shard that is retired. Tasks that run are killed, and dropped the next time."""
        self._tasks.abandon(self.queue)

    def flush(self) -> None:
        """Save what is new, and write what is ready for any foreman."""
        self._tasks.results.flush()

    def update_capacity(self) -> None:
        """Slots were shared anew."""
        self._capacity.look()

    def report_capacity(self) -> None:
        """Tell the foreman at once how many slots it may use, if that has changed."""
        self._capacity.look_now()

    def drain(self) -> None:
        """Take no more tasks. `on_left` is called when those that are here have ended."""
        self.side.slots.limit = 0
        self._capacity.look_now()

    # What the link reports

    def on_messages(self) -> None:
        """Raises: RemoteProtocolError."""
        is_about_jobs = False
        while (event := self.side.next_event()) is not None:
            is_about_jobs = True
            self._on_event(event)
        if self.side.slots.limit == 0 and not self._tasks.is_draining:
            self._owner.on_stop()
        if is_about_jobs:
            # Once for all messages that came together, so that the journal is written at most once.
            self._tasks.results.forget_acknowledged()
            self._tasks.start_waiting()
        self.calls.flush()

    def _on_event(self, event: WorkerEvent) -> None:
        match event:
            case Welcomed(extensions):
                self._on_welcome(extensions)
            case Start(tasks):
                self._tasks.start(tasks, self.queue)
            case Kill(pairs):
                self._tasks.kill(pairs, self.queue)
            case Recalled(pairs):
                self._tasks.give_back(pairs, self.queue)
            case ExtensionReceived():
                self._on_extension(event)
            case HelloRefused():
                self._owner.on_refused()
            case Leave(immediate):
                self.has_left = True
                self._owner.on_left(immediate)
            case _:
                pass

    def _on_welcome(self, extensions: Extension) -> None:
        self.link.is_welcome = True
        self._tasks.results.rewrite_journal()  # what the last foreman has must not count for jobs of this one
        if Extension.CALLS in extensions:
            self.calls.on_welcome()
        if Extension.HEARTBEAT in extensions:
            self._capacity.on_welcome(Capacity(self.side.slots.limit, self._about.ahead))
        if Extension.BEGUN in extensions:
            self.queue.begun.on_welcome()
        if Extension.LOAD in extensions:
            self._machine.on_welcome(self._send_load)
        log.info("at work for %s", f"shard {self.shard}" if self.shard else "the foreman")

    def on_cut(self) -> None:
        self.queue.on_cut()
        self.queue.inputs.fetcher.on_cut()
        self.queue.begun.on_cut()
        self._capacity.on_cut()
        self._machine.on_cut(self._send_load)
        self.calls.on_cut()
        self._owner.on_cut(self)

    def _on_extension(self, message: ExtensionReceived) -> None:
        send = self.side.framing.send_extended
        if message.type == READ:
            send(Extended(PIECE, encode(self._reader.read_piece(message.payload))), message.seq)
        elif message.type == READ_MANY:
            send(Extended(PIECES, encode(self._reader.read_pieces(message.payload))), message.seq)
        elif message.type == ARGUMENTS:
            try:
                piece = decode_piece(message.payload)
            except RemoteProtocolError as error:
                piece = make_problem(f"the foreman sent no arguments: {error}")
            self.queue.inputs.fetcher.on_piece(message.seq, piece)
        elif message.type == RETRACT:
            dropped = self._tasks.retract(_read_retraction(message.payload), self.queue)
            send(Extended(RETRACTED, encode(Retraction(dropped))), message.seq)
        elif message.type == DIRECTORY:
            self._owner.on_directory(self, decode_directory(message.payload))
        elif message.type == WANT:
            self.queue.on_want(decode_want(message.payload))

    # What the worker sends unasked

    def _write(self, data: bytes) -> None:
        if self.link.link is not None:
            self.link.link.write(data)

    def _is_ours(self, task: RunningTask) -> bool:
        return task.order.queue is self.queue

    def _report_ends(self) -> bool:
        return self._tasks.results.report_ends(self.queue)

    def _send_fetch(self, fetch: Fetch, number: int) -> bool:
        if not self.link.agreed(Extension.OUTPUT):
            return False
        self.side.framing.send_extended(Extended(FETCH, encode(fetch)), number)
        self.flush()
        return True

    def _send_begun(self, attempts: list[AttemptKey]) -> None:
        self.side.framing.send_extended(Extended(BEGUN, encode(Begun(tuple(attempts)))))
        self.flush()

    def _send_capacity(self, capacity: Capacity) -> None:
        self.side.framing.send_extended(Extended(CAPACITY, encode(capacity)), 0)
        self.link.send_ready(hold_results=True)

    def _send_load(self, load: MachineLoad) -> None:
        if self.link.agreed(Extension.LOAD):
            self.side.framing.send_extended(Extended(LOAD, encode(load)), 0)
            self.link.send_ready(hold_results=True)

    def _find_capacity(self) -> Capacity:
        """How many slots tasks of this foreman may use now, with those that its own calls borrow from them."""
        problem = self._tasks.throttle.problem
        calls = self.calls.slots
        if len(self._tasks.scheduler.queues) == 1:
            slots = self._tasks.throttle.slots + calls.borrowed
        else:
            # Tasks of other foremen may still have the slots that its calls want: it cannot know.
            free = max(0, self._about.slots - self._tasks.scheduler.busy)
            slots = self.queue.capacity + max(calls.in_use - calls.reserved, min(calls.wanted, free), 0)
        return Capacity(min(self.side.slots.limit, slots), 0 if problem else self._about.ahead, problem[:MAX_PROBLEM])


def _read_retraction(payload: bytes) -> tuple[AttemptKey, ...]:
    """Return the attempts that the foreman wants back; none if its request is invalid."""
    try:
        return decode_retraction(payload).attempts
    except RemoteProtocolError as error:
        log.warning("the foreman's request is not valid: %s", error)
        return ()
