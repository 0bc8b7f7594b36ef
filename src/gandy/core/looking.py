"""Answers requests that change nothing: jobs, tasks, workers, and why something waits or failed."""

from collections.abc import Iterable
from typing import Final, TypeVar, assert_never

from gandy.core import requests as ask
from gandy.core.explain import explain_end, explain_ends, explain_waiting
from gandy.core.foreman import Foreman
from gandy.core.looking_back import LookingBack
from gandy.core.merging import list_versions, merge_status, merge_workers
from gandy.core.model import Cause, Ending, JobState, TaskState
from gandy.core.offsets import compute_shared
from gandy.core.outputs import Outputs
from gandy.core.refusal import Refusal
from gandy.core.rows import CHARACTER_BYTES, ROW_BYTES, JobRow, TaskRow, take_page
from gandy.core.standing import Standing
from gandy.core.steps import AskShards, CompareClocks, Follow, Look, Steps
from gandy.core.switchboard import Switchboard
from gandy.core.workers import KnownWorker
from gandy.ids import JobId, TaskNumber
from gandy.limits import MAX_PAGE, MAX_TEXT
from gandy.moments import Monotonic

RESULTS_PAGE: Final = 500  # results in one answer, at most
FEW_FAILURES: Final = 5  # that an explanation names
LONG_CHAIN: Final = 20  # tasks that wait for one another, in an explanation
CANCELLED: Final = frozenset({TaskState.CANCELLED})

S = TypeVar("S")


