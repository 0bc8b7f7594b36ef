"""Function tasks that wait to be sent: numbers, batches, cancels, and the end."""

import pytest

from gandy.client.task_queue import BATCH_BYTES, BATCH_TASKS, TaskQueue
from gandy.core.requests import ResultRow
from gandy.errors import GandyError, LinkError, StoreError
from gandy.limits import MAX_INPUT_BYTES


class FakeFuture:
    def __init__(self, queue: TaskQueue, task: bytes = b"task") -> None:
        self.number = 0
        self.failure: GandyError | None = None
        self._queue = queue
        queue.add(task, self)

    def on_start(self) -> None: ...

    def on_end(self, row: ResultRow) -> None: ...

    def on_failure(self, error: GandyError) -> None:
        self.failure = error

    def abandon(self) -> None:
        self._queue.cancel(self.number)


def a_queue() -> TaskQueue:
    return TaskQueue(lambda: None)


def test_tasks_are_numbered_and_stay_until_the_foreman_has_them() -> None:
    queue = a_queue()
    assert [FakeFuture(queue, task).number for task in (b"one", b"two", b"three")] == [1, 2, 3]
    batch = queue.get_batch()
    assert batch == (b"one", b"two", b"three")
    assert FakeFuture(queue, b"four").number == 4  # while the batch is under way
    assert queue.get_batch()[0] == b"one"  # after a break it is sent again
    queue.confirm_batch(batch)
    assert (queue.first_unsent, queue.get_batch(), queue.unsent) == (4, (b"four",), 1)
    assert queue.list_waiting() == [1, 2, 3, 4]  # none has ended


def test_killed_task_keeps_its_future_until_it_has_ended() -> None:
    queue = a_queue()
    first, second = FakeFuture(queue), FakeFuture(queue)
    queue.kill(first.number)
    assert queue.get_cancelled() == (1,)
    assert queue.pop(first.number) is first
    queue.kill(first.number)  # it has ended: nothing is to be done
    assert queue.get_cancelled() == (1,)
    assert queue.list_waiting() == [second.number]


def test_all_tasks_that_have_not_ended_are_abandoned() -> None:
    queue = a_queue()
    first, _second, _third = (FakeFuture(queue) for _ in range(3))
    queue.pop(first.number)
    assert queue.abandon_all() == 2
    assert queue.get_cancelled() == (2, 3)
    assert queue.abandon_all() == 0


def test_batch_fits_a_request() -> None:
    queue = a_queue()
    for _ in range(BATCH_TASKS + 1):
        FakeFuture(queue)
    assert len(queue.get_batch()) == BATCH_TASKS
    queue = a_queue()
    size = MAX_INPUT_BYTES
    for _ in range(BATCH_BYTES // size + 1):
        FakeFuture(queue, bytes(size))
    assert len(queue.get_batch()) == BATCH_BYTES // size


def test_large_task_waits_for_its_upload_behind_a_reference() -> None:
    queue = a_queue()
    large = bytes(MAX_INPUT_BYTES + 1)
    small, _ = FakeFuture(queue), FakeFuture(queue, large)
    assert queue.find_large() is None
    assert queue.get_batch() == (b"task",)
    queue.confirm_batch((b"task",))
    assert queue.find_large() == large
    queue.replace_next(b"reference")
    assert queue.find_large() is None
    assert queue.get_batch() == (b"reference",)
    assert small.failure is None


def test_task_that_cannot_be_uploaded_fails_alone() -> None:
    queue = a_queue()
    large, small = FakeFuture(queue, bytes(MAX_INPUT_BYTES + 1)), FakeFuture(queue)
    error = StoreError("full")
    queue.fail_next(error)
    assert (large.failure, small.failure) == (error, None)
    assert queue.get_batch() == (b"", b"task")  # its number stays taken
    assert queue.get_cancelled() == (1,)
    assert queue.list_waiting() == [2]


def test_cancelled_task_is_told_to_the_foreman_once() -> None:
    queue = a_queue()
    future = FakeFuture(queue)
    assert queue.cancel(future.number)
    assert not queue.cancel(future.number)
    assert queue.get_cancelled() == (1,)
    queue.confirm_cancelled((future.number,))  # type: ignore[arg-type]
    assert queue.get_cancelled() == ()
    assert queue.pop(future.number) is None


def test_closed_queue_takes_no_more_and_says_why() -> None:
    queue = a_queue()
    future = FakeFuture(queue)
    queue.close()
    with pytest.raises(RuntimeError, match="after shutdown"):
        FakeFuture(queue)
    assert queue.clear(LinkError("gone")) == {1: future}
    assert (queue.unsent, queue.list_waiting(), queue.takes_tasks) == (0, [], False)
    with pytest.raises(LinkError, match="gone"):
        FakeFuture(queue)


def test_refused_queue_keeps_its_first_reason() -> None:
    queue = a_queue()
    queue.refuse(LinkError("first"))
    queue.refuse(LinkError("second"))
    with pytest.raises(LinkError, match="first"):
        FakeFuture(queue)
