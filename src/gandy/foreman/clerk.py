"""Serves clients: turns their requests into decisions and queries, and watches jobs for them."""

import asyncio
import os
import time
from collections.abc import Coroutine
from typing import Any

from msgspec.structs import asdict

from gandy import __version__
from gandy.config import Address
from gandy.core import requests as ask
from gandy.core.desk import Desk
from gandy.core.effects import Effect, Reply
from gandy.core.explain import explain_ends, explain_waiting
from gandy.core.extensions import ARGUMENTS, FETCH, PIECE, READ, Piece, Read, decode_fetch, decode_piece
from gandy.core.extensions import encode as encode_extension
from gandy.core.foreman import Batch
from gandy.core.jobs import FINAL_JOB_STATES
from gandy.core.model import FINAL_STATES, JobState, TaskState
from gandy.core.records import JobForgotten
from gandy.core.roles import may_ask, tell_who_may
from gandy.core.rows import JobRow, TaskRow
from gandy.core.snapshot import restore_job
from gandy.core.switchboard import Switchboard
from gandy.core.workers import Worker, tell_name
from gandy.errors import RemoteProtocolError, StoreError
from gandy.foreman.audit import Audit
from gandy.foreman.blobs import Blobs
from gandy.foreman.intake import Intake
from gandy.foreman.keeper import Keeper
from gandy.foreman.news import News, Token, split_results, tell_row
from gandy.foreman.refusal import Refusal
from gandy.foreman.server import Server
from gandy.ids import JobId, TaskNumber
from gandy.interfaces import list_reachable
from gandy.keys.foreman import ForemanKeys
from gandy.net.links import Visitor
from gandy.talk.events import ExtensionReceived
from gandy.wire.messages import Extension

# Words for the audit.
CHANGES = {ask.CancelJob: "cancelled", ask.HoldJob: "held", ask.ReleaseJob: "released", ask.RetryJob: "retried"}