class Looking:
    """Reads the store, and the tables of the foreman. Raises: Refusal."""

    def __init__(self, foreman: Foreman, standing: Standing) -> None:
        self._foreman = foreman
        self._standing = standing
        self._outputs = Outputs(foreman)
        self._looking_back = LookingBack(foreman, standing)

    def answer(self, request: ask.Request) -> Steps[ask.Answer]:
        match request:
            case ask.ShowJob(job):
                return ask.JobFound((yield from self.get_job(job)))
            case ask.WatchJob(job) | ask.WatchResults(job):
                # No step comes before this one: what is committed meanwhile would be missed.
                row: JobRow | None = yield Follow(job, isinstance(request, ask.WatchResults))
                return ask.JobFound(check_readable(_check_found(job, row)))
            case ask.ListJobs(states, limit, before):
                jobs = yield Look(lambda store: store.list_jobs(_make_set(states), min(limit, MAX_PAGE), before))
                return ask.JobList(tuple(jobs))
            case ask.ListTasks() | ask.ListAttempts() | ask.ListResults():
                return (yield from self._list(request))
            case ask.ReadOutput(job, task):
                return (yield from self._outputs.read(request, (yield from self._get_task(job, task))))
            case ask.ReadOutputs(job):
                return (yield from self._outputs.read_many(request, (yield from self.get_job(job))))
            case ask.ExplainJob(job, task):
                return (yield from self._explain(job, task))
            case ask.ListWorkers(behind, is_local):
                here = self._list_workers(behind)
                return here if is_local or not self._foreman.shard else (yield from self._add_workers(here, behind))
            case ask.GetStatus(is_local):
                status = self._make_status()
                return status if is_local or not self._foreman.shard else (yield from self._add_status(status))
            case ask.ListSamples() | ask.ReadSample():
                return (yield from self._looking_back.answer(request))
            case ask.GetTime():
                ahead: float = yield CompareClocks()
                return ask.Time(compute_shared(self._standing.now, ahead))
            case _:
                raise Refusal("bad_request", f"this foreman cannot {type(request).__name__}")

    def get_job(self, job: JobId) -> Steps[JobRow]:
        return _check_found(job, (yield Look(lambda store: store.find_job(job))))

    def _get_task(self, job: JobId, task: TaskNumber) -> Steps[JobRow]:
        row = yield from self.get_job(job)
        if not 1 <= task <= row.spec.tasks:
            raise Refusal("not_found", f"job {job} has tasks 1 to {row.spec.tasks}, and no task {task}")
        return row

    def _list(self, request: ask.ListTasks | ask.ListAttempts | ask.ListResults) -> Steps[ask.Answer]:
        match request:
            case ask.ListTasks(job, states, limit, after):
                yield from self.get_job(job)
                wanted, most = _make_set(states), min(limit, MAX_PAGE)
                return ask.TaskList(tuple((yield Look(lambda store: store.list_tasks(job, wanted, most, after)))))
            case ask.ListAttempts(job, task, above):
                yield from self._get_task(job, task)
                return ask.TaskList(tuple((yield Look(lambda store: store.list_attempts(job, task, above)))))
            case ask.ListResults(job, after):
                yield from self.get_job(job)
                rows = yield Look(lambda store: store.list_results(job, RESULTS_PAGE, after))
                return ask.Results(tuple(map(describe_result, rows)), is_last=not rows)
            case _:
                assert_never(request)

    def _list_workers(self, after: str) -> ask.WorkerList:
        behind = (worker for worker in self._foreman.reactor.workers if worker.info.id > after)
        board, now = self._foreman.switchboard, self._standing.now
        rows = (_describe_worker(worker, board, now) for worker in sorted(behind, key=lambda worker: worker.info.id))
        return ask.WorkerList(tuple(take_page(rows, MAX_PAGE, _weigh_worker)))

    def _add_workers(self, here: ask.WorkerList, after: str) -> Steps[ask.Answer]:
        """The workers with what they do for other shards, too."""
        elsewhere = yield AskShards(ask.ListWorkers(after, is_local=True))
        return merge_workers(here, [each for each in elsewhere if isinstance(each, ask.WorkerList)])

    def _add_status(self, here: ask.ForemanStatus) -> Steps[ask.Answer]:
        elsewhere = yield AskShards(ask.GetStatus(is_local=True))
        return merge_status(here, [each for each in elsewhere if isinstance(each, ask.ForemanStatus)])

    def _explain(self, job: JobId, task: TaskNumber | None) -> Steps[ask.Explained]:
        row = yield from (self.get_job(job) if task is None else self._get_task(job, task))
        known = self._foreman.reactor.jobs.find(job)
        counts = ", ".join(f"{count} {name}" for name, count in row.counts.list_by_progress())
        lines = [f"Job {job} is {row.state.name.lower()}: {counts}."]
        if known is not None and (row.counts.waiting or row.counts.assigned):
            lines += explain_waiting(self._foreman.reactor, known, self._standing.now)
        if row.state is JobState.CANCELLED:
            for before in row.spec.after:
                lines.append((yield from self._explain_after(before)))
        if row.problem:
            lines.append(f"It cannot be read, and is set aside: {row.problem}. 'gandy job forget {job}' deletes it.")
        if self._standing.trouble:
            lines.append(f"The store has a problem: {self._standing.trouble}")
        lines += yield from self._explain_sources(row, task)
        lines += explain_ends((yield from self._find_ends(job, task)))
        return ask.Explained(tuple(line[:MAX_TEXT] for line in lines[:MAX_PAGE]))

    def _find_ends(self, job: JobId, task: TaskNumber | None) -> Steps[list[TaskRow]]:
        if task is not None:
            return (yield Look(lambda store: store.list_attempts(job, task)))  # type: ignore[no-any-return]
        failed = frozenset({TaskState.FAILED})
        return (yield Look(lambda store: store.list_tasks(job, failed, FEW_FAILURES, TaskNumber(0))))  # type: ignore[no-any-return]

    def _explain_after(self, job: JobId) -> Steps[str]:
        row: JobRow | None = yield Look(lambda store: store.find_job(job))
        return f"It was to run after job {job}, which is {'forgotten' if row is None else row.state.name.lower()}."

    def _explain_sources(self, row: JobRow, task: TaskNumber | None) -> Steps[list[str]]:
        """The chain of tasks for which one waits or was cancelled; without one, for the first that was cancelled."""
        if task is None and row.spec.after_each and row.counts.cancelled:
            ends = yield Look(lambda store: store.list_tasks(row.job, CANCELLED, 1, TaskNumber(0)))
            task = ends[0].task if ends else None
        lines: list[str] = []
        found: tuple[JobRow, TaskRow] | None = (row, TaskRow(task, TaskState.WAITING, 0)) if task is not None else None
        while found is not None and len(lines) < LONG_CHAIN:
            below, found = found, (yield from self._find_unfinished_source(found[0], found[1].task))
            if found is not None:
                at, end = f"task {found[1].task} of job {found[0].job}", found[1]
                how = explain_end(end) if end.state is TaskState.FAILED else f"{end.state.name.lower()}."
                lines.append(f"Task {below[1].task} of job {below[0].job} needs {at}: {how}")
        return lines

    def _find_unfinished_source(self, row: JobRow, task: TaskNumber) -> Steps[tuple[JobRow, TaskRow] | None]:
        """The first of the tasks that a task needs, and that has not finished."""
        for number in row.spec.after_each:
            source: JobRow | None = yield Look(lambda store, number=number: store.find_job(number))  # type: ignore[misc]
            ends = yield Look(lambda store, number=number: store.find_tasks(number, [task]))  # type: ignore[misc]
            if source is not None and ends and ends[0].state is not TaskState.FINISHED:
                return source, ends[0]
        return None

    def _make_status(self) -> ask.ForemanStatus:
        reactor, standing = self._foreman.reactor, self._standing
        here = [worker for worker in reactor.workers if worker.connected]
        counts = [job.tasks.counts for job in reactor.jobs]
        return ask.ForemanStatus(
            version=standing.version,
            pid=standing.pid,
            uptime_seconds=standing.now - standing.started,
            store=standing.store,
            trouble=standing.trouble[:MAX_TEXT],
            listening=tuple(standing.listening),
            insecure=bool(standing.insecure_doors),
            insecure_doors=tuple(standing.insecure_doors),
            workers=len(here),
            slots=sum(worker.all_slots for worker in here),
            used=sum(worker.slots.busy for worker in here),
            jobs=len(reactor.jobs),
            waiting=sum(each.waiting for each in counts),
            assigned=sum(each.assigned for each in counts),
            running=sum(each.running for each in counts),
            unreadable=len(standing.unreadable),
            foremen=standing.foremen,
            shard=self._foreman.shard,
            foreman=standing.id,
            versions=list_versions((standing.version, *(worker.info.version for worker in here))),
        )


