"""Serves clients: turns their requests into decisions and queries, and watches jobs for them."""

import asyncio
import logging
import os
from collections.abc import Coroutine, Iterable, Iterator, Mapping
from functools import partial
from typing import Any

from msgspec.structs import asdict

from gandy import __version__
from gandy.config import Address
from gandy.core import requests as ask
from gandy.core.effects import Effect, Reply
from gandy.core.explain import explain_ends, explain_waiting
from gandy.core.extensions import ARGUMENTS, FETCH, Piece, decode_fetch, make_problem
from gandy.core.extensions import encode as encode_extension
from gandy.core.foreman import Batch
from gandy.core.jobs import FINAL_JOB_STATES
from gandy.core.links import Link
from gandy.core.model import JobState, TaskState
from gandy.core.records import JobForgotten
from gandy.core.roles import may_ask, tell_who_may
from gandy.core.rows import MAX_CHARACTER_BYTES, ROW_BYTES, JobRow, take_page
from gandy.core.snapshot import make_job
from gandy.core.switchboard import Switchboard
from gandy.core.withdrawal import Withdrawal
from gandy.core.workers import Worker
from gandy.errors import RemoteProtocolError, StoreError
from gandy.foreman.audit import Audit
from gandy.foreman.blobs import Blobs
from gandy.foreman.errands import ANSWERS, Errands
from gandy.foreman.intake import Intake
from gandy.foreman.keeper import Keeper
from gandy.foreman.news import News, Token, tell_row
from gandy.foreman.outputs import Outputs
from gandy.foreman.refusal import Refusal
from gandy.foreman.request_queue import RequestQueue
from gandy.foreman.retractions import Retractions
from gandy.foreman.server import Server
from gandy.ids import JobId, TaskNumber
from gandy.interfaces import list_reachable
from gandy.keys.foreman import ForemanKeys
from gandy.limits import MAX_PAGE, MAX_TEXT
from gandy.net.links import OWNER, Visitor
from gandy.net.links import Link as NetLink
from gandy.talk.events import ExtensionReceived

log = logging.getLogger("gandy.foreman")

# Words for the audit.
CHANGES = {ask.CancelJob: "cancelled", ask.HoldJob: "held", ask.ReleaseJob: "released", ask.RetryJob: "retried"}

RESULTS_PAGE = 500  # results in one answer, at most
DRAIN_PAUSE = 0.05  # seconds between two looks at whether the last worker has left
PIECE_TIMEOUT = 10.0  # seconds that a worker has to send a piece of output


