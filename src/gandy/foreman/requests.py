"""Serves clients: performs the steps that `core.answers` asks for, and sends the answers. It decides nothing."""

import asyncio
import logging
import secrets
from typing import Any, Final, assert_never

from gandy.core import requests as ask
from gandy.core import steps
from gandy.core.answers import Answers
from gandy.core.extensions import ARGUMENTS, FETCH, Piece, decode_fetch, make_problem
from gandy.core.extensions import encode as encode_extension
from gandy.core.foreman import Batch, Foreman
from gandy.core.links import Link
from gandy.core.refusal import Refusal, name_kind
from gandy.core.withdrawal import Withdrawal
from gandy.errors import RemoteProtocolError, StoreError
from gandy.foreman.arguments import ArgumentStore
from gandy.foreman.audit import Audit
from gandy.foreman.clock import ForemanClock
from gandy.foreman.committer import Committer
from gandy.foreman.followers import Followers
from gandy.foreman.key_requests import KeyRequests
from gandy.foreman.messenger import Messenger
from gandy.foreman.questions import ANSWERS, Questions
from gandy.foreman.request_queue import OpenRequest, RequestQueue
from gandy.foreman.shard import ServedShard
from gandy.foreman.viewers import Viewers
from gandy.keys.foreman import ForemanKeys
from gandy.limits import LAST_INTEGER
from gandy.moments import Monotonic
from gandy.net.links import OWNER, get_port
from gandy.talk.events import ExtensionReceived

log = logging.getLogger("gandy.foreman")

DRAIN_PAUSE: Final = 0.05  # seconds between two looks at whether the last worker has left


