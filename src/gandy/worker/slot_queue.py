"""The tasks of one slot process: sends it the one that it runs, and puts others into its box behind that.

Keeps track of the shared functions that the process has, so that none is sent twice. Reads no answers.
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
    """Numbers the tasks, so that one that is taken back from the box is recognised."""

    def __init__(self, box: AssignmentBox, channel: SlotChannel) -> None:
        self.following: dict[int, RunningTask] = {}  # in the box, by number, in the order in which they will run
        self.can_be_followed = False  # the current task went through the box, so others may wait behind it
        self._box = box
        self._channel = channel
        self._current = 0  # number of the task that runs
        self._last = 0  # the last number that was given
        self._known: OrderedDict[JobId, bytes] = OrderedDict()  # shared functions, exactly as the process keeps them
        self._setting = b""  # of the last task, encoded
        self._setting_key: tuple[object, ...] = ()  # what that setting was made of

    def begin(self, task: RunningTask, python: PythonOrder) -> None:
        """Send a task to the process, which runs nothing. Raises: OSError, if the process has died."""
        self.can_be_followed = not python.fresh and task.order.memory is None and self._put(task, python)
        if not self.can_be_followed:
            self._send(task, python)
        self._current = self._last

    def put_behind(self, task: RunningTask, python: PythonOrder) -> bool:
        """Let a task wait in the box, behind the one that runs. False: it does not fit there."""
        if not self._put(task, python):
            return False
        self.following[self._last] = task
        return True

    def next(self) -> RunningTask:
        """Return the task that the process has begun after the last one."""
        self._current = next(iter(self.following))
        return self.following.pop(self._current)

    def take_back(self, current: RunningTask | None) -> list[RunningTask]:
        """Take the tasks that have not begun out of the box, the last first; the current task may be among them."""
        tasks = []
        # The process may take one at the same time, so go by the numbers and not by how many there are.
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
        # Consecutive tasks are usually of the same job, and have the same setting.
        job, has_shared = order.attempt.job, bool(python.shared)
        key = (job, has_shared, order.tasks, order.cwd, order.line, order.job_name, order.env)
        if key != self._setting_key:
            setting = Setting(job, has_shared, make_job_environment({}, order), order.cwd)
            self._setting_key, self._setting = key, encode_setting(setting)
        return self._setting

    def _has_just_used(self, job: JobId, shared: bytes) -> bool:
        """True if the last task had this function: then taking the next one back does not change the order in which
        the process keeps jobs."""
        return next(reversed(self._known), None) == job and self._known[job] == shared

    def _keep_shared(self, job: JobId, shared: bytes) -> None:
        self._known[job] = shared
        self._known.move_to_end(job)
        while len(self._known) > KEPT_JOBS:
            self._known.popitem(last=False)