MAX_PAGE = 10_000  # rows in one answer
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
        self._started = time.time()
        self._pieces: dict[tuple[str, int], asyncio.Future[bytes]] = {}  # by link and number
        self._piece_count = 0
        self._tasks: set[asyncio.Task[None]] = set()

    def on_message(self, link: str, message: ExtensionReceived) -> None:
        """A client's request, or a worker's piece of output."""
        if message.type == PIECE:
            waiting = self._pieces.get((link, message.seq))  # of the worker that was asked, and no other
            if waiting is not None and not waiting.done():
                waiting.set_result(message.payload)
        elif message.type == FETCH:
            self._spawn(self._send_arguments(link, message))
        elif message.type == ask.REQUEST:
            self._spawn(self._serve(link, message))

    def _list_reachable(self) -> list[str]:
        """As it is now: this machine may have been moved."""
        return [str(each) for address in self.network for each in list_reachable(address)]

    def on_start(self) -> None:
        self._intake.on_start()

    def on_commit(self, batch: Batch) -> None:
        self._news.on_commit(batch)

    def on_gone(self, link: str) -> None:
        """A client is gone."""
        self._news.on_gone(link)
        self._intake.on_gone(link)

    async def close(self) -> None:
        await self._news.close()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, link: str, message: ExtensionReceived) -> None:
        token = (link, message.seq)
        try:
            request = ask.decode_request(message.payload)
            who = self._check_role(request, link)
            answer = await self._answer(request, token, who)
        except Refusal as error:
            answer = ask.Failure(error.kind, str(error), error.retryable)
        except StoreError as error:
            answer = ask.Failure("store", str(error), error.retryable)
        except RemoteProtocolError as error:
            answer = ask.Failure("bad_request", str(error))
        if answer is not None:
            self.server.answer(*token, answer)

    def _check_role(self, request: ask.Request, name: str) -> Visitor:
        """Who asks. Raises: Refusal."""
        link = self.server.find_link(name)
        if link is None:
            raise Refusal("gone", "the link is gone")
        if not may_ask(link.role, request):
            what = type(request).__name__
            self._audit.note("refused", link.peer, why=f"{what} is not for the role {link.role}")
            text = f"{what} is not for the role {link.role}, which this key is for; {tell_who_may(request)}"
            raise Refusal("not_allowed", text)
        return link.peer

    async def _answer(self, request: ask.Request, token: Token, who: Visitor) -> ask.Answer | None:
        """The answer, or None where it comes later, behind the records that make it true."""
        match request:
            case ask.Submit() | ask.AddLines() | ask.AddTasks() | ask.CloseJob():
                await self._take(request, token, who)
                return None
            case ask.CancelJob() | ask.HoldJob() | ask.ReleaseJob() | ask.RetryJob():
                return await self._change(request, who)
            case ask.ForgetJob(job):
                await self._forget(job, token, who)
                return None
            case ask.StopWorker(worker, immediate):
                done = self._stop_worker(worker, immediate)
                self._audit.note("stopped a worker", who, worker=worker)
                return done
            case ask.StopForeman(drain):
                self._audit.note("stopped the foreman", who)
                return self._stop_foreman(drain)
            case ask.WatchJob(job):
                return ask.JobFound(_check_found(job, await self._news.watch(job, token)))
            case ask.WatchResults(job):
                return ask.JobFound(_check_found(job, await self._news.listen(job, token)))
            case ask.ReadOutput():
                return await self._read_output(request)
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
        self.server.decide([*effects, Reply(token, answer)])

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
            case ask.ListAttempts(job, task):
                await self._get_task(job, task)
                return ask.TaskList(tuple(await overview.list_attempts(job, task)))
            case ask.ExplainJob(job, task):
                return await self._explain(job, task)
            case ask.ListWorkers():
                now = time.time()
                board = self.server.lane.switchboard
                return ask.WorkerList(tuple(_worker_row(w, board, now) for w in self.server.foreman.reactor.workers))
            case ask.GetStatus():
                return self._status()
            case ask.GetTime():
                return ask.Time(self.server.clock.now())
            case _:
                raise Refusal("bad_request", f"this foreman cannot {type(request).__name__}")

    async def _list_results(self, job: JobId, after: TaskNumber) -> ask.Results:
        await self._get_job(job)
        rows = await self.server.store.list_results(job, RESULTS_PAGE, after)
        part = next(split_results([tell_row(row) for row in rows]), ())
        return ask.Results(part, is_last=len(part) == len(rows) < RESULTS_PAGE)

    # Changing

    async def _change(
        self, request: ask.CancelJob | ask.HoldJob | ask.ReleaseJob | ask.RetryJob, who: Visitor
    ) -> ask.Answer:
        if self.server.trouble:
            raise Refusal("store", f"nothing is changed now: {self.server.trouble}", retryable=True)
        row = await self._get_job(request.job)
        if row.state in FINAL_JOB_STATES and not isinstance(request, ask.RetryJob):
            raise Refusal("refused", f"job {request.job} is {row.state.name.lower()} already")
        await self.server.commit(await self._decide(request))
        self._audit.note(CHANGES[type(request)], who, job=request.job)
        return ask.JobFound(await self._get_job(request.job))

    async def _decide(self, request: ask.CancelJob | ask.HoldJob | ask.ReleaseJob | ask.RetryJob) -> list[Effect]:
        reactor, now = self.server.foreman.reactor, time.time()
        match request:
            case ask.CancelJob(job, tasks):
                return reactor.cancel(job, tasks, now)
            case ask.HoldJob(job):
                return reactor.hold(job, now)
            case ask.ReleaseJob(job):
                return reactor.release(job, now)
            case ask.RetryJob(job, tasks):
                if reactor.jobs.find(job) is None:
                    await self._restore(job)
                return reactor.retry(job, tasks, now)

    async def _restore(self, job: JobId) -> None:
        """Bring a final job back into the foreman's memory."""
        found = await self.server.store.load_job(job)
        if found is not None and self.server.foreman.reactor.jobs.find(job) is None:
            restore_job(self.server.foreman.reactor, found, set(), time.time())

    async def _forget(self, job: JobId, token: Token, who: Visitor) -> None:
        row = await self._get_job(job)
        if row.state not in FINAL_JOB_STATES or self.server.foreman.reactor.jobs.find(job) is not None:
            raise Refusal("refused", f"job {job} is {row.state.name.lower()}; cancel it first")
        self.server.decide([JobForgotten(job), Reply(token, ask.Done())])
        self._audit.note("forgot", who, job=job)

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
            lines += explain_waiting(self.server.foreman.reactor, known, time.time())
        if row.state is JobState.CANCELLED:
            lines += [await self._explain_after(before) for before in row.spec.after]
        if self.server.trouble:
            lines.append(f"The store has a problem: {self.server.trouble}")
        if task is not None:
            lines += explain_ends(await self.server.overview.list_attempts(job, task))
        else:
            failed = frozenset({TaskState.FAILED})
            lines += explain_ends(await self.server.store.list_tasks(job, failed, 5, TaskNumber(0)))
        return ask.Explained(tuple(lines))

    async def _explain_after(self, job: JobId) -> str:
        row = await self.server.store.find_job(job)
        return f"It was to run after job {job}, which is {'forgotten' if row is None else row.state.name.lower()}."

    def _status(self) -> ask.Status:
        reactor = self.server.foreman.reactor
        board = self.server.lane.switchboard
        here = [worker for worker in reactor.workers if worker.connected]
        unbegun = sum(1 for _ in reactor.list_unbegun())
        return ask.Status(
            version=__version__,
            pid=os.getpid(),
            uptime_seconds=time.time() - self._started,
            store=self._store_name,
            trouble=self.server.trouble,
            listening=tuple(self.listening),
            insecure=bool(self.insecure_doors),
            insecure_doors=tuple(self.insecure_doors),
            workers=len(here),
            slots=sum(max(worker.info.slots, board.tell_slots(worker.info.id)) for worker in here),
            used=sum(worker.busy + board.tell_in_use(worker.info.id) for worker in here),
            jobs=len(reactor.jobs),
            waiting=sum(job.tasks.counts.waiting for job in reactor.jobs) + unbegun,
            running=sum(job.tasks.running for job in reactor.jobs) - unbegun,
        )

    async def _send_arguments(self, link: str, message: ExtensionReceived) -> None:
        """A worker wants a piece of large arguments."""
        try:
            fetch = decode_fetch(message.payload)
            data = await asyncio.to_thread(self._blobs.read, fetch.name, fetch.offset, fetch.limit)
            piece = Piece(data, is_last=len(data) < fetch.limit)
        except (Refusal, RemoteProtocolError) as error:
            piece = Piece(b"", is_last=True, problem=str(error))
        desk = self.server.foreman.desks.get(link)
        if desk is not None:
            desk.send(ARGUMENTS, encode_extension(piece), message.seq)
            self.server.flush_link(link)

    def _find_keeper(self, worker: str) -> Desk | None:
        """The worker that has the output of an attempt: the same, or one that was started again in its place."""
        desk = self.server.foreman.find_desk(worker)
        if desk is not None:
            return desk
        same = (w for w in self.server.foreman.reactor.workers if w.connected and w.info.name == tell_name(worker))
        return next((self.server.foreman.find_desk(w.info.id) for w in same), None)

    async def _read_output(self, request: ask.ReadOutput) -> ask.Output:
        await self._get_task(request.job, request.task)
        attempts = await self.server.store.list_attempts(request.job, request.task)
        wanted = [row for row in attempts if request.attempt in (0, row.attempt) and row.attempt]
        if not wanted:
            (task,) = await self.server.store.list_tasks(request.job, None, 1, TaskNumber(request.task - 1))
            return ask.Output(b"", 0, is_last=task.state in FINAL_STATES)
        row = wanted[-1]
        desk = self._find_keeper(row.worker)
        if desk is None or Extension.OUTPUT not in desk.agreed:
            return _read_without_worker(request, row, is_here=desk is not None)
        read = Read(request.job, request.task, row.attempt, request.stream, request.offset, min(request.limit, 1 << 20))
        self._piece_count = (self._piece_count + 1) & 0xFFFF_FFFF
        number = (desk.link, self._piece_count)
        self._pieces[number] = asyncio.get_running_loop().create_future()
        desk.send(READ, encode_extension(read), self._piece_count)
        self.server.wake()
        try:
            async with asyncio.timeout(PIECE_TIMEOUT):
                piece = decode_piece(await self._pieces[number])
        except TimeoutError:
            raise Refusal("gone", f"worker {row.worker} does not send its output", retryable=True) from None
        finally:
            del self._pieces[number]
        if piece.problem:
            raise Refusal("gone", f"worker {row.worker} cannot read what task {request.task} wrote: {piece.problem}")
        return ask.Output(piece.data, row.attempt, piece.is_last and row.state is not TaskState.RUNNING)


