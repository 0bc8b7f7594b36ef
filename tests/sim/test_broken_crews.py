"""Foremen, workers and databases that are broken on purpose: each breaks a law, and the simulator catches it."""

from collections.abc import Sequence

import pytest
from msgspec.structs import replace
from tests.sim.database import Database, DatabaseFaults
from tests.sim.hosts import ForemanProcess
from tests.sim.laws import BrokenLaw, Law
from tests.sim.many_foremen import ManyForemenCrew, ManyPlan
from tests.sim.workers import WorkerLuck
from tests.waiting import run_sync

from gandy.core.model import GIVEN_STATES, AttemptKey, Cause, Ending, TaskState
from gandy.core.records import Ended, JobAdded, Record
from gandy.core.routes import Routes
from gandy.core.rows import Recovered
from gandy.core.shards import Lease, ShardPlace
from gandy.foreman import hosting, viewers
from gandy.foreman.audience import Audience
from gandy.foreman.lease_guard import LeaseGuard
from gandy.moments import Wall
from gandy.worker import conversations

MAX_SEEDS = 1_000  # of a run of the tests
CARELESS_SEEDS = 40


class OpenDatabase(Database):
    """Lets every foreman commit, whoever owns the shard."""

    has_fence = False


class RepeatedCommits(Database):
    """Says of no commit that it was done, so that the foreman repeats it."""

    def do_find_out(self, mine: Lease, number: int) -> frozenset[AttemptKey] | None:
        super().do_find_out(mine, number)
        return None


class LateCommits(Database):
    """Says that a commit was not done, and lets it be done later."""

    def do_find_out(self, mine: Lease, number: int) -> frozenset[AttemptKey] | None:
        found = super().do_find_out(mine, number)
        if found is None:
            del self._commits[mine.shard, mine.epoch, number]
        return found


class HastyTakeover(Database):
    """Lets the tasks that run wait again, when a foreman takes over their shard."""

    def do_open(self, mine: Lease) -> Recovered:
        for job in super().do_open(mine).jobs:
            given = [row for row in job.tasks if row.state in GIVEN_STATES]
            ends = [_give_back(AttemptKey(job.row.job, row.task, row.attempt), row.state) for row in given]
            run_sync(self.store.commit(ends))
        return super().do_open(mine)


def _give_back(attempt: AttemptKey, before: TaskState) -> Ended:
    return Ended(attempt, Ending(cause=Cause.RETURNED), TaskState.WAITING, Wall(0.0), before=before)


class KeylessDatabase(Database):
    """Keeps no keys of jobs."""

    def do_commit(self, mine: Lease, process: str, number: int, records: Sequence[Record]) -> frozenset[AttemptKey]:
        keyless = [replace(record, key=0) if isinstance(record, JobAdded) else record for record in records]
        return super().do_commit(mine, process, number, keyless)


class CarelessGuard(LeaseGuard):
    """Looks at no clock."""

    async def hold(self) -> None:
        return


class DeafRoutes(Routes):
    """Does not look at epochs."""

    def _is_moved(self, _place: ShardPlace, _is_here: bool) -> bool:
        return False


class ForgetfulAudience(Audience):
    """Leaves updates out for a viewer that lags, and forgets that it did."""

    def _send_changes(self, update: bytes) -> None:
        for viewer in self._viewers.values():
            if viewer.has_all and not viewer.is_behind:
                viewer.send(update)


class UnheardForeman(ForemanProcess):
    is_heard = False


def make_crew(
    database: type[Database] = Database, foreman: type[ForemanProcess] = ForemanProcess
) -> type[ManyForemenCrew]:
    return type("BrokenCrew", (ManyForemenCrew,), {"database_class": database, "foreman_class": foreman})


# Something goes wrong all the time at the one place that matters.
LOST_STATEMENTS = ManyPlan(database=DatabaseFaults(0.02, 0.02, lose_question=0.1, lose_answer=0.1, late=1.0), jobs=4)
CUT_CLIENTS = ManyPlan(database=DatabaseFaults(0.1, 0.1), trouble=0.5, clients=4, jobs=4)
STOPPED_FOREMEN = ManyPlan(
    database=DatabaseFaults(0.2, 0.2), luck=WorkerLuck(task_seconds=0.5), stop=0.05, foremen=3, jobs=4, tasks=20
)

VIEWED = ManyPlan(viewers=2, jobs=4)


def find_law(crew: type[ManyForemenCrew], law: Law, plan: ManyPlan | None = None) -> None:
    """Fails if the law holds in all seeds."""
    found: list[Law] = []
    for seed in range(MAX_SEEDS):
        try:
            crew(seed, plan).run()
        except BrokenLaw as error:
            found.append(error.law)
            if error.law is law:
                return
    pytest.fail(f"only {sorted(set(found))}")


@pytest.mark.parametrize(
    ("database", "law", "plan"),
    [
        pytest.param(OpenDatabase, Law.FENCE, None, id="no fence"),
        pytest.param(RepeatedCommits, Law.ONCE, None, id="a commit done twice"),
        pytest.param(LateCommits, Law.ONCE, LOST_STATEMENTS, id="a late commit done twice"),
        pytest.param(HastyTakeover, Law.ONCE, None, id="running tasks taken for waiting ones"),
        pytest.param(KeylessDatabase, Law.KEYED, CUT_CLIENTS, id="a job added twice"),
    ],
)
def test_a_broken_database_is_caught(database: type[Database], law: Law, plan: ManyPlan | None) -> None:
    find_law(make_crew(database), law, plan)


def test_a_foreman_that_sends_without_a_look_at_its_lease_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "LeaseGuard", CarelessGuard)
    find_law(ManyForemenCrew, Law.SPEECH, STOPPED_FOREMEN)


def test_a_foreman_that_forgets_what_a_viewer_missed_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(viewers, "Audience", ForgetfulAudience)
    find_law(ManyForemenCrew, Law.SHOWN, VIEWED)


def test_a_worker_that_ignores_epochs_is_caught_if_foremen_are_careless(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "LeaseGuard", CarelessGuard)
    monkeypatch.setattr(conversations, "Routes", DeafRoutes)
    find_law(make_crew(foreman=UnheardForeman), Law.SPEECH, STOPPED_FOREMEN)


def test_epochs_protect_workers_from_careless_foremen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(hosting, "LeaseGuard", CarelessGuard)
    for seed in range(CARELESS_SEEDS):
        make_crew(foreman=UnheardForeman)(seed, STOPPED_FOREMEN).run()
