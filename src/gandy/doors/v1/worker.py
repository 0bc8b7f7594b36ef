"""The worker's side of a v1 conversation (docs/protocol/v1.md). It outlives links, as `WorkerSide` does.

It obeys JOB and STOP at once, even while an UPDATE waits for its OK: in v1 a JOB cannot be mistaken for the answer to
an UPDATE, so there is no queue that could fill.
"""

from gandy.doors.v1.law import V1State
from gandy.doors.v1.link import V1Link
from gandy.doors.v1.wire import V1Message
from gandy.errors import ErrorCode, LocalProtocolError
from gandy.limits import MAX_SLOTS
from gandy.talk.events import Acknowledged, Leave, ResultRefused, Start, Welcomed, WorkerEvent
from gandy.talk.law import Role
from gandy.talk.slots import Slots
from gandy.wire.messages import Error, Extension, Job, Ok, Stop, Task, TaskPair, TaskResult, Update


class V1WorkerSide:
    """The worker's side of all its links, one after the other.

    Call `connect` for each new link, `receive_data`, and `end` for each task that ended; then take `next_event` until
    it is None, and send `data_to_send`.
    """

    def __init__(self, slots: int) -> None:
        if not 1 <= slots <= MAX_SLOTS:
            raise LocalProtocolError(f"a worker has 1 to {MAX_SLOTS} slots, not {slots}")
        self.slots = Slots(slots)
        self._link = V1Link(Role.WORKER)
        self._link.close()
        self._results: dict[TaskPair, TaskResult] = {}  # ended and not acknowledged, oldest first
        self._reported: Task | None = None  # the task of the unanswered UPDATE; its slot is free already
        self._offered = 0  # processors, in the greeting
        self._has_left = False

    @property
    def state(self) -> V1State:
        return self._link.state

    def connect(self) -> None:
        """A new link is up. The foreman sends first."""
        self._link = V1Link(Role.WORKER)
        if self._reported is not None:
            self.slots.take((self._reported,))
            self._reported = None

    def disconnect(self) -> None:
        """The link is gone. Tasks go on, and results wait for the next one."""
        self._link.close()

    def receive_data(self, data: bytes) -> None:
        self._link.receive_data(data)

    def data_to_send(self) -> bytes:
        """The bytes to send now, with the next result if it may be sent."""
        self._advance()
        return self._link.data_to_send()

    def end(self, result: TaskResult) -> None:
        """A task ended.

        Raises: LocalProtocolError: it does not run here.
        """
        if result.pair not in self.slots.running or result.pair in self._results:
            raise LocalProtocolError(f"task {result.task} of job {result.job_id} does not run here")
        self._results[result.pair] = result

    def next_event(self) -> WorkerEvent | None:
        """The next event; None until more bytes come or a task ends.

        Raises: RemoteProtocolError: the foreman broke the protocol. Connect again.
        """
        while not self._has_left:
            before = self._link.state
            message = self._link.next_message()
            if message is None:
                break
            event = self._on_message(before, message)
            if event is not None:
                return event
        return self._maybe_leave()

    def _on_message(self, before: V1State, message: V1Message) -> WorkerEvent | None:
        match message:
            case Ok(nproc):
                return self._on_ok(before, nproc)
            case Job((task,)):
                return self._on_job(task)
            case Stop() if message.is_immediate:
                self._has_left = True
                return Leave(immediate=True)
            case Stop(count):
                self.slots.stop(count)
                return None
            case Error(code):
                return ResultRefused(self._settle(), code)
            case _:
                raise AssertionError(f"no foreman may send {type(message).__name__}")

    def _on_ok(self, before: V1State, nproc: int) -> Welcomed | Acknowledged | None:
        if before is V1State.GREETING:
            self._offered = self.slots.free
            self._link.send(Ok(self._offered))
            return None
        if before is V1State.REPORTING:
            return Acknowledged((self._settle(),))
        if nproc != self._offered:
            raise self._link.fail(f"offered {self._offered} processors, the answer is {nproc}", ErrorCode.BAD_STATE)
        return Welcomed(Extension.NONE)

    def _on_job(self, task: Task) -> Start | None:
        if task.pair in self.slots.running or task.pair in self._results or not self.slots.free:
            self._link.send(Error(ErrorCode.NO_PROCS))
            return None
        self.slots.take((task,))
        return Start((task,))

    def _settle(self) -> TaskResult:
        """The foreman answered the UPDATE: its result need not be kept."""
        assert self._reported is not None
        result = self._results.pop(self._reported.pair)
        self._reported = None
        return result

    def _advance(self) -> None:
        if self._results and self._link.state is V1State.OPEN:
            result = next(iter(self._results.values()))
            self._reported = self.slots.release(result.pair)
            self._link.send(Update(result))

    def _maybe_leave(self) -> Leave | None:
        if self._has_left or not self.slots.is_done or self._results:
            return None
        self._has_left = True
        return Leave(immediate=False)