class Requests:
    """Has a queue of requests for each link. Implements `foreman.committer.CommitListener`."""

    def __init__(
        self,
        foreman: Foreman,
        committer: Committer,
        clock: ForemanClock,
        arguments: ArgumentStore,
        keys: ForemanKeys,
        audit: Audit,
        shard: ServedShard,
    ) -> None:
        self._shard = shard
        self._foreman = foreman
        self._committer = committer
        self._clock = clock
        self._arguments = arguments
        self._audit = audit
        self._messenger = Messenger(foreman.links)
        shard.connect(self._messenger)
        self._followers = Followers(committer, self._messenger)
        self.viewers = Viewers(foreman, committer.standing, clock, self._messenger)
        self._questions = Questions(self._messenger)
        self.key_requests = KeyRequests(foreman, keys, audit)
        self.should_stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._queues: dict[Link, RequestQueue] = {}
        self._answers = Answers(foreman, committer.standing)
        self._answers.intake.on_start(clock.now())
        committer.listener = self

    def on_message(self, link: Link, message: ExtensionReceived) -> None:
        """A request of a client or a worker came, or the answer of a worker."""
        if message.type in ANSWERS:
            self._questions.on_answer(link, message)
        elif message.type in (FETCH, ask.REQUEST):
            queue = self._queues.get(link)
            if queue is None:
                queue = self._queues[link] = RequestQueue(link, self._messenger, self._serve)
            queue.add(message)

    def on_commit(self, batch: Batch) -> None:
        self._followers.on_commit(batch)
        self.viewers.on_records(batch.records)

    def on_withdrawal(self, new: Withdrawal) -> None:
        self._answers.intake.on_withdrawal(new)
        self.viewers.on_withdrawal(new)
        for job in sorted(new.jobs - new.earlier.keys()):  # which the audit calls submitted
            self._audit.note("could not keep a job", OWNER, job=job)
        for job, earlier in sorted(new.earlier.items()):
            self._audit.note("found that a job was submitted before", OWNER, job=job, earlier=earlier)

    def on_gone(self, link: Link) -> None:
        """A client or a worker is gone."""
        queue = self._queues.pop(link, None)
        if queue is not None:
            queue.cancel()
        self._questions.on_gone(link)
        self._followers.on_gone(link)
        self.viewers.on_gone(link)
        self._shard.on_gone(link)
        self._committer.decide(list(self._answers.intake.on_gone(link, self._clock.now())))

    def on_time(self, now: Monotonic) -> None:
        self._committer.standing.now = now
        self._committer.decide(list(self._answers.intake.on_time(now)))

    async def close(self) -> None:
        self._shard.close()
        await self._followers.close()
        self.viewers.close()
        for queue in self._queues.values():
            queue.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _serve(self, request: OpenRequest) -> None:
        """Whatever happens, the request is answered, and once."""
        if request.message.type == FETCH:
            await self._send_arguments(request)
            return
        try:
            answer = await self._find_answer(request)
            if answer is not None:
                request.answer(answer)
        except Exception as error:
            log.exception("a request of a client could not be handled: this is a bug in gandy")
            text = f"the foreman has a bug, and its log says more: {type(error).__name__}"
            request.answer(ask.make_failure("internal", text))

    async def _find_answer(self, request: OpenRequest) -> ask.Answer | None:
        """Perform steps until there is an answer. None: it comes later."""
        answering = self._answers.answer(request.message.payload, request.link, request)
        value: Any = None
        error: Exception | None = None
        try:
            while True:
                self._committer.standing.now = self._clock.now()
                step = answering.send(value) if error is None else answering.throw(error)
                value, error = None, None
                try:
                    perform = self._ask_crew if isinstance(step, steps.CrewStep) else self._perform
                    value = await perform(step, request)  # type: ignore[arg-type]
                except (Refusal, StoreError) as refused:
                    error = refused
        except StopIteration as stop:
            answer: ask.Answer | None = stop.value
            return answer
        except Refusal as refusal:
            return ask.make_failure(refusal.kind, str(refusal), refusal.retryable)
        except StoreError as trouble:
            return ask.make_failure(name_kind(trouble), str(trouble), trouble.retryable)
        except RemoteProtocolError as broken:
            return ask.make_failure("bad_request", str(broken))

    async def _perform(self, step: steps.OwnStep, request: OpenRequest) -> Any:
        """The result of the step. Raises: Refusal, StoreError."""
        match step:
            case steps.Look(read):
                return await read(self._committer.store)
            case steps.Decide(effects):
                self._committer.decide(effects)
            case steps.Commit(effects):
                await self._committer.commit(effects)
            case steps.Ask(questions, seconds):
                return await self._questions.ask(questions, seconds)
            case steps.Note(what, about):
                self._audit.note(what, get_port(request.link).peer, **about)
            case steps.Follow() | steps.Show() | steps.Unfollow():
                return await self._subscribe(step, request)
            case steps.CompareClocks():
                return self._clock.get_shared_ahead()
            case steps.DrawIdentity():
                return secrets.randbelow(LAST_INTEGER) + 1
            case steps.KeepArguments(put):
                await self._arguments.put(put.name, put.offset, put.data, put.is_last)
            case steps.ManageKeys(about_keys):
                return await self.key_requests.answer(about_keys, get_port(request.link).peer)
            case steps.StopProgram(drain):
                self._stop(drain)
            case _:
                assert_never(step)
        return None

    async def _subscribe(self, step: steps.Follow | steps.Show | steps.Unfollow, request: OpenRequest) -> Any:
        """The result of a step about events. Raises: Refusal, StoreError."""
        match step:
            case steps.Show(viewed, first):
                return await self.viewers.show(viewed, first, request)
            case steps.Follow(job, results):
                follow = self._followers.listen if results else self._followers.watch
                return await follow(job, (request.link, request.message.seq))
            case steps.Unfollow(seq):
                self._queues[request.link].note_unwanted(seq)
                for followed in (self._followers, self.viewers, self._shard):
                    followed.unfollow((request.link, seq))
        return None

    async def _ask_crew(self, step: steps.CrewStep, request: OpenRequest) -> Any:
        """The result of a step that other shards have a part in. Raises: Refusal, StoreError."""
        match step:
            case steps.Forward(shard, asked):
                if request.is_unwanted:
                    return ask.Done()
                return await self._shard.forward(asked, shard, request.link, request.message.seq)
            case steps.AskShards(asked):
                return await self._shard.ask_all(asked)
            case steps.ManageCrew(about_crew):
                return await self._shard.manage(about_crew)

    def _stop(self, drain: bool) -> None:
        if drain:
            task = asyncio.create_task(self._wait_for_workers())
            self._tasks.add(task)
        else:
            self.should_stop.set()

    async def _wait_for_workers(self) -> None:
        """Stop when the last worker has reported its last result."""
        while len(self._foreman.reactor.workers):
            await asyncio.sleep(DRAIN_PAUSE)
        self.should_stop.set()

    async def _send_arguments(self, request: OpenRequest) -> None:
        """A worker wants a piece of large arguments."""
        try:
            fetch = decode_fetch(request.message.payload)
            data = await self._arguments.read(fetch.name, fetch.offset, fetch.limit)
            piece = Piece(data, is_last=len(data) < fetch.limit)
        except (Refusal, RemoteProtocolError, StoreError) as error:
            piece = make_problem(str(error))
        except Exception as error:
            log.exception("a worker's request could not be handled: this is a bug in gandy")
            piece = make_problem(f"the foreman has a bug: {type(error).__name__}")
        request.send(ARGUMENTS, encode_extension(piece))