class Clerk:
    """One for each foreman."""

    def __init__(self, server: Server, blobs: Blobs, store_name: str, keys: ForemanKeys, audit: Audit) -> None:
        self.server = server
        self._blobs = blobs
        self._news = News(server)
        self._intake = Intake(server)
        self.listening: list[str] = []
        self.insecure_doors: list[str] = []  # of these, the ones without keys
        self.network: list[Address] = []  # where others come in with their keys
        self._audit = audit
        self.keeper = Keeper(server, keys, audit, self._list_reachable)
        self.should_stop = asyncio.Event()
        self._store_name = store_name
        self._started = server.clock.now()
        self._errands = Errands(server)
        self._retractions = Retractions(server, self._errands)
        self._outputs = Outputs(server, self._errands)
        self._tasks: set[asyncio.Task[None]] = set()
        self._queues: dict[Link, RequestQueue] = {}

    def on_message(self, link: Link, message: ExtensionReceived) -> None:
        """A request of a client or a worker, or what a worker answers."""
        if message.type in ANSWERS:
            self._errands.on_answer(link, message)
        elif message.type in (FETCH, ask.REQUEST):
            queue = self._queues.get(link)
            if queue is None:
                queue = self._queues[link] = RequestQueue(_get_port(link), partial(self._begin, link))
            queue.add(message)

    async def _begin(self, link: Link, message: ExtensionReceived) -> None:
        if message.type == FETCH:
            await self._send_arguments(link, message)
        else:
            await self._serve(link, message)

    def on_answered(self, link: Link) -> None:
        """A request of this link has its answer."""
        if link in self._queues:
            self._queues[link].on_answered()

    def _list_reachable(self) -> list[str]:
        """As it is now: this machine may have been moved."""
        return [str(each) for address in self.network for each in list_reachable(address)]

    def on_start(self) -> None:
        self._intake.on_start()

    def on_commit(self, batch: Batch) -> None:
        self._news.on_commit(batch)

    def on_withdrawal(self, new: Withdrawal) -> None:
        self._intake.on_withdrawal(new)
        for job in sorted(new.jobs):  # which the audit calls submitted
            self._audit.note("could not keep a job", OWNER, job=job)

    def on_gone(self, link: Link) -> None:
        """A client or a worker is gone."""
        queue = self._queues.pop(link, None)
        if queue is not None:
            queue.cancel()
        self._errands.on_gone(link)
        self._news.on_gone(link)
        self._intake.on_gone(link)

    async def close(self) -> None:
        await self._news.close()
        for queue in self._queues.values():
            queue.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, link: Link, message: ExtensionReceived) -> None:
        """Whatever happens, the request is answered, and once."""
        token = (link, message.seq)
        try:
            answer = await self._try(token, message.payload)
            if answer is not None:
                self.server.answer(*token, answer)
        except Exception as error:
            log.exception("a request of a client could not be handled: this is a bug in gandy")
            text = f"the foreman has a bug, and its log tells more: {type(error).__name__}"
            self.server.answer(*token, ask.make_failure("internal", text))

    async def _try(self, token: Token, payload: bytes) -> ask.Answer | None:
        """The answer, or None where it comes later."""
        try:
            request = ask.decode_request(payload)
            who = self._check_role(request, token[0])
            return await self._answer(request, token, who)
        except Refusal as error:
            return ask.make_failure(error.kind, str(error), error.retryable)
        except StoreError as error:
            return ask.make_failure("store", str(error), error.retryable)
        except RemoteProtocolError as error:
            return ask.make_failure("bad_request", str(error))

    def _check_role(self, request: ask.Request, link: Link) -> Visitor:
        """Who asks. Raises: Refusal."""
        role, visitor = link.who.role, _get_port(link).peer
        if not may_ask(role, request):
            what = type(request).__name__
            self._audit.note("refused", visitor, why=f"{what} is not for the role {role}")
            text = f"{what} is not for the role {role}, which this key is for; {tell_who_may(request)}"
            raise Refusal("not_allowed", text)
        return visitor

    async def _answer(self, request: ask.Request, token: Token, who: Visitor) -> ask.Answer | None:
        """The answer, or None where it comes later, behind the records that make it true."""
        match request:
            case ask.Submit() | ask.AddLines() | ask.AddTasks() | ask.CloseJob():
                await self._take(request, token, who)
                return None
            case ask.CancelJob() | ask.HoldJob() | ask.ReleaseJob() | ask.RetryJob():
                return await self._change(request, who)
            case ask.RetractTasks():
                return await self._retract(request, who)
            case ask.ForgetJobs():
                await self._forget(request, token, who)
                return None
            case ask.StopWorker(worker, immediate):
                done = self._stop_worker(worker, immediate)
                self._audit.note("stopped a worker", who, worker=worker)
                return done
            case ask.StopForeman(drain):
                self._audit.note("stopped the foreman", who)
                return self._stop_foreman(drain)
            case ask.WatchJob(job) | ask.WatchResults(job):
                # Nothing is awaited before this: what is committed meanwhile would be missed.
                follow = self._news.watch if isinstance(request, ask.WatchJob) else self._news.listen
                return ask.JobFound(_check_readable(_check_found(job, await follow(job, token))))
            case ask.ListKeys() | ask.MakeKey() | ask.RevokeKey() | ask.Invite():
                return self.keeper.answer(request, who)
            case ask.PutArguments(name, offset, data, is_last):
                await asyncio.to_thread(self._blobs.put, name, offset, data, is_last)
                return ask.Done()
            case _:
                return await self._look_up(request)

    async def _take(
        self, request: ask.Submit | ask.AddLines | ask.AddTasks | ask.CloseJob, token: Token, who: Visitor
    ) -> None:
        answer: ask.Answer = ask.Done()
        match request:
            case ask.Submit():
                number, effects = await self._intake.submit(request, token)
                answer = ask.Submitted(number)
                name, tasks = request.spec.name, request.spec.tasks
                self._audit.note("submitted", who, job=number, name=name, tasks=tasks)
            case ask.AddLines():
                effects = self._intake.add_lines(request, token)
            case ask.AddTasks():
                effects = self._intake.add_tasks(request, token)
            case ask.CloseJob(job):
                effects = self._intake.close_job(job)
        self.server.decide([*effects, Reply(token, answer, takes_work=not isinstance(request, ask.CloseJob))])

    async def _look_up(self, request: ask.Request) -> ask.Answer:
        overview = self.server.overview
        match request:
            case ask.ShowJob(job):
                return ask.JobFound(await self._get_job(job))
            case ask.ListJobs(states, limit, before):
                wanted = None if states is None else frozenset(states)
                return ask.JobList(tuple(await overview.list_jobs(wanted, min(limit, MAX_PAGE), before)))
            case ask.ListTasks(job, states, limit, after):
                await self._get_job(job)
                found = None if states is None else frozenset(states)
                return ask.TaskList(tuple(await overview.list_tasks(job, found, min(limit, MAX_PAGE), after)))
            case ask.ListResults(job, after):
                return await self._list_results(job, after)
            case ask.ReadOutput(job, task):
                return await self._outputs.read(request, await self._get_task(job, task))
            case ask.ReadOutputs(job):
                return await self._outputs.read_many(request, await self._get_job(job))
            case ask.ListAttempts(job, task, above):
                await self._get_task(job, task)
                return ask.TaskList(tuple(await overview.list_attempts(job, task, above)))
            case ask.ExplainJob(job, task):
                return await self._explain(job, task)
            case ask.ListWorkers(behind):
                return self._list_workers(behind)
            case ask.GetStatus():
                return self._status()
            case ask.GetTime():
                return ask.Time(self.server.clock.shared())
            case _:
                raise Refusal("bad_request", f"this foreman cannot {type(request).__name__}")

    async def _list_results(self, job: JobId, after: TaskNumber) -> ask.Results:
        await self._get_job(job)
        rows = await self.server.store.list_results(job, RESULTS_PAGE, after)
        return ask.Results(tuple(map(tell_row, rows)), is_last=not rows)

    def _list_workers(self, after: str) -> ask.WorkerList:
        now, board = self.server.now(), self.server.foreman.switchboard
        behind = (worker for worker in self.server.foreman.reactor.workers if worker.info.id > after)
        found = sorted(behind, key=_get_id)
        rows = (_worker_row(worker, board, now) for worker in found)
        return ask.WorkerList(tuple(take_page(rows, MAX_PAGE, _weigh_worker)))

    # Changing

    async def _change(
        self, request: ask.CancelJob | ask.HoldJob | ask.ReleaseJob | ask.RetryJob, who: Visitor
    ) -> ask.Answer:
        self._refuse_if_stuck()
        row = _check_readable(await self._get_job(request.job))
        if row.state in FINAL_JOB_STATES and not isinstance(request, ask.RetryJob):
            raise Refusal("refused", f"job {request.job} is {row.state.name.lower()} already")
        effects = await self._decide(request)
        if not effects and isinstance(request, ask.RetryJob):
            raise Refusal("refused", _tell_nothing_to_retry(row, request.tasks))
        self._audit.note(CHANGES[type(request)], who, job=request.job)  # now: who hangs up ends what is awaited below
        await self.server.commit(effects)
        return ask.JobFound(await self._get_job(request.job))

    async def _retract(self, request: ask.RetractTasks, who: Visitor) -> ask.Retracted:
        self._refuse_if_stuck()
        _check_readable(await self._get_job(request.job))
        self._audit.note("retracted", who, job=request.job, tasks=len(request.tasks))
        return await self._retractions.retract(request)

    async def _decide(self, request: ask.CancelJob | ask.HoldJob | ask.ReleaseJob | ask.RetryJob) -> list[Effect]:
        reactor, now = self.server.foreman.reactor, self.server.now
        match request:
            case ask.CancelJob(job, tasks):
                return reactor.cancel(job, tasks, now())
            case ask.HoldJob(job):
                return reactor.hold(job, now())
            case ask.ReleaseJob(job):
                return reactor.release(job, now())
            case ask.RetryJob(job, tasks):
                return reactor.retry(job, tasks, now()) or await self._retry_final(job, tasks)

    async def _retry_final(self, job: JobId, tasks: tuple[TaskNumber, ...] | None) -> list[Effect]:
        """Bring a final job back into the foreman's memory, if any of its tasks can be tried again."""
        reactor = self.server.foreman.reactor
        if reactor.jobs.find(job) is not None:
            return []
        await self.server.commit([])  # what has just left the memory is in the store after this
        found = await self.server.store.load_job(job)
        now = self.server.now()
        if reactor.jobs.find(job) is not None:  # another client was quicker
            return reactor.retry(job, tasks, now)
        if found is None:
            return []
        unfinished = {before for before in found.row.spec.after if reactor.jobs.find(before) is not None}
        return reactor.revive(make_job(found, unfinished, now), tasks, now)

    def _refuse_if_stuck(self) -> None:
        if self.server.is_stuck:
            raise Refusal("store", f"nothing is changed now: {self.server.trouble}", retryable=True)

    async def _forget(self, request: ask.ForgetJobs, token: Token, who: Visitor) -> None:
        self._refuse_if_stuck()
        states = await self.server.store.find_states(request.jobs)
        kept = tuple(self._find_kept(states, request.jobs))
        staying = {each.job for each in kept}
        gone = [job for job in dict.fromkeys(request.jobs) if job not in staying]
        self.server.unreadable.difference_update(gone)
        self.server.decide([*map(JobForgotten, gone), Reply(token, ask.Forgotten(kept))])
        if gone:
            self._audit.note("forgot", who, **({"job": gone[0]} if len(gone) == 1 else {"jobs": gone}))

    def _find_kept(self, states: Mapping[JobId, JobState], jobs: Iterable[JobId]) -> Iterator[ask.NotForgotten]:
        """Those of the jobs that cannot be forgotten."""
        for job in dict.fromkeys(jobs):
            state = states.get(job)
            if state is None:
                yield ask.NotForgotten(job, f"there is no job {job}", is_unknown=True)
            elif not self._may_forget(job, state):
                yield ask.NotForgotten(job, f"job {job} is {state.name.lower()}; cancel it first")

    def _may_forget(self, job: JobId, state: JobState) -> bool:
        """Nothing else can be done about a job that cannot be read."""
        is_final = state in FINAL_JOB_STATES or job in self.server.unreadable
        return is_final and self.server.foreman.reactor.jobs.find(job) is None

    def _stop_worker(self, name: str, immediate: bool) -> ask.Done:
        reactor = self.server.foreman.reactor
        found = [worker for worker in reactor.workers if name in (worker.info.name, worker.info.id)]
        if not found:
            raise Refusal("not_found", f"no worker is called {name}")
        for worker in found:
            self.server.decide(reactor.drain(worker.info.id, immediate))
        return ask.Done()

    def _stop_foreman(self, drain: bool) -> ask.Done:
        if drain:
            self._spawn(self._drain())
        else:
            self.should_stop.set()
        return ask.Done()

    async def _drain(self) -> None:
        """Send all workers away, and stop when the last one has told its last result."""
        reactor = self.server.foreman.reactor
        for worker in list(reactor.workers):
            self.server.decide(reactor.drain(worker.info.id))
        while len(reactor.workers):
            await asyncio.sleep(DRAIN_PAUSE)
        self.should_stop.set()

    # Looking

    async def _get_job(self, job: JobId) -> JobRow:
        return _check_found(job, await self.server.overview.find_job(job))

    async def _get_task(self, job: JobId, task: TaskNumber) -> JobRow:
        row = await self._get_job(job)
        if not 1 <= task <= row.spec.tasks:
            raise Refusal("not_found", f"job {job} has tasks 1 to {row.spec.tasks}, and no task {task}")
        return row

    async def _explain(self, job: JobId, task: TaskNumber | None) -> ask.Explained:
        row = await (self._get_job(job) if task is None else self._get_task(job, task))
        known = self.server.foreman.reactor.jobs.find(job)
        counts = row.counts
        told = ", ".join(f"{count} {name}" for name, count in asdict(counts).items())
        lines = [f"Job {job} is {row.state.name.lower()}: {told}."]
        if known is not None and counts.waiting:
            lines += explain_waiting(self.server.foreman.reactor, known, self.server.now())
        if row.state is JobState.CANCELLED:
            lines += [await self._explain_after(before) for before in row.spec.after]
        if row.problem:
            lines.append(f"It cannot be read, and is set aside: {row.problem}. 'gandy job forget {job}' deletes it.")
        if self.server.trouble:
            lines.append(f"The store has a problem: {self.server.trouble}")
        if task is not None:
            lines += explain_ends(await self.server.overview.list_attempts(job, task))
        else:
            failed = frozenset({TaskState.FAILED})
            lines += explain_ends(await self.server.store.list_tasks(job, failed, 5, TaskNumber(0)))
        return ask.Explained(tuple(line[:MAX_TEXT] for line in lines[:MAX_PAGE]))

    async def _explain_after(self, job: JobId) -> str:
        row = await self.server.store.find_job(job)
        return f"It was to run after job {job}, which is {'forgotten' if row is None else row.state.name.lower()}."

    def _status(self) -> ask.Status:
        reactor = self.server.foreman.reactor
        here = [worker for worker in reactor.workers if worker.connected]
        begun = sum(1 for _ in reactor.list_begun())
        given = sum(job.tasks.running for job in reactor.jobs)
        return ask.Status(
            version=__version__,
            pid=os.getpid(),
            uptime_seconds=self.server.clock.now() - self._started,
            store=self._store_name,
            trouble=self.server.trouble[:MAX_TEXT],
            listening=tuple(self.listening),
            insecure=bool(self.insecure_doors),
            insecure_doors=tuple(self.insecure_doors),
            workers=len(here),
            slots=sum(worker.slots.total for worker in here),
            used=sum(worker.slots.busy for worker in here),
            jobs=len(reactor.jobs),
            waiting=sum(job.tasks.waiting for job in reactor.jobs) + given - begun,
            running=begun,
            unreadable=len(self.server.unreadable),
        )

    async def _send_arguments(self, link: Link, message: ExtensionReceived) -> None:
        """A worker wants a piece of large arguments."""
        try:
            fetch = decode_fetch(message.payload)
            data = await asyncio.to_thread(self._blobs.read, fetch.name, fetch.offset, fetch.limit)
            piece = Piece(data, is_last=len(data) < fetch.limit)
        except (Refusal, RemoteProtocolError) as error:
            piece = make_problem(str(error))
        except Exception as error:
            log.exception("a worker's request could not be handled: this is a bug in gandy")
            piece = make_problem(f"the foreman has a bug: {type(error).__name__}")
        if self.server.send(link, ARGUMENTS, encode_extension(piece), message.seq):
            self.on_answered(link)


