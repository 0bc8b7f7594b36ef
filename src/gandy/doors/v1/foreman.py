"""The foreman's side of a v1 conversation with one worker (docs/protocol/v1.md)."""

from collections.abc import Iterable

from gandy.doors.v1.law import V1State
from gandy.doors.v1.link import V1Link
from gandy.doors.v1.wire import V1Message
from gandy.errors import ErrorCode, LocalProtocolError
from gandy.limits import MAX_SLOTS
from gandy.talk.events import ForemanEvent, Greeted, Refused, Reported, Requested
from gandy.talk.law import Role
from gandy.talk.packing import pack_tasks
from gandy.talk.slots import Slots
from gandy.wire.messages import STOP_IMMEDIATELY, Error, Extension, Job, Ok, Stop, Task, TaskPair, TaskResult, Update


class V1ForemanSide:
    """The foreman's side of one link. v1 cannot cancel, and a JOB gets no answer unless it is refused."""

    def __init__(self) -> None:
        self._link = V1Link(Role.FOREMAN)
        self._link.send(Ok(0))
        self.slots = Slots(0)
        self._report: Reported | None = None  # the UPDATE that is not acknowledged yet

    @property
    def state(self) -> V1State:
        return self._link.state

    @property
    def free(self) -> int:
        """How many tasks the worker can take now."""
        if self.state not in (V1State.OPEN, V1State.REPORTING):
            return 0
        return self.slots.free

    def disconnect(self) -> tuple[Task, ...]:
        """The link is gone. Returns no tasks: v1 sends each task at once, so the worker may have all of them."""
        self._link.close()
        return ()

    def receive_data(self, data: bytes) -> None:
        self._link.receive_data(data)

    def data_to_send(self) -> bytes:
        return self._link.data_to_send()

    def give(self, tasks: Iterable[Task]) -> None:
        """Have the worker start these tasks.

        Raises: LocalProtocolError: there are more tasks than `free`; Unsendable.
        """
        tasks = tuple(tasks)
        if len(tasks) > self.free:
            raise LocalProtocolError(f"{len(tasks)} tasks for {self.free} free slots")
        pack_tasks(tasks)
        self.slots.take(tasks)
        for task in tasks:
            self._link.send(Job((task,)))

    @property
    def framing(self) -> None:
        """v1 has no extensions."""
        return None

    def greet(self) -> None:
        """Nothing to do: OK(0) was sent when the link began."""

    def cancel(self, pairs: Iterable[TaskPair]) -> None:
        """v1 cannot cancel: a task goes on until it ends, and holds its slot until then."""

    def recall(self, pairs: Iterable[TaskPair]) -> None:
        """Nothing to recall: no task ever waits on a v1 worker."""

    def stop(self, count: int) -> None:
        """Take processors away; running tasks end first.

        Raises: LocalProtocolError, unless the count is a number of processors.
        """
        if not 0 < count <= MAX_SLOTS:
            raise LocalProtocolError(f"{count} is not a number of processors")
        self._link.send(Stop(count))
        self.slots.limit -= count  # may become negative: tasks of an earlier link have slots that we do not know of

    def stop_all(self) -> None:
        """Stop the worker when its tasks have ended."""
        self.stop(max(1, self.slots.limit))

    def stop_immediately(self) -> None:
        """Stop the worker and all its tasks now."""
        self._link.send(Stop(STOP_IMMEDIATELY))
        self.slots.limit = -MAX_SLOTS

    def acknowledge(self, report: Reported, answer: Error | None = None) -> None:
        """The result is recorded or, with an ERROR, not wanted. Does nothing if the link is gone."""
        if self._report is report and self.state is V1State.REPORTING:
            self._report = None
            self._link.send(Ok(self.slots.free) if answer is None else answer)

    def next_event(self) -> ForemanEvent | None:
        """The next event; None until more bytes come.

        Raises: RemoteProtocolError: the worker broke the protocol. Close the link.
        """
        message = self._link.next_message()
        return None if message is None else self._on_message(message)

    def _on_message(self, message: V1Message) -> ForemanEvent:
        match message:
            case Ok(nproc):
                return self._on_offer(nproc)
            case Update(result) if result is not None:
                return self._on_update(result)
            case Error(code):
                return self._on_refusal(code)
            case _:
                raise AssertionError(f"no worker may send {type(message).__name__}")

    def _on_offer(self, nproc: int) -> Greeted:
        if nproc > MAX_SLOTS:
            raise self._link.fail(f"a worker with {nproc} processors", ErrorCode.BAD_PAYLOAD)
        self.slots = Slots(nproc)
        self._link.send(Ok(nproc))
        return Greeted(nproc, (), Extension.NONE)

    def _on_update(self, result: TaskResult) -> Reported:
        if self.slots.release(result.pair) is None:
            self.slots.limit = min(self.slots.limit + 1, MAX_SLOTS)  # started on an earlier link: its slot is new here
        self._report = Reported((result,), Requested(0, Update(result)))
        return self._report

    def _on_refusal(self, code: int) -> Refused:
        """A v1 worker does not say which JOB it refuses, so that is known only if it has just one."""
        if len(self.slots.running) != 1:
            text = f"one of {len(self.slots.running)} tasks is refused, and v1 cannot say which"
            raise self._link.fail(text, ErrorCode.BAD_STATE)
        (task,) = self.slots.running.values()
        self.slots.release(task.pair)
        return Refused((task,), code)
