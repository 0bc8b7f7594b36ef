"""What a shard wants of workers that it shares with others."""

from gandy.core.model import JobSpec
from gandy.core.reactor import Reactor
from gandy.core.shards import Want
from gandy.core.wants import NOTHING, PERIOD, Wants
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId


class Shard:
    def __init__(self) -> None:
        self.reactor = Reactor()
        self.wants = Wants(self.reactor.jobs, self.reactor.workers)
        self.wants.has_others = True
        self.now = 1.0

    def worker(self, name: str = "w", slots: int = 4, shares: bool = True, tags: frozenset[str] = frozenset()) -> None:
        info = WorkerInfo(name, name, slots, tags, reports_begun=True, shares_slots=shares)
        self.reactor.on_hello(info, (), 0.0)

    def capacity(self, slots: int, worker: str = "w") -> None:
        self.reactor.on_capacity(worker, slots, 0, "")

    def submit(self, tasks: int = 1, **changes: object) -> JobId:
        return self.reactor.control.submit(JobSpec(command="true", tasks=tasks, **changes), 0.0)[0]  # type: ignore[arg-type]

    def decide(self) -> list[tuple[str, Want]]:
        self.reactor.dispatch(self.now)
        return self.wants.decide(self.now)


def test_the_only_shard_of_a_crew_wants_nothing() -> None:
    shard = Shard()
    shard.wants.has_others = False
    shard.worker()
    shard.submit(tasks=100)
    assert shard.decide() == []


def test_a_shard_wants_more_of_a_worker_whose_slots_it_has_all() -> None:
    """Or those that become free would go to a shard of lower rank."""
    shard = Shard()
    shard.worker()
    job = shard.submit(tasks=6)
    assert shard.decide() == [("w", Want(2, 0, job))]
    assert shard.decide() == []


def test_the_next_of_many_small_jobs_has_the_rank_of_the_last_for_a_while() -> None:
    shard = Shard()
    shard.worker()
    shard.capacity(0)
    first, second = shard.submit(tasks=4), shard.submit(tasks=4)
    assert shard.decide() == [("w", Want(4, 0, first))]
    shard.reactor.control.cancel(first, None, 1.0)
    shard.now += PERIOD / 2
    assert shard.decide() == []
    shard.now += PERIOD
    assert shard.decide() == [("w", Want(4, 0, second))]
    older = shard.submit(tasks=1, priority=1)
    assert shard.decide() == [("w", Want(4, 1, older))]


def test_a_shard_wants_slots_for_tasks_that_wait_and_says_so_once() -> None:
    shard = Shard()
    shard.worker()
    shard.capacity(0)
    job = shard.submit(tasks=2, priority=3)
    assert shard.decide() == [("w", Want(2, 3, job))]
    assert shard.decide() == []
    shard.reactor.control.cancel(job, None, 1.0)
    assert shard.decide() == [("w", NOTHING)]
    assert shard.decide() == []


def test_the_rank_is_that_of_the_best_job_and_the_slots_are_those_of_all() -> None:
    shard = Shard()
    shard.worker()
    shard.capacity(0)
    shard.submit(tasks=1)
    best = shard.submit(tasks=1, priority=1, slots=2)
    assert shard.decide() == [("w", Want(3, 1, best))]
    shard.submit(tasks=100)
    assert shard.decide() == [("w", Want(4, 1, best))]


def test_what_no_task_could_use_is_not_wanted() -> None:
    shard = Shard()
    shard.worker("small", 1)
    shard.worker("plain", shares=False)
    shard.worker("tagged", tags=frozenset({"gpu"}))
    shard.worker("gone")
    for name in ("small", "plain", "tagged", "gone"):
        shard.capacity(0, name)
    shard.reactor.on_absent("gone", 0.5)
    job = shard.submit(slots=2, tags=("gpu",))
    assert shard.decide() == [("tagged", Want(2, 0, job))]


def test_a_worker_that_says_hello_again_is_told_again() -> None:
    shard = Shard()
    shard.worker()
    shard.capacity(0)
    job = shard.submit()
    assert shard.decide() == [("w", Want(1, 0, job))]
    shard.wants.on_hello("w")
    assert shard.decide() == [("w", Want(1, 0, job))]


def test_a_held_job_wants_nothing() -> None:
    shard = Shard()
    shard.worker()
    shard.capacity(0)
    shard.submit(held=True)
    assert shard.decide() == []


def test_a_job_that_has_reached_its_limit_wants_nothing() -> None:
    shard = Shard()
    shard.worker()
    shard.capacity(1)
    shard.submit(tasks=3, limit=1)
    other = shard.submit(tasks=2)
    assert shard.decide() == [("w", Want(2, 0, other))]


def test_the_same_is_wanted_of_all_workers_of_a_kind() -> None:
    shard = Shard()
    for name in "ab":
        shard.worker(name)
        shard.capacity(0, name)
    job = shard.submit(tasks=9)
    assert shard.decide() == [("a", Want(4, 0, job)), ("b", Want(4, 0, job))]