def _tell_nothing_to_retry(row: JobRow, tasks: tuple[TaskNumber, ...] | None) -> str:
    which = "no task" if tasks is None else "none of these tasks"
    return f"job {row.job} is {row.state.name.lower()}: {which} failed or was cancelled, so there is nothing to retry"


def _check_found(job: JobId, row: JobRow | None) -> JobRow:
    if row is None:
        raise Refusal("not_found", f"there is no job {job}")
    return row


def _check_readable(row: JobRow) -> JobRow:
    if row.problem:
        raise Refusal("refused", f"job {row.job} cannot be read: {row.problem}; 'gandy job forget' deletes it")
    return row


def _get_port(link: Link) -> NetLink:
    assert isinstance(link.port, NetLink)
    return link.port


def _get_id(worker: Worker) -> str:
    return worker.info.id


def _weigh_worker(row: ask.WorkerRow) -> int:
    return ROW_BYTES + MAX_CHARACTER_BYTES * sum(map(len, (row.id, row.name, *row.tags, *row.commands)))


def _worker_row(worker: Worker, board: Switchboard, now: float) -> ask.WorkerRow:
    return ask.WorkerRow(
        id=worker.info.id,
        name=worker.info.name,
        slots=worker.slots.total,
        used=worker.slots.busy,
        running=sum(1 for _ in worker.list_begun()),
        tags=tuple(sorted(worker.info.tags)),
        connected=worker.connected,
        draining=worker.draining,
        silent_seconds=max(0.0, now - worker.last_heard),
        calls=board.count_running(worker.info.id),
        commands=tuple(board.list_offers(worker.info.id)),
        knows_time=worker.knows_time,
        problem=worker.problem,
    )
