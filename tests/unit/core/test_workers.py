from gandy.core.held import Held
from gandy.core.model import AttemptKey
from gandy.core.workers import KnownWorker, WorkerInfo, WorkerTable, worker_name
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
    a.held.take(an_attempt(1), Held(1))
    table.use(a)
    assert turns(table) == ["b"]
    a.held.release(an_attempt(1))
    a.held.release(an_attempt(1))
    assert a.slots.by_tasks == 0
    table.settle(a)
    assert turns(table) == ["b", "a"]
    table.check()


def test_absent_draining_and_refusing_workers_have_no_free_slot() -> None:
    info = WorkerInfo("a", "a", 4)
    worker = KnownWorker(info, connected=True)
    assert worker.free == 4
    worker.draining = True
    assert worker.free == 0
    worker.draining, worker.ask_again_at = False, 1.0
    assert worker.free == 0
    assert KnownWorker(info, connected=False).free == 0


def test_a_worker_that_takes_no_tasks_has_slots_for_calls_alone() -> None:
    table = WorkerTable()
    worker = KnownWorker(WorkerInfo("a", "a", 4, ahead=10, takes_tasks=False), connected=True)
    table.add(worker)
    assert (worker.free, worker.room, worker.slots.free_for_calls) == (0, 0, 4)
    assert (turns(table), table.spare) == ([], {})
    table.check()


def test_a_worker_can_leave() -> None:
    table = a_table("a", "b")
    table.remove(get(table, "a"))
    assert (len(table), turns(table), [worker.info.id for worker in table]) == (1, ["b"], ["b"])
    assert table.find("a") is None


def test_a_name_is_in_the_id() -> None:
    assert worker_name("big-hut-1f2e") == "big-hut"
    assert worker_name("link1") == "link1"
