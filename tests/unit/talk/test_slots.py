from tests.builders import a_pair, a_task, some_tasks

from gandy.talk.slots import Slots
from gandy.wire.messages import STOP_ALL


def test_tasks_take_slots_and_give_them_back() -> None:
    slots = Slots(3)
    slots.take(some_tasks(2))
    assert slots.free == 1
    assert slots.release(a_pair(1, 2)) == a_task(2)
    assert slots.release(a_pair(1, 2)) is None
    assert slots.free == 2


def test_stop_takes_free_slots_first() -> None:
    slots = Slots(2, some_tasks(2))
    slots.stop(1)
    assert (slots.limit, slots.free) == (1, 0)
    slots.release(a_pair(1, 1))
    assert slots.free == 0
    slots.release(a_pair(1, 2))
    assert slots.free == 1


def test_the_limit_never_goes_below_zero() -> None:
    slots = Slots(2)
    slots.stop(5)
    assert slots.limit == 0
    assert slots.is_done


def test_stop_all_waits_for_what_runs() -> None:
    slots = Slots(2, some_tasks(1))
    slots.stop(STOP_ALL)
    assert not slots.is_done
    slots.release(a_pair(1, 1))
    assert slots.is_done


def test_some_tasks_may_wait_beside_those_that_run() -> None:
    slots = Slots(2, some_tasks(3), ahead=2)
    assert (slots.free, slots.room) == (0, 1)
    slots.stop(STOP_ALL)
    assert slots.room == 0


def test_cancel_finds_single_tasks_and_whole_jobs_once() -> None:
    slots = Slots(9, (*some_tasks(2, job=1), *some_tasks(2, job=2)))
    assert slots.find([a_pair(1, 2)]) == [a_pair(1, 2)]
    assert slots.find([a_pair(2, -1), a_pair(2, 1)]) == [a_pair(2, 1), a_pair(2, 2)]
    assert slots.find([a_pair(9, -1), a_pair(1, 9)]) == []
