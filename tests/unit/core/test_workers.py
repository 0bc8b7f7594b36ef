from gandy.core.model import AttemptKey
from gandy.core.workers import Held, KnownWorker, WorkerInfo, WorkerTable, worker_name
from gandy.ids import JobId, TaskNumber


def an_attempt(task: int) -> AttemptKey:
    return AttemptKey(JobId(1), TaskNumber(task), 1)


def a_table(*names: str, slots: int = 2) -> WorkerTable:
    table = WorkerTable()
    for name in names:
        table.add(KnownWorker(WorkerInfo(name, name, slots), connected=True))
    return table


def get(table: WorkerTable, name: str) -> KnownWorker:
    worker = table.find(name)
    assert worker is not None
    return worker


def turns(table: WorkerTable) -> list[str]:
    return [worker.info.id for worker in table.in_turn()]


def test_the_least_recently_used_worker_comes_first() -> None:
    table = a_table("a", "b", "c")
    table.use(get(table, "a"))
    assert turns(table) == ["b", "c", "a"]


def test_a_full_worker_has_no_turn_until_a_slot_is_free() -> None:
    table = a_table("a", "b", slots=1)
    a = get(table, "a")
    a.take(an_attempt(1), Held(1))
    table.use(a)
    assert turns(table) == ["b"]
    a.release(an_attempt(1))
    a.release(an_attempt(1))
    assert a.slots.by_tasks == 0
    table.settle(a)
    assert turns(table) == ["b", "a"]
    table.check()


def test_absent_draining_and_refusing_workers_have_no_free_slot() -> None:
    info = WorkerInfo("a", "a", 4)
    assert KnownWorker(info, connected=False).free == 0
    assert KnownWorker(info, connected=True, draining=True).free == 0
    assert KnownWorker(info, connected=True, ask_again_at=1.0).free == 0
    assert KnownWorker(info, connected=True).free == 4


def test_a_worker_can_leave() -> None:
    table = a_table("a", "b")
    table.remove(get(table, "a"))
    assert (len(table), turns(table), [worker.info.id for worker in table]) == (1, ["b"], ["b"])
    assert table.find("a") is None


def test_a_name_is_in_the_id() -> None:
    assert worker_name("big-hut-1f2e") == "big-hut"
    assert worker_name("link1") == "link1"


def test_what_a_worker_has_no_slots_for_is_not_suspected() -> None:
    table = a_table("a", "b")
    a = get(table, "a")
    assert a.list_suspects() == []
    for task, slots in ((1, 1), (2, 1), (3, 2), (4, 1)):
        a.take(an_attempt(task), Held(slots))
    assert (a.slots.by_tasks, a.slots.busy_with_tasks, a.list_suspects()) == (5, 2, [an_attempt(1), an_attempt(2)])
    a.slots.by_calls = 1  # to calls
    assert (a.slots.busy_with_tasks, a.list_suspects()) == (1, [an_attempt(1)])
    a.slots.by_calls = 2
    assert (a.slots.busy_with_tasks, a.list_suspects()) == (0, [])


def test_what_is_known_to_run_is_suspected_first_and_what_was_not_sent_never() -> None:
    table = a_table("a", slots=3)
    a = get(table, "a")
    for task in range(1, 7):
        a.take(an_attempt(task), Held(1))
    a.begun = {an_attempt(2), an_attempt(5)}
    assert a.list_suspects() == [an_attempt(2), an_attempt(5), an_attempt(1)]
    a.ungiven = {an_attempt(1), an_attempt(5)}  # a plain worker's tasks count as begun before they are sent
    assert a.list_suspects() == [an_attempt(2), an_attempt(3), an_attempt(4)]
    a.release(an_attempt(2))
    assert a.begun == {an_attempt(5)}
    table.settle(a)
    table.check()


def test_on_a_worker_that_is_away_since_the_start_what_ran_is_suspected_or_the_oldest() -> None:
    worker = KnownWorker(WorkerInfo("a", "a", 0))
    worker.take(an_attempt(1), Held(1))
    worker.take(an_attempt(2), Held(1))
    assert worker.list_suspects() == [an_attempt(1)]
    worker.begun.add(an_attempt(2))
    assert worker.list_suspects() == [an_attempt(2)]
