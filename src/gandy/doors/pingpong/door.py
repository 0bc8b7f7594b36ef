"""The ping-pong door (docs/protocol/pingpong.md): the broker's side of the dialogue, on the switchboard.

Its workers have one slot each, and run one command that takes and returns bytes. It knows neither sockets nor clocks.
"""

from collections import Counter, deque
from typing import Final, assert_never

from gandy.core.calls import Peer
from gandy.core.switchboard import Switchboard
from gandy.doors.base import Outgoing, WorkerRegistry
from gandy.doors.pingpong import wire
from gandy.doors.pingpong.job_slot import JobCall, JobSlot
from gandy.doors.pingpong.talk import HAS_JOB, BrokerEvent, WorkerState
from gandy.doors.pingpong.workers import BrokerWorker, BrokerWorkers
from gandy.errors import RemoteProtocolError
from gandy.moments import Monotonic
from gandy.wire.calls import BODY, CALL, CANCEL, CREDIT, read_frames

EXPIRY: Final = 10.0  # seconds; the original's WORKER_EXPIRE_SECONDS: ten missing PINGs

# Reasons to drop a message.
INVALID: Final = "an invalid message"
UNKNOWN_WORKER: Final = "a result of an unknown worker"
NO_JOB: Final = "a result without a job"
TOO_MANY: Final = "a worker above the limit"


