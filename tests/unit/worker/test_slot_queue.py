"""What a slot process is sent: through its box or over its link, and a shared function only once."""

from typing import cast

import pytest

from gandy.core.model import AttemptKey
from gandy.ids import JobId, TaskNumber
from gandy.worker.assignment_box import AssignmentBox
from gandy.worker.frames import ASSIGNMENT, BOX_BYTES, KEPT_JOBS
from gandy.worker.order import Order, PythonOrder
from gandy.worker.running_task import RunningTask
from gandy.worker.slot_channel import SlotChannel
from gandy.worker.slot_queue import SlotQueue


class FakeBox:
    """Keeps packets until they are taken back, or the process takes them."""

    def __init__(self) -> None:
        self.packets: list[bytes] = []

    def put(self, data: bytes) -> bool:
        self.packets.append(data)
        return True

    def take_back(self) -> list[bytes]:
        packets, self.packets = self.packets, []
        return packets


class FakeChannel:
    """Notes what is sent over the link."""

    def __init__(self) -> None:
        self.sent: list[tuple[bytes, ...]] = []

    def send(self, *parts: bytes) -> None:
        self.sent.append(parts)


class Sending:
    """A queue, and what it sends."""

    def __init__(self) -> None:
        self.box, self.channel = FakeBox(), FakeChannel()
        self.queue = SlotQueue(cast("AssignmentBox", self.box), cast("SlotChannel", self.channel))

    def begin(self, job: int = 1, shared: bytes = b"", size: int = 1, fresh: bool = False) -> RunningTask:
        task = a_task(job=job)
        self.queue.begin(task, PythonOrder(bytes(size), shared, fresh))
        return task

    def put_behind(self, number: int, shared: bytes = b"") -> RunningTask | None:
        task = a_task(number)
        return task if self.queue.put_behind(task, PythonOrder(b"x", shared)) else None

    @property
    def shared(self) -> list[bytes]:
        """What went over the link as shared, with each task that went there."""
        return [parts[1] for parts in self.channel.sent]


def a_task(number: int = 1, job: int = 1) -> RunningTask:
    return RunningTask(Order(attempt=AttemptKey(JobId(job), TaskNumber(number), 1), command="a task"), None)


def test_a_short_task_goes_through_the_box_and_others_may_follow_it() -> None:
    sending = Sending()
    sending.begin()
    assert (len(sending.box.packets), sending.channel.sent) == (1, [])
    assert sending.queue.can_be_followed


@pytest.mark.parametrize("options", [{"size": BOX_BYTES}, {"fresh": True}, {"shared": b"function"}])
def test_other_tasks_go_over_the_link_and_nothing_follows_them(options: dict[str, int]) -> None:
    sending = Sending()
    sending.begin(**options)  # type: ignore[arg-type]
    assert (sending.box.packets, len(sending.channel.sent)) == ([], 1)
    assert not sending.queue.can_be_followed


def test_a_shared_function_is_sent_once() -> None:
    sending = Sending()
    sending.begin(shared=b"function")
    sending.begin(shared=b"function")  # through the box: the process has just used the function
    assert (sending.shared, len(sending.box.packets)) == ([b"function"], 1)
    sending.begin(job=2, shared=b"other")
    sending.begin(shared=b"function")
    assert sending.shared == [b"function", b"other", b""]


def test_a_shared_function_that_the_process_has_forgotten_is_sent_again() -> None:
    sending = Sending()
    for job in range(1, KEPT_JOBS + 2):
        sending.begin(job=job, shared=b"%d" % job)
    sending.begin(job=1, shared=b"1")
    assert sending.shared[-1] == b"1"


def test_tasks_that_are_taken_back_come_the_last_one_first() -> None:
    sending = Sending()
    current = sending.begin()
    first, second = sending.put_behind(2), sending.put_behind(3)
    del sending.box.packets[0]  # the process took it
    assert sending.queue.take_back(current) == [second, first]
    assert not sending.queue.following


def test_even_the_current_task_comes_back_if_the_process_has_not_taken_it() -> None:
    sending = Sending()
    current = sending.begin()
    behind = sending.put_behind(2)
    assert sending.queue.take_back(current) == [behind, current]


def test_tasks_follow_in_the_order_in_which_they_were_put() -> None:
    sending = Sending()
    sending.begin()
    behind = [sending.put_behind(number) for number in (2, 3)]
    assert [sending.queue.next() for _ in behind] == behind


def test_tasks_of_one_job_have_the_same_setting() -> None:
    sending = Sending()
    sending.begin()
    sending.put_behind(2)
    settings = []
    for number, packet in enumerate(sending.box.packets, 1):
        *numbers, size, _, _ = ASSIGNMENT.unpack_from(packet)
        assert numbers == [number, number, 1]
        settings.append(packet[ASSIGNMENT.size : ASSIGNMENT.size + size])
    assert settings[0] == settings[1]
