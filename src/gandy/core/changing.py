"""Answers requests that change jobs, or dismiss workers."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final, assert_never

from gandy.core import requests as ask
from gandy.core.effects import Effect, Reply
from gandy.core.extensions import RETRACT, Retraction, decode_retraction, encode
from gandy.core.foreman import Foreman
from gandy.core.linking import SourceJob
from gandy.core.looking import Looking, check_readable
from gandy.core.model import FINAL_JOB_STATES, AttemptKey, JobState, TaskState
from gandy.core.records import JobForgotten
from gandy.core.refusal import Refusal
from gandy.core.rows import JobRow, RecoveredJob, TaskRow
from gandy.core.snapshot import make_job
from gandy.core.sources import list_missing, look_at_source
from gandy.core.standing import Standing
from gandy.core.steps import Ask, Commit, Decide, Look, Note, Question, Steps, StopProgram
from gandy.errors import RemoteProtocolError
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAGE
from gandy.wire.messages import Extension

CANCELLED: Final = frozenset({TaskState.CANCELLED})

PATIENCE: Final = 5.0  # seconds that a worker has to answer; if it does not, its tasks count as begun

# Words for the audit.
CHANGES: Final = {ask.CancelJob: "cancelled", ask.HoldJob: "held", ask.ReleaseJob: "released", ask.RetryJob: "retried"}

Change = ask.CancelJob | ask.HoldJob | ask.ReleaseJob | ask.RetryJob


class Changing:
    """Changes jobs by the reactor, and answers when the store knows of it. Raises: Refusal."""

    def __init__(self, foreman: Foreman, standing: Standing, looking: Looking) -> None:
        self._foreman = foreman
        self._standing = standing
        self._looking = looking

    def change(self, request: Change) -> Steps[ask.Answer]:
        self._refuse_if_stuck(request)
        row = check_readable((yield from self._looking.get_job(request.job)))
        if row.state in FINAL_JOB_STATES and not isinstance(request, ask.RetryJob):
            if _may_be_done(request, row):
                return ask.JobFound(row)
            raise Refusal("refused", f"job {request.job} is {row.state.name.lower()} already")
        effects = yield from self._decide(request, row)
        if not effects and isinstance(request, ask.RetryJob):
            if request.again:
                return ask.JobFound(row)
            raise Refusal("refused", _explain_no_retry(row, request.tasks))
        yield Note(CHANGES[type(request)], {"job": request.job})  # first: what follows ends if the client hangs up
        yield Commit(effects)
        return ask.JobFound((yield from self._looking.get_job(request.job)))

    def _decide(self, request: Change, row: JobRow) -> Steps[list[Effect]]:
        reactor, now = self._foreman.reactor, self._standing.now
        match request:
            case ask.CancelJob(job, tasks):
                return reactor.control.cancel(job, tasks, now)
            case ask.HoldJob(job):
                return reactor.control.hold(job, now)
            case ask.ReleaseJob(job):
                return reactor.control.release(job, now)
            case ask.RetryJob(_, tasks):
                return (yield from self._retry(row, tasks))
            case _:
                assert_never(request)

    def _retry(self, row: JobRow, tasks: tuple[TaskNumber, ...] | None) -> Steps[list[Effect]]:
        """Have tasks tried again. A final job comes back into the foreman's memory, if there is one to be tried."""
        reactor, job, spec = self._foreman.reactor, row.job, row.spec
        sources: dict[JobId, SourceJob] = {}
        found: RecoveredJob | None = None
        # No step may follow the last look at any of them.
        while (missing := list_missing(spec.after_each, reactor.jobs, sources)) or not (
            found or reactor.jobs.find(job)
        ):
            yield Commit([])  # then the store has what has just left the memory
            for source in missing:
                sources[source] = yield from look_at_source(source)
            found = yield Look(lambda store: store.load_job(job))
            if found is None:
                return []
        now = self._standing.now
        if found is None or reactor.jobs.find(job) is not None:  # perhaps another client was quicker
            return reactor.control.retry(job, tasks, now, sources)
        before = (*spec.after, *spec.after_any)
        unfinished = {each for each in before if reactor.jobs.find(each) is not None}
        return reactor.control.revive(make_job(found, unfinished, now), tasks, now, sources)

    def retract(self, request: ask.RetractTasks) -> Steps[ask.Answer]:
        """Cancel tasks that have not begun, and only those. Workers are asked about those that they have."""
        self._refuse_if_stuck(request)
        check_readable((yield from self._looking.get_job(request.job)))
        yield Note("retracted", {"job": request.job, "tasks": len(request.tasks)})
        reactor = self._foreman.reactor
        given = reactor.control.list_given(request.job, request.tasks)
        at_hand, effects = reactor.control.retract(request.job, request.tasks, self._standing.now)
        yield Commit(effects)
        dropped = yield from self._have_dropped(given)
        current = [a.task for a in dropped if reactor.current_attempt(a.job, a.task) == a]
        if current:
            yield Commit(reactor.control.cancel(request.job, current, self._standing.now))
        before = (yield from self._find_retracted(request)) if request.again else []
        return ask.Retracted(tuple(dict.fromkeys((*at_hand, *(attempt.task for attempt in dropped), *before))))

    def _find_retracted(self, request: ask.RetractTasks) -> Steps[list[TaskNumber]]:
        """Those of the tasks that are cancelled and that no worker ever had: the request may have come before."""
        asked = sorted(request.tasks)
        after = TaskNumber(asked[0] - 1) if asked else None
        found: list[TaskNumber] = []
        while after is not None and after < asked[-1]:
            page = yield from self._list_cancelled(request.job, after)
            found += [row.task for row in page if row.ending is None]
            after = page[-1].task if page else None
        return sorted(set(found).intersection(asked))

    def _list_cancelled(self, job: JobId, after: TaskNumber) -> Steps[list[TaskRow]]:
        return (yield Look(lambda store: store.list_tasks(job, CANCELLED, MAX_PAGE, after)))  # type: ignore[no-any-return]

    def _have_dropped(self, given: Mapping[str, list[AttemptKey]]) -> Steps[list[AttemptKey]]:
        """Have workers drop attempts. Returns those that had not begun, and never will."""
        asked: list[tuple[Question, list[AttemptKey]]] = []
        for worker, attempts in given.items():
            link = self._foreman.links.find(worker)
            if link is not None and Extension.OUTPUT in link.agreed:
                asked.append((Question(link, RETRACT, encode(Retraction(tuple(attempts)))), attempts))
        answers = yield Ask(tuple(question for question, _ in asked), PATIENCE)
        return [
            attempt
            for (_, attempts), answer in zip(asked, answers, strict=True)
            for attempt in _open_retraction(answer, attempts)
        ]

    def forget(self, request: ask.ForgetJobs, token: Any) -> Steps[None]:
        self._refuse_if_stuck(request)
        states = yield Look(lambda store: store.find_states(request.jobs))
        kept = tuple(self._find_kept(states, request.jobs))
        staying = {each.job for each in kept}
        gone = [job for job in dict.fromkeys(request.jobs) if job not in staying]
        self._standing.unreadable.difference_update(gone)
        told = tuple(each for each in kept if not (request.again and each.is_unknown))  # those were forgotten before
        yield Decide([*map(JobForgotten, gone), Reply(token, ask.Forgotten(told))])
        if gone:
            yield Note("forgot", {"job": gone[0]} if len(gone) == 1 else {"jobs": gone})

    def _find_kept(self, states: Mapping[JobId, JobState], jobs: Iterable[JobId]) -> Iterator[ask.NotForgotten]:
        """Those of the jobs that cannot be forgotten."""
        for job in dict.fromkeys(jobs):
            state = states.get(job)
            if state is None:
                yield ask.NotForgotten(job, f"there is no job {job}", is_unknown=True)
            elif not self._may_forget(job, state):
                yield ask.NotForgotten(job, f"job {job} is {state.name.lower()}; cancel it first")

    def _may_forget(self, job: JobId, state: JobState) -> bool:
        """True if the job is final, or cannot be read: nothing else can be done about that."""
        is_final = state in FINAL_JOB_STATES or job in self._standing.unreadable
        return is_final and self._foreman.reactor.jobs.find(job) is None

    def stop_worker(self, name: str, immediate: bool, again: bool = False) -> Steps[ask.Answer]:
        reactor = self._foreman.reactor
        found = [worker for worker in reactor.workers if name in (worker.info.name, worker.info.id)]
        if not found and again:
            return ask.Done()  # it has left
        if not found:
            raise Refusal("not_found", f"no worker is called {name}")
        yield Decide([effect for worker in found for effect in reactor.drain(worker.info.id, immediate)])
        yield Note("stopped a worker", {"worker": name})
        return ask.Done()

    def stop_foreman(self, drain: bool) -> Steps[ask.Answer]:
        """With `drain`, all workers are dismissed first, and it stops when all have reported their last tasks."""
        yield Note("stopped the foreman")
        reactor = self._foreman.reactor
        if drain:
            yield Decide([effect for worker in list(reactor.workers) for effect in reactor.drain(worker.info.id)])
        yield StopProgram(drain)
        return ask.Done()

    def _refuse_if_stuck(self, request: Change | ask.RetractTasks | ask.ForgetJobs) -> None:
        if self._standing.is_stuck:
            # The same request may have come before, and have been decided: then it is done later.
            what = "it may be done when the store works again" if request.again else "nothing can be changed now"
            raise self._standing.refuse(what)


def _may_be_done(request: Change, row: JobRow) -> bool:
    """True if a request that is sent again may be why this job is final, or was granted before it ended."""
    is_whole_cancel = isinstance(request, ask.CancelJob) and request.tasks is None
    return request.again and (not is_whole_cancel or row.state is JobState.CANCELLED)


def _open_retraction(answer: bytes | None, asked: list[AttemptKey]) -> set[AttemptKey]:
    """The attempts that a worker dropped, of those that it was asked to drop."""
    try:
        return set() if answer is None else set(decode_retraction(answer).attempts) & set(asked)
    except RemoteProtocolError:
        return set()


def _explain_no_retry(row: JobRow, tasks: tuple[TaskNumber, ...] | None) -> str:
    if row.spec.after_each and (row.counts.failed or row.counts.cancelled):
        others = ", ".join(map(str, row.spec.after_each))
        return f"tasks that those of job {row.job} need have not finished: retry those of job {others} first"
    which = "no task" if tasks is None else "none of these tasks"
    return f"job {row.job} is {row.state.name.lower()}: {which} failed or was cancelled, so there is nothing to retry"
