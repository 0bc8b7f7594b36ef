"""Results until they are acknowledged, and the slots of their tasks. `test_worker` has them in a conversation."""

import pytest
from tests.builders import a_pair, a_result, some_tasks

from gandy.errors import LocalProtocolError
from gandy.talk.results import UnacknowledgedResults
from gandy.talk.slots import Slots
from gandy.wire import payloads
from gandy.wire.messages import TaskResult


def some_results(*added: TaskResult) -> UnacknowledgedResults:
    """Of a worker whose three tasks run."""
    results = UnacknowledgedResults(Slots(3, some_tasks(3)))
    for result in added:
        results.add(result)
    return results


def take_batch(results: UnacknowledgedResults) -> tuple[TaskResult, ...]:
    batch = results.take_batch()
    return () if batch is None else payloads.decode_results(batch[1])


def test_results_wait_only_while_twice_as_many_tasks_are_ready() -> None:
    results = some_results(a_result(1))
    assert results.count_room(ready=3) == 1
    assert results.count_room(ready=20) == 6
    results.add(a_result(2))
    assert results.count_room(ready=4) == 0
    assert take_batch(results)
    assert results.count_room(ready=1) == 1


def test_large_results_go_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gandy.talk.results.MAX_BATCH_BYTES", 1_000)
    results = some_results(*(a_result(task, status="x" * size) for task, size in ((1, 5_000), (2, 10), (3, 10))))
    assert [len(take_batch(results)), len(take_batch(results))] == [1, 2]


def test_only_so_many_batches_are_under_way() -> None:
    results = some_results(a_result(1))
    assert take_batch(results) == (a_result(1),)
    results.add(a_result(2))
    assert take_batch(results) == (a_result(2),)
    results.add(a_result(3))
    assert take_batch(results) == ()
    assert results.on_recorded(1) == (a_result(1),)
    assert results.on_recorded(1) == ()
    assert take_batch(results) == (a_result(3),)


def test_each_result_is_saved_once_and_all_that_are_not_acknowledged_can_be_saved_anew() -> None:
    results = some_results(a_result(1))
    assert list(map(bytes, results.take_unsaved())) == [payloads.encode(a_result(1))]
    results.add(a_result(2))
    assert list(map(bytes, results.take_unsaved())) == [payloads.encode(a_result(2))]
    assert results.take_unsaved() == []
    assert list(map(bytes, results.pack_all())) == [payloads.encode(a_result(1)), payloads.encode(a_result(2))]


@pytest.mark.parametrize("task", [1, 4])
def test_only_a_task_that_runs_can_end(task: int) -> None:
    with pytest.raises(LocalProtocolError, match=f"task {task} of job 1 does not run here"):
        some_results(a_result(1)).add(a_result(task))


def test_a_slot_is_free_from_the_sending_of_a_result_until_a_new_link_is_up() -> None:
    slots = Slots(3, some_tasks(3))
    results = UnacknowledgedResults(slots)
    results.add(a_result(1))
    assert slots.free == 0
    assert take_batch(results)
    assert slots.free == 1
    results.on_link()
    assert (slots.free, a_pair(1, 1) in results.by_pair, results.has_unsent) == (0, True, True)


def test_results_that_no_foreman_will_ask_for_free_all_their_slots() -> None:
    slots = Slots(3, some_tasks(3))
    results = UnacknowledgedResults(slots)
    results.add(a_result(1))
    assert take_batch(results)
    results.add(a_result(2))
    results.forget_all()
    assert (slots.free, results.by_pair, results.pack_all(), results.take_unsaved()) == (2, {}, [], [])
    results.add(a_result(3))  # a task that ran until now
    assert take_batch(results) == (a_result(3),)
