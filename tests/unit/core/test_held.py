"""What a worker holds, and which of it may have killed the worker."""

from gandy.core.held import Held, HeldAttempts
from gandy.core.model import AttemptKey
from gandy.core.slots import SlotAccount
from gandy.ids import JobId, TaskNumber


def an_attempt(task: int, attempt: int = 1) -> AttemptKey:
    return AttemptKey(JobId(1), TaskNumber(task), attempt)


def hold(slots: SlotAccount, *sizes: int) -> HeldAttempts:
    held = HeldAttempts(slots)
    for task, size in enumerate(sizes, 1):
        held.take(an_attempt(task), Held(size))
    return held


def test_what_is_taken_twice_counts_once() -> None:
    slots = SlotAccount(shared=4)
    held = hold(slots, 2)
    held.take(an_attempt(1), Held(1, work_us=7))
    assert (slots.by_tasks, held.work_us, len(held)) == (1, 7, 1)
    held.check()
    held.release(an_attempt(1))
    held.release(an_attempt(1))
    assert (slots.by_tasks, held.work_us, len(held)) == (0, 0, 0)


def test_what_is_released_is_marked_no_more() -> None:
    held = hold(SlotAccount(shared=4), 1)
    for marked in (held.begun, held.recalled, held.unsent):
        marked.add(an_attempt(1))
    held.check()
    held.release(an_attempt(1))
    assert not held.begun | held.recalled | held.unsent


def test_any_attempt_at_a_task_is_found() -> None:
    held = hold(SlotAccount(shared=4))
    held.take(an_attempt(1, 3), Held(1))
    assert held.has_task((JobId(1), TaskNumber(1)))
    assert not held.has_task((JobId(1), TaskNumber(3)))


def test_what_a_worker_has_no_slots_for_is_not_suspected() -> None:
    slots = SlotAccount(shared=2)
    assert hold(slots).list_suspects() == []
    held = hold(slots, 1, 1, 2, 1)
    assert (slots.by_tasks, slots.busy_with_tasks, held.list_suspects()) == (5, 2, [an_attempt(1), an_attempt(2)])
    slots.by_calls = 1
    assert (slots.busy_with_tasks, held.list_suspects()) == (1, [an_attempt(1)])
    slots.by_calls = 2
    assert (slots.busy_with_tasks, held.list_suspects()) == (0, [])


def test_what_is_known_to_run_is_suspected_first_and_what_was_not_sent_never() -> None:
    held = hold(SlotAccount(shared=3), *[1] * 6)
    held.begun = {an_attempt(2), an_attempt(5)}
    assert held.list_suspects() == [an_attempt(2), an_attempt(5), an_attempt(1)]
    held.unsent = {an_attempt(1), an_attempt(5)}  # a plain worker's tasks count as begun before they are sent
    assert held.list_suspects() == [an_attempt(2), an_attempt(3), an_attempt(4)]
    held.release(an_attempt(2))
    assert held.begun == {an_attempt(5)}
    held.check()


def test_on_a_worker_that_is_away_since_the_start_what_ran_is_suspected_or_the_oldest() -> None:
    held = hold(SlotAccount(), 1, 1)
    assert held.list_suspects() == [an_attempt(1)]
    held.begun.add(an_attempt(2))
    assert held.list_suspects() == [an_attempt(2)]
