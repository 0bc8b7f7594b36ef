"""The law of the ping-pong dialogue (docs/protocol/pingpong.md) as two tables, and its worker side.

The broker's table is about one worker; `doors.pingpong.door` handles its jobs. An event without an entry cannot happen
in that state.
"""

from collections import deque
from collections.abc import Mapping, Sequence
from enum import Enum
from typing import Final, NamedTuple, assert_never

from gandy.doors.pingpong import wire
from gandy.doors.pingpong.limits import MAX_BODY_BYTES, MAX_WAITING_JOBS
from gandy.errors import LocalProtocolError
from gandy.moments import NEVER, Monotonic

BROKER_TIMEOUT: Final = 2.5  # seconds of one period without a message from the broker
N_TIMEOUTS: Final = 3  # such periods in a row, after which the broker counts as gone
PING_PERIOD: Final = 1.0  # seconds; pingpong.md, rule 2


class WorkerState(Enum):
    """The state of a worker, as the broker sees it."""

    ABSENT = "absent"
    READY = "ready"
    BUSY = "busy"
    SILENT = "silent"  # busy, and silent for long: its result still counts
    LEAVING = "leaving"  # busy, and gets EXIT after its result
    GOING = "going"  # EXIT was sent: a PING that crossed it does not bring the worker back


class BrokerEvent(Enum):
    """What happens to a worker at the broker."""

    READY = "READY"  # the worker sent it
    PING = "PING"
    RESULT = "result"
    NOISE = "noise"  # the worker sent an invalid message, which is a sign of life all the same
    JOB = "job"  # the broker gives it one
    EXPIRED = "expired"  # it was silent for WORKER_EXPIRE_SECONDS
    GONE = "gone"  # nothing can be sent to it
    DISMISSED = "dismissed"  # it must leave when it has no job
    KILLED = "killed"  # it must leave now


_W, _B = WorkerState, BrokerEvent

BROKER_LAW: Final[Mapping[tuple[WorkerState, BrokerEvent], WorkerState]] = {
    (_W.ABSENT, _B.READY): _W.READY,
    (_W.ABSENT, _B.PING): _W.READY,
    #
    (_W.READY, _B.READY): _W.READY,
    (_W.READY, _B.PING): _W.READY,
    (_W.READY, _B.NOISE): _W.READY,
    (_W.READY, _B.JOB): _W.BUSY,
    (_W.READY, _B.EXPIRED): _W.ABSENT,
    (_W.READY, _B.GONE): _W.ABSENT,
    (_W.READY, _B.DISMISSED): _W.GOING,
    (_W.READY, _B.KILLED): _W.GOING,
    # READY of a busy worker means that it has no job: it was started again, or has a new frontend.
    (_W.BUSY, _B.READY): _W.READY,
    (_W.BUSY, _B.PING): _W.BUSY,
    (_W.BUSY, _B.NOISE): _W.BUSY,
    (_W.BUSY, _B.RESULT): _W.READY,
    (_W.BUSY, _B.EXPIRED): _W.SILENT,
    (_W.BUSY, _B.GONE): _W.ABSENT,
    (_W.BUSY, _B.DISMISSED): _W.LEAVING,
    (_W.BUSY, _B.KILLED): _W.GOING,
    #
    (_W.SILENT, _B.READY): _W.READY,
    (_W.SILENT, _B.PING): _W.BUSY,
    (_W.SILENT, _B.NOISE): _W.BUSY,
    (_W.SILENT, _B.RESULT): _W.READY,
    (_W.SILENT, _B.GONE): _W.ABSENT,
    (_W.SILENT, _B.DISMISSED): _W.LEAVING,
    (_W.SILENT, _B.KILLED): _W.GOING,
    #
    (_W.LEAVING, _B.READY): _W.GOING,
    (_W.LEAVING, _B.PING): _W.LEAVING,
    (_W.LEAVING, _B.NOISE): _W.LEAVING,
    (_W.LEAVING, _B.RESULT): _W.GOING,
    (_W.LEAVING, _B.EXPIRED): _W.LEAVING,
    (_W.LEAVING, _B.GONE): _W.ABSENT,
    (_W.LEAVING, _B.DISMISSED): _W.LEAVING,
    (_W.LEAVING, _B.KILLED): _W.GOING,
    # A worker that sends READY after an EXIT was started again.
    (_W.GOING, _B.READY): _W.READY,
    (_W.GOING, _B.PING): _W.GOING,
    (_W.GOING, _B.NOISE): _W.GOING,
    (_W.GOING, _B.EXPIRED): _W.ABSENT,
    (_W.GOING, _B.GONE): _W.ABSENT,
}

