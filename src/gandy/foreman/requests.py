"""Serves clients: performs the steps that `core.answers` asks for, and sends the answers. It decides nothing."""

import asyncio
import logging
import secrets
from collections.abc import Coroutine
from functools import partial
from typing import Any, Final, assert_never

from gandy.config import Address
from gandy.core import requests as ask
from gandy.core.answers import Answers
from gandy.core.extensions import ARGUMENTS, FETCH, Piece, decode_fetch, make_problem
from gandy.core.extensions import encode as encode_extension
from gandy.core.foreman import Batch
from gandy.core.links import Link
from gandy.core.refusal import Refusal
from gandy.core.steps import (
    Ask,
    Commit,
    CompareClocks,
    Decide,
    DrawIdentity,
    Follow,
    KeepArguments,
    Look,
    ManageKeys,
    Note,
    Step,
    Steps,
    StopProgram,
)
from gandy.core.withdrawal import Withdrawal
from gandy.errors import RemoteProtocolError, StoreError
from gandy.foreman.audit import Audit
from gandy.foreman.blobs import Blobs
from gandy.foreman.followers import Followers
from gandy.foreman.key_requests import KeyRequests
from gandy.foreman.questions import ANSWERS, Questions
from gandy.foreman.request_queue import RequestQueue
from gandy.foreman.server import Server
from gandy.interfaces import list_reachable
from gandy.keys.foreman import ForemanKeys
from gandy.limits import LAST_INTEGER
from gandy.moments import Monotonic
from gandy.net.links import OWNER, SocketLink, Visitor
from gandy.talk.events import ExtensionReceived

log = logging.getLogger("gandy.foreman")

DRAIN_PAUSE: Final = 0.05  # seconds between two looks at whether the last worker has left


class Requests:
    """One for each foreman."""

    def __init__(self, server: Server, blobs: Blobs, keys: ForemanKeys, audit: Audit) -> None:
        self._server = server
        self._blobs = blobs
        self._audit = audit
        self._followers = Followers(server)
        self._questions = Questions(server)
        self.network: list[Address] = []  # where others come in with their keys
        self.key_requests = KeyRequests(server, keys, audit, self._list_reachable)
        self.should_stop = asyncio.Event()
        self._tasks: set[asyncio.Task[None]] = set()
        self._queues: dict[Link, RequestQueue] = {}

    def on_start(self) -> None:
        self._answers = Answers(self._server.foreman, self._server.standing)
        self._answers.intake.on_start(self._server.now())

    def on_message(self, link: Link, message: ExtensionReceived) -> None:
        """A request of a client or a worker, or what a worker answers."""
        if message.type in ANSWERS:
            self._questions.on_answer(link, message)
        elif message.type in (FETCH, ask.REQUEST):
            queue = self._queues.get(link)
            if queue is None:
                queue = self._queues[link] = RequestQueue(_get_port(link), partial(self._begin, link))
            queue.add(message)

    def on_answered(self, link: Link) -> None:
        """A request of this link has its answer."""
        if link in self._queues:
            self._queues[link].on_answered()

    def on_commit(self, batch: Batch) -> None:
        self._followers.on_commit(batch)

    def on_withdrawal(self, new: Withdrawal) -> None:
        self._answers.intake.on_withdrawal(new)
        for job in sorted(new.jobs):  # which the audit calls submitted
            self._audit.note("could not keep a job", OWNER, job=job)

    def on_gone(self, link: Link) -> None:
        """A client or a worker is gone."""
        queue = self._queues.pop(link, None)
        if queue is not None:
            queue.cancel()
        self._questions.on_gone(link)
        self._followers.on_gone(link)
        self._server.decide(list(self._answers.intake.on_gone(link, self._server.now())))

    def on_time(self, now: Monotonic) -> None:
        self._server.standing.now = now
        self._server.decide(list(self._answers.intake.on_time(now)))

    async def close(self) -> None:
        await self._followers.close()
        for queue in self._queues.values():
            queue.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _begin(self, link: Link, message: ExtensionReceived) -> None:
        if message.type == FETCH:
            await self._send_arguments(link, message)
        else:
            await self._serve(link, message)

    async def _serve(self, link: Link, message: ExtensionReceived) -> None:
        """Whatever happens, the request is answered, and once."""
        try:
            answer = await self._try(link, message)
            if answer is not None:
                self._server.answer(link, message.seq, answer)
        except Exception as error:
            log.exception("a request of a client could not be handled: this is a bug in gandy")
            text = f"the foreman has a bug, and its log tells more: {type(error).__name__}"
            self._server.answer(link, message.seq, ask.make_failure("internal", text))

    async def _try(self, link: Link, message: ExtensionReceived) -> ask.Answer | None:
        """The answer, or None where it comes later."""
        try:
            return await self._run(self._answers.answer(message.payload, link, message.seq), (link, message.seq))
        except Refusal as error:
            return ask.make_failure(error.kind, str(error), error.retryable)
        except StoreError as error:
            return ask.make_failure("store", str(error), error.retryable)
        except RemoteProtocolError as error:
            return ask.make_failure("bad_request", str(error))

    async def _run(self, steps: Steps[ask.Answer | None], token: tuple[Link, int]) -> ask.Answer | None:
        """Perform steps until there is an answer. Raises: what the answer raises."""
        value: Any = None
        error: Exception | None = None
        while True:
            self._server.standing.now = self._server.now()
            try:
                step = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                answer: ask.Answer | None = stop.value
                return answer
            value, error = None, None
            try:
                value = await self._perform(step, token)
            except (Refusal, StoreError) as refused:
                error = refused

    async def _perform(self, step: Step, token: tuple[Link, int]) -> Any:
        """What the step gives. Raises: Refusal, StoreError."""
        server = self._server
        match step:
            case Look(read):
                return await read(server.store)
            case Decide(effects):
                server.decide(effects)
            case Commit(effects):
                await server.commit(effects)
            case Ask(questions, seconds):
                return await self._questions.ask(questions, seconds)
            case Note(what, about):
                self._audit.note(what, _get_visitor(token[0]), **about)
            case Follow(job, results):
                return await (self._followers.listen(job, token) if results else self._followers.watch(job, token))
            case CompareClocks():
                return server.clock.get_shared_ahead()
            case DrawIdentity():
                return secrets.randbelow(LAST_INTEGER) + 1
            case KeepArguments(request):
                await asyncio.to_thread(self._blobs.put, request.name, request.offset, request.data, request.is_last)
            case ManageKeys(about_keys):
                return self.key_requests.answer(about_keys, _get_visitor(token[0]))
            case StopProgram(drain):
                self._stop(drain)
            case _:
                assert_never(step)
        return None

    def _stop(self, drain: bool) -> None:
        if drain:
            self._spawn(self._wait_for_workers())
        else:
            self.should_stop.set()

    async def _wait_for_workers(self) -> None:
        """Stop when the last worker has told its last result."""
        while len(self._server.foreman.reactor.workers):
            await asyncio.sleep(DRAIN_PAUSE)
        self.should_stop.set()

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _list_reachable(self) -> list[str]:
        """As it is now: this machine may have been moved."""
        return [str(each) for address in self.network for each in list_reachable(address)]

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
        if self._server.send(link, ARGUMENTS, encode_extension(piece), message.seq):
            self.on_answered(link)


def _get_port(link: Link) -> SocketLink:
    assert isinstance(link.port, SocketLink)
    return link.port


def _get_visitor(link: Link) -> Visitor:
    return _get_port(link).peer