class PingPongDoor:
    """Workers that each run one call of `command` at a time. Implements `Door`."""

    def __init__(self, board: Switchboard, registry: WorkerRegistry, command: str, expiry: float = EXPIRY) -> None:
        self.outbox: deque[Outgoing] = deque()
        self.dropped: Counter[str] = Counter()
        self.workers = BrokerWorkers(board, registry, command, expiry, self.on_out)

    # From workers

    def on_message(self, frames: list[bytes], now: Monotonic) -> None:
        if not frames:
            self.dropped[INVALID] += 1
            return
        routing_id, *rest = frames
        worker = self.workers.find(routing_id)
        if worker is not None:
            self.workers.on_heard(worker)
        try:
            message = wire.decode_worker(rest)
        except RemoteProtocolError as error:
            self._on_invalid(worker, rest, str(error), now)
            return
        match message:
            case wire.Ready():
                self._on_ready(routing_id, now)
            case wire.Ping(count):
                self._on_ping(routing_id, count, now)
            case wire.Result(data):
                self._on_result(worker, data, now)
            case _:
                assert_never(message)

    def _on_ready(self, routing_id: bytes, now: Monotonic) -> None:
        worker = self._find_or_add(routing_id)
        if worker is None:
            return
        had_job = worker.state in HAS_JOB
        self.workers.move(worker, BrokerEvent.READY, now)
        if had_job:
            slot, call = _get_call(worker)
            slot.lose(call.number, "was started again")
        if worker.state is WorkerState.GOING:
            self._send(worker, wire.Exit())
            self.workers.maybe_forget(worker, now)
        else:
            self.workers.admit(worker)
            self._send(worker, wire.Pong())

    def _on_ping(self, routing_id: bytes, count: bytes | None, now: Monotonic) -> None:
        worker = self._find_or_add(routing_id)
        if worker is None:
            return
        self.workers.move(worker, BrokerEvent.PING, now)
        if worker.state is WorkerState.READY:
            self.workers.admit(worker)
        if worker.state is not WorkerState.GOING:
            self._send(worker, wire.Pong(count))

    def _find_or_add(self, routing_id: bytes) -> BrokerWorker | None:
        worker = self.workers.find_or_add(routing_id)
        if worker is None:
            self.dropped[TOO_MANY] += 1
        return worker

    def _on_result(self, worker: BrokerWorker | None, data: bytes, now: Monotonic) -> None:
        if worker is None or worker.state not in HAS_JOB:
            is_unknown = worker is None or worker.state is WorkerState.ABSENT
            self._drop(worker, UNKNOWN_WORKER if is_unknown else NO_JOB, now)
            return
        self._end_job(worker, now)
        slot, call = _get_call(worker)
        slot.finish(call, data)
        self.workers.maybe_forget(worker, now)

    def _on_invalid(self, worker: BrokerWorker | None, frames: list[bytes], fault: str, now: Monotonic) -> None:
        """If the message can only be the answer to a job, the caller gets a failure: no other answer will come."""
        if worker is None or worker.state not in HAS_JOB or not wire.is_answer(frames):
            self._drop(worker, INVALID, now)
            return
        self._end_job(worker, now)
        slot, _ = _get_call(worker)
        slot.fail("ValueError", f"the answer of worker {worker.id} is not a result: {fault}")
        self.workers.maybe_forget(worker, now)

    def _end_job(self, worker: BrokerWorker, now: Monotonic) -> None:
        self.workers.move(worker, BrokerEvent.RESULT, now)
        if worker.state is WorkerState.GOING:
            self._send(worker, wire.Exit())

    def _drop(self, worker: BrokerWorker | None, reason: str, now: Monotonic) -> None:
        self.dropped[reason] += 1
        if worker is not None and worker.state is not WorkerState.ABSENT:
            self.workers.move(worker, BrokerEvent.NOISE, now)

    def _send(self, worker: BrokerWorker, message: wire.Pong | wire.Exit | wire.PingPongJob, call: int = -1) -> None:
        self.outbox.append(Outgoing([worker.routing_id, *wire.encode(message)], call))

    # From the socket and the foreman

    def close(self) -> None:
        """Nothing to send: workers stay, and look for the next broker."""

    def on_time(self, now: Monotonic) -> None:
        for worker in self.workers.take_expired(now):
            self.workers.move(worker, BrokerEvent.EXPIRED, now)
            if worker.state is WorkerState.ABSENT:
                self._remove(worker, now, "was silent for too long")

    def on_disconnect(self, routing_id: bytes, now: Monotonic) -> None:  # noqa: ARG002 - the same for all doors
        worker = self.workers.find(routing_id)
        if worker is not None:
            self._send(worker, wire.Pong())  # harmless to a worker that is there, and undelivered if it is gone

    def on_undelivered(self, outgoing: Outgoing, now: Monotonic) -> None:
        worker = self.workers.find(outgoing.frames[0])
        if worker is not None and worker.state is not WorkerState.ABSENT:
            undelivered = outgoing.call
            call = worker.slot.call if worker.slot is not None else None
            if call is not None and self._take_back(worker.routing_id, call.number):
                undelivered = call.number
            self.workers.move(worker, BrokerEvent.GONE, now)
            self._remove(worker, now, "was lost", undelivered)

    def _take_back(self, routing_id: bytes, call: int) -> bool:
        """Remove a call from the outbox: the worker may connect again before it is sent. True if it was there."""
        for at, outgoing in enumerate(self.outbox):
            if outgoing.call == call and outgoing.frames[0] == routing_id:
                del self.outbox[at]
                return True
        return False

    def on_connect(self, now: Monotonic) -> None:
        """Nothing to do: a worker that connects sends READY or PING."""

    def on_dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None:
        found = self.workers.find_by_id(worker)
        if found is None or found.has_left:
            return
        self.workers.move(found, BrokerEvent.KILLED if immediate else BrokerEvent.DISMISSED, now)
        if found.state is WorkerState.LEAVING:
            self.workers.withdraw(found)
            return
        self._send(found, wire.Exit())
        self._remove(found, now, "was told to leave")

    def _remove(self, worker: BrokerWorker, now: Monotonic, why: str, undelivered: int = -1) -> None:
        self.workers.withdraw(worker)
        if worker.slot is not None:
            worker.slot.vacate(why, undelivered)
        self.workers.maybe_forget(worker, now)

    # From the switchboard

    def on_out(self, peer: Peer, data: bytes, now: Monotonic) -> None:
        worker = self.workers.find_by_peer(peer)
        if worker is None:
            return
        slot = worker.slot
        assert slot is not None, "it is a peer"

        def on_frame(kind: int, flags: int, number: int, argument: int, payload: bytes) -> None:
            if kind == CALL:
                self._maybe_give(worker, slot.on_call(number, flags, payload), now)
            elif slot.call is None or slot.call.number != number:
                return  # the call has ended; or YIELD, which is for workers whose slots jobs and calls share
            elif kind == BODY:
                self._maybe_give(worker, slot.on_body(slot.call, flags, payload), now)
            elif kind == CREDIT:
                slot.on_credit(slot.call, argument)
            elif kind == CANCEL:
                slot.on_cancel(slot.call)
            self.workers.maybe_forget(worker, now)

        read_frames(data, 0, on_frame)

    def _maybe_give(self, worker: BrokerWorker, job: bytes | None, now: Monotonic) -> None:
        if job is not None:
            _, call = _get_call(worker)
            self.workers.move(worker, BrokerEvent.JOB, now)
            self._send(worker, wire.PingPongJob(job), call.number)


def _get_call(worker: BrokerWorker) -> tuple[JobSlot, JobCall]:
    assert worker.slot is not None
    assert worker.slot.call is not None
    return worker.slot, worker.slot.call