HAS_JOB: Final = frozenset((_W.BUSY, _W.SILENT, _W.LEAVING))


class SideState(Enum):
    """The state of a worker, as it sees itself."""

    CLOSED = "closed"  # not started
    IDLE = "idle"
    BUSY = "busy"
    STALE = "stale"  # busy with a job of an older frontend: it sends nothing until that has ended
    LEFT = "left"


class WorkerEvent(Enum):
    """What happens at a worker."""

    START = "start"
    PONG = "PONG"
    JOB = "job"  # the broker sent one; if the worker is busy, the job waits
    RESULT = "result"  # the job has ended
    EXPIRED = "expired"  # the broker was silent for N_TIMEOUTS periods, so the worker makes a new frontend
    EXIT = "EXIT"


_S, _E = SideState, WorkerEvent

WORKER_LAW: Final[Mapping[tuple[SideState, WorkerEvent], SideState]] = {
    (_S.CLOSED, _E.START): _S.IDLE,
    #
    (_S.IDLE, _E.PONG): _S.IDLE,
    (_S.IDLE, _E.JOB): _S.BUSY,
    (_S.IDLE, _E.EXPIRED): _S.IDLE,
    (_S.IDLE, _E.EXIT): _S.LEFT,
    #
    (_S.BUSY, _E.PONG): _S.BUSY,
    (_S.BUSY, _E.JOB): _S.BUSY,
    (_S.BUSY, _E.RESULT): _S.IDLE,
    (_S.BUSY, _E.EXPIRED): _S.STALE,
    (_S.BUSY, _E.EXIT): _S.LEFT,
    #
    (_S.STALE, _E.PONG): _S.STALE,
    (_S.STALE, _E.JOB): _S.STALE,
    (_S.STALE, _E.RESULT): _S.IDLE,
    (_S.STALE, _E.EXIT): _S.LEFT,
}


class Turn(NamedTuple):
    """What to do next. If `is_renewed`, close the frontend and make a new one before anything is sent."""

    is_renewed: bool = False
    messages: tuple[list[bytes], ...] = ()