def check_readable(row: JobRow) -> JobRow:
    if row.problem:
        raise Refusal("refused", f"job {row.job} cannot be read: {row.problem}; 'gandy job forget' deletes it")
    return row


def _check_found(job: JobId, row: JobRow | None) -> JobRow:
    if row is None:
        raise Refusal("not_found", f"there is no job {job}")
    return row


def _make_set(states: Iterable[S] | None) -> frozenset[S] | None:
    return None if states is None else frozenset(states)


def describe_result(row: TaskRow) -> ask.ResultRow:
    """The result of a task that has ended for good, as the store has it."""
    if row.ending is None:
        return describe_cancelled(row.task)
    return describe_end(row.task, row.state, row.attempt, row.ending)


def describe_cancelled(task: TaskNumber) -> ask.ResultRow:
    """The result of a task that was cancelled before it began."""
    return ask.ResultRow(task, TaskState.CANCELLED, 0, Cause.CANCELLED)


def describe_end(task: TaskNumber, state: TaskState, attempt: int, ending: Ending) -> ask.ResultRow:
    return ask.ResultRow(
        task, state, attempt, ending.cause, ending.note, ending.tail, ending.result, ending.result_bytes
    )


def _weigh_worker(row: ask.WorkerRow) -> int:
    return ROW_BYTES + CHARACTER_BYTES * sum(map(len, (row.id, row.name, *row.tags, *row.commands)))


def _describe_worker(worker: KnownWorker, board: Switchboard, now: Monotonic) -> ask.WorkerRow:
    machine = worker.machine_now
    return ask.WorkerRow(
        id=worker.info.id,
        name=worker.info.name,
        slots=worker.all_slots,
        used=worker.slots.busy,
        running=len(worker.held.begun),
        tags=tuple(sorted(worker.info.tags)),
        connected=worker.connected,
        draining=worker.draining,
        silent_seconds=max(0.0, now - worker.last_heard),
        calls=len(worker.serves),
        commands=tuple(board.dispatcher.offers.list_names(worker.info.id)),
        knows_time=worker.knows_time,
        problem=worker.problem,
        version=worker.info.version,
        load=None if machine is None else machine.load,
        cores=None if machine is None else machine.cores or None,
        memory_bytes=None if machine is None else machine.memory_bytes or None,
        memory_total_bytes=None if machine is None else machine.memory_total_bytes or None,
    )
