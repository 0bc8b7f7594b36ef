"""What is sent to one slot process: the task that it runs, and those that wait in its box behind that one.

Knows which shared functions the process keeps, so that none is sent twice. Reads no answers.
"""

from collections import OrderedDict

from gandy.ids import JobId
from gandy.worker.assignment_box import AssignmentBox
from gandy.worker.frames import (
    BOX_BYTES,
    KEPT_JOBS,
    Setting,
    encode_assignment,
    encode_setting,
    read_number,
)
from gandy.worker.order import Order, PythonOrder, make_job_environment
from gandy.worker.running_task import RunningTask
from gandy.worker.slot_channel import SlotChannel


class SlotQueue:
    """Each task has a number here, by which it is known again when it is taken back from the box."""

    def __init__(self, box: AssignmentBox, channel: SlotChannel) -> None:
        self.following: dict[int, RunningTask] = {}  # wait in the box, by number, in the order they will run in
        self.can_be_followed = False  # the current task went through the box, so others may wait behind it
        self._box = box
        self._channel = channel
        self._current = 0  # number of the task that runs
        self._last = 0  # number given
        self._known: OrderedDict[JobId, bytes] = OrderedDict()  # what jobs share, exactly as the process keeps it
        self._setting = b""  # of the last task, encoded
        self._setting_key: tuple[object, ...] = ()  # what it was made of

    def begin(self, task: RunningTask, python: PythonOrder) -> None:
        """Send the task to a process that runs nothing. Raises: OSError where the process has died."""
        self.can_be_followed = not python.fresh and task.order.memory is None and self._put(task, python)
        if not self.can_be_followed:
            self._send(task, python)
        self._current = self._last

    def put_behind(self, task: RunningTask, python: PythonOrder) -> bool:
        """Let it wait in the box, behind the task that runs. False: it does not fit there."""
        if not self._put(task, python):
            return False
        self.following[self._last] = task
        return True

    def next(self) -> RunningTask:
        """The task that the process has begun after the last one."""
        self._current = next(iter(self.following))
        return self.following.pop(self._current)

    def take_back(self, current: RunningTask | None) -> list[RunningTask]:
        """Take out of the box what has not begun, the last one first. Perhaps not even the current task has."""
        tasks = []
        # The process may take one at the same time, so the numbers matter, and not how many they are.
        for number in map(read_number, reversed(self._box.take_back())):
            if number != self._current:
                tasks.append(self.following.pop(number))
            elif current is not None:
                tasks.append(current)
        return tasks

    def close(self) -> None:
        self._box.close()

    def _put(self, task: RunningTask, python: PythonOrder) -> bool:
        if len(python.input) > BOX_BYTES:
            return False
        if python.shared and not self._has_just_used(task.attempt.job, python.shared):
            return False
        data = self._encode(task.order, python, b"") + python.input
        return len(data) <= BOX_BYTES and self._box.put(data)

    def _send(self, task: RunningTask, python: PythonOrder) -> None:
        job, shared = task.attempt.job, python.shared
        if shared and self._known.get(job) == shared:
            shared = b""
        self._channel.send(self._encode(task.order, python, shared), shared, python.input)
        if python.shared:
            self._keep_shared(job, python.shared)

    def _encode(self, order: Order, python: PythonOrder, shared: bytes) -> bytes:
        self._last += 1
        _job, task, attempt = order.attempt
        return encode_assignment(self._last, task, attempt, self._encode_setting(order, python), shared, python.input)

    def _encode_setting(self, order: Order, python: PythonOrder) -> bytes:
        # Tasks of one job follow each other, and have the same setting.
        job, has_shared = order.attempt.job, bool(python.shared)
        key = (job, has_shared, order.tasks, order.cwd, order.line, order.job_name, order.env)
        if key != self._setting_key:
            setting = Setting(job, has_shared, make_job_environment({}, order), order.cwd)
            self._setting_key, self._setting = key, encode_setting(setting)
        return self._setting

    def _has_just_used(self, job: JobId, shared: bytes) -> bool:
        """Only then does an assignment that is taken back leave the order unchanged in which the process keeps jobs."""
        return next(reversed(self._known), None) == job and self._known[job] == shared

    def _keep_shared(self, job: JobId, shared: bytes) -> None:
        self._known[job] = shared
        self._known.move_to_end(job)
        while len(self._known) > KEPT_JOBS:
            self._known.popitem(last=False)