class PingPongWorker:
    """The worker side. It runs one job at a time, and knows neither sockets nor clocks."""

    def __init__(
        self,
        counts: bool = False,
        broker_timeout: float = BROKER_TIMEOUT,
        n_timeouts: int = N_TIMEOUTS,
        ping_period: float = PING_PERIOD,
    ) -> None:
        self.state = SideState.CLOSED
        self.pings = 0  # sent, since the start
        self.dropped = 0  # jobs that were never started: their frontend is gone, or too many waited
        self._counts = counts
        self._broker_timeout = broker_timeout
        self._n_timeouts = n_timeouts
        self._ping_period = ping_period
        self._waiting: deque[wire.PingPongJob] = deque()
        self._ping_at = NEVER
        self._period_ends = NEVER
        self._missed = 0  # periods without a message

    def start(self, now: Monotonic) -> list[bytes]:
        """Frames for the new frontend. Raises: LocalProtocolError: it was started already."""
        self._move(WorkerEvent.START)
        return self._begin(now)

    def next_deadline(self) -> Monotonic:
        """The time of the next `on_time`. `inf`: none is needed until something else happens."""
        return min(self._ping_at, self._period_ends)

    def on_time(self, now: Monotonic) -> Turn:
        if now >= self._period_ends:
            # However late this is, it counts as one period: messages of the broker may still be unread.
            self._missed += 1
            self._period_ends = now + self._broker_timeout
            if self._missed >= self._n_timeouts:
                return self._renew(now)
        if now < self._ping_at:
            return Turn()
        self._ping_at = now + self._ping_period
        self.pings += 1
        return Turn(messages=(wire.encode(wire.Ping(b"%d" % self.pings if self._counts else None)),))

    def on_disconnect(self, now: Monotonic) -> Turn:
        """The frontend has lost its connection: there is no need to wait for silence.

        A frontend that connects again by itself would send the result of an old job to a broker that may have given the
        worker another one.
        """
        return Turn() if self.next_deadline() == NEVER else self._renew(now)

    def on_frames(self, frames: Sequence[bytes], now: Monotonic) -> wire.PingPongJob | wire.Exit | None:
        """Take a message from the broker. Returns a job to start now; `next_job` returns those that wait.

        Raises: RemoteProtocolError: drop the message and go on. It is a sign of life all the same.
        """
        if self.state in (SideState.CLOSED, SideState.LEFT):
            return None
        if self.state is not SideState.STALE:
            self._missed, self._period_ends = 0, now + self._broker_timeout
        message = wire.decode_broker(frames)
        match message:
            case wire.Pong():
                self._move(WorkerEvent.PONG)
                return None
            case wire.Exit():
                self._move(WorkerEvent.EXIT)
                self._rest()
                self._waiting.clear()
                return message
            case wire.PingPongJob():
                return self._on_job(message)
            case _:
                assert_never(message)

    def _on_job(self, job: wire.PingPongJob) -> wire.PingPongJob | None:
        if len(self._waiting) >= MAX_WAITING_JOBS:
            self.dropped += 1
            return None
        self._waiting.append(job)
        if self.state is SideState.IDLE:
            return self.next_job()
        self._move(WorkerEvent.JOB)
        return None

    def next_job(self) -> wire.PingPongJob | None:
        """After a result: the job that has waited longest, to be started now."""
        if self.state is not SideState.IDLE or not self._waiting:
            return None
        self._move(WorkerEvent.JOB)
        return self._waiting.popleft()

    def result(self, data: bytes, now: Monotonic) -> list[bytes] | None:
        """The job has ended. Returns the frames to send: its result or, if its frontend is gone, READY.

        Raises: LocalProtocolError: there was no job.
        """
        if self.state is SideState.LEFT:
            return None
        is_stale = self.state is SideState.STALE
        self._move(WorkerEvent.RESULT)
        if not is_stale:
            if data in wire.WORKER_WORDS or len(data) > MAX_BODY_BYTES:
                data = f"ERROR the result cannot be sent: {wire.explain_unsendable(data)}".encode()
            return wire.encode(wire.Result(data))
        ready = self._begin(now)
        # The broker has already given the new frontend a job: READY would mean that the worker has none.
        return None if self._waiting else ready

    def _renew(self, now: Monotonic) -> Turn:
        """Close the frontend, make a new one, and then send READY (rule 5), unless the worker is busy."""
        self._move(WorkerEvent.EXPIRED)
        self.dropped += len(self._waiting)
        self._waiting.clear()
        if self.state is SideState.STALE:
            self._rest()
            return Turn(is_renewed=True)
        return Turn(is_renewed=True, messages=(self._begin(now),))

    def _begin(self, now: Monotonic) -> list[bytes]:
        self._missed = 0
        self._period_ends = now + self._broker_timeout
        self._ping_at = now + self._ping_period
        return wire.encode(wire.Ready())

    def _rest(self) -> None:
        self._ping_at = self._period_ends = NEVER

    def _move(self, event: WorkerEvent) -> None:
        after = WORKER_LAW.get((self.state, event))
        if after is None:
            raise LocalProtocolError(f"a worker that is {self.state.value} cannot have: {event.value}")
        self.state = after