def _check_found(job: JobId, row: JobRow | None) -> JobRow:
    if row is None:
        raise Refusal("not_found", f"there is no job {job}")
    return row


def _worker_row(worker: Worker, board: Switchboard, now: float) -> ask.WorkerRow:
    return ask.WorkerRow(
        id=worker.info.id,
        name=worker.info.name,
        slots=max(worker.info.slots, board.tell_slots(worker.info.id)),
        used=worker.busy + board.tell_in_use(worker.info.id),
        running=len(worker.held) - sum(1 for _ in worker.list_unbegun()),
        tags=tuple(sorted(worker.info.tags)),
        connected=worker.connected,
        draining=worker.draining,
        silent_seconds=max(0.0, now - worker.last_heard),
        calls=board.count_running(worker.info.id),
        commands=tuple(board.list_offers(worker.info.id)),
        knows_time=worker.knows_time,
    )


def _read_without_worker(request: ask.ReadOutput, row: TaskRow, is_here: bool) -> ask.Output:
    """What is known where the worker is away, or keeps no output: the last words on standard error."""
    if row.state is TaskState.RUNNING and not is_here:
        return ask.Output(b"", row.attempt, is_last=False)  # it may come back
    if request.stream != "err" and not is_here:
        name = tell_name(row.worker)
        raise Refusal("gone", f"what task {request.task} wrote is on worker {name}, which is not here", retryable=True)
    tail = row.ending.tail if row.ending is not None and request.stream == "err" else b""
    return ask.Output(tail[request.offset : request.offset + request.limit], row.attempt, is_last=True)
