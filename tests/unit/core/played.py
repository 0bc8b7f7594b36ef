"""A reactor with the clock in hand, and what can be read from the effects of a step."""

from tests.reactors import PromptReactor

from gandy.core.effects import Effect, Give, Recall
from gandy.core.model import AttemptKey, Cause, Counts, Ending, JobSpec, JobState, TaskState
from gandy.core.policy import Policy
from gandy.core.records import Ended, JobSet
from gandy.core.workers import WorkerInfo
from gandy.ids import JobId, TaskNumber

OK = Ending(cause=Cause.EXIT, exit_code=0)
FAILED = Ending(cause=Cause.EXIT, exit_code=1)
ONE = JobId(1)


def key(task: int = 1, attempt: int = 1, job: int = 1) -> AttemptKey:
    return AttemptKey(JobId(job), TaskNumber(task), attempt)


def a_spec(tasks: int = 1, **changes: object) -> JobSpec:
    return JobSpec(command="true", tasks=tasks, **changes)  # type: ignore[arg-type]


def a_worker(name: str = "w", slots: int = 2, tags: tuple[str, ...] = ()) -> WorkerInfo:
    return WorkerInfo(name, name, slots, frozenset(tags))


class Played:
    """A reactor that is checked after each step, with the clock in hand. What it gives, workers have at once."""

    def __init__(self, *workers: WorkerInfo, policy: Policy | None = None) -> None:
        self.reactor = PromptReactor(policy or Policy(grace=10.0, crash_limit=2, first_pace=0.0))
        for worker in workers:
            self.reactor.on_hello(worker, [], 0.0)

    def submit(self, spec: JobSpec, now: float = 0.0) -> list[Effect]:
        _, effects = self.reactor.control.submit(spec, now)
        return self.seen(effects)

    def end(self, attempt: AttemptKey, ending: Ending = OK, worker: str = "w", now: float = 1.0) -> list[Effect]:
        return self.seen(self.reactor.on_results(worker, [(attempt, ending)], now))

    def seen(self, effects: list[Effect]) -> list[Effect]:
        self.reactor.check()
        for effect in effects:
            if isinstance(effect, Give) and (worker := self.reactor.workers.find(effect.worker)) is not None:
                self.reactor.on_given(effect.worker, [each.attempt for each in effect.assignments], worker.last_moved)
        return effects

    def counts(self, job: int = 1) -> Counts:
        found = self.reactor.jobs.find(JobId(job))
        assert found is not None
        return found.tasks.counts


def given(effects: list[Effect]) -> dict[str, list[AttemptKey]]:
    return {e.worker: [a.attempt for a in e.assignments] for e in effects if isinstance(e, Give)}


def states(effects: list[Effect]) -> list[JobState]:
    return [e.state for e in effects if isinstance(e, JobSet)]


def ended(effects: list[Effect]) -> list[tuple[AttemptKey, TaskState]]:
    return [(e.attempt, e.state) for e in effects if isinstance(e, Ended)]


def an_eager_worker(name: str = "w", slots: int = 1, ahead: int = 2) -> WorkerInfo:
    return WorkerInfo(name, name, slots, frozenset(), ahead, reports_begun=True)


def recalled(effects: list[Effect]) -> dict[str, tuple[AttemptKey, ...]]:
    return {e.worker: e.attempts for e in effects if isinstance(e, Recall)}
