"""Which request goes out next, and which tasks share a JOB."""

import pytest
from tests.builders import some_tasks

from gandy.talk.outgoing_requests import OutgoingRequests
from gandy.talk.packing import pack_tasks
from gandy.wire.messages import STOP_ALL, STOP_IMMEDIATELY, Cancel, Job, Request, Stop, Task

CANCEL, STOP, STOP_NOW = Cancel(()), Stop(STOP_ALL), Stop(STOP_IMMEDIATELY)


def add(queue: OutgoingRequests, tasks: tuple[Task, ...], limit: int) -> list[int]:
    """How many tasks are in each JOB then."""
    queue.add_tasks(tasks, pack_tasks(tasks), limit)
    return [len(request.tasks) for request in queue if isinstance(request, Job)]


def test_a_job_has_so_many_tasks_at_most() -> None:
    queue = OutgoingRequests()
    assert add(queue, some_tasks(5), 2) == [2, 2, 1]
    assert add(queue, some_tasks(2), 2) == [2, 2, 2, 1]
    assert add(queue, (), 2) == [2, 2, 2, 1]


def test_tasks_never_overtake_another_request() -> None:
    queue = OutgoingRequests()
    add(queue, some_tasks(1), 5)
    queue.append(CANCEL)
    assert add(queue, some_tasks(1), 5) == [1, 1]


def test_large_tasks_go_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    tasks = some_tasks(2)
    monkeypatch.setattr("gandy.talk.outgoing_requests.MAX_BATCH_BYTES", len(pack_tasks(tasks)[0]))
    assert add(OutgoingRequests(), tasks, 5) == [1, 1]


@pytest.mark.parametrize(
    ("waiting", "after"),
    [((), (CANCEL,)), ((STOP,), (CANCEL, STOP)), ((STOP_NOW, STOP), (STOP_NOW, CANCEL, STOP))],
)
def test_a_request_is_put_back_first_but_never_before_an_immediate_stop(
    waiting: tuple[Request, ...], after: tuple[Request, ...]
) -> None:
    queue = OutgoingRequests(waiting)
    queue.put_back(CANCEL)
    assert tuple(queue) == after
