"""A foreman that answers requests without I/O: the steps of each are performed at once, on a store in memory."""

from collections.abc import Callable, Sequence
from typing import Any

from tests.ports import PlayedPort
from tests.waiting import run_sync

from gandy.core.answers import Answers
from gandy.core.effects import Reply
from gandy.core.extensions import FOREMAN_OFFERS
from gandy.core.foreman import Foreman
from gandy.core.links import Link
from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.policy import Policy
from gandy.core.reactor import Reactor
from gandy.core.records import Record
from gandy.core.refusal import Refusal
from gandy.core.requests import Answer, Done, KeyList, ListKeys, Request, encode
from gandy.core.roles import Credentials, CrewRole
from gandy.core.standing import Standing
from gandy.core.steps import (
    Ask,
    AskShards,
    Commit,
    CompareClocks,
    CrewStep,
    Decide,
    DrawIdentity,
    Follow,
    KeepArguments,
    Look,
    ManageKeys,
    Note,
    OwnStep,
    Question,
    Show,
    Step,
    StopProgram,
    Unfollow,
)
from gandy.errors import StoreError
from gandy.ids import JobId, TaskNumber
from gandy.store.memory import MemoryStore
from gandy.wire import v2
from gandy.wire.messages import About, Extension, Hello

OK = Ending(cause=Cause.EXIT, exit_code=0)
BAD = Ending(cause=Cause.EXIT, exit_code=1)
IDENTITY = 77


class ServedForeman:
    """Time stands still unless a test moves `now`. Workers answer questions as `on_question` says."""

    def __init__(self) -> None:
        self.store = MemoryStore()
        recovered = run_sync(self.store.open())
        self.now = 100.0
        self.standing = Standing(version="1", pid=5, store="memory:", started=40.0)
        self.foreman = Foreman(Reactor(Policy(grace=10.0, first_pace=0.0), recovered.next_job), self.now)
        self.answers = Answers(self.foreman, self.standing)
        self.shared: float | None = None  # the shared time, if it is known
        self.full = ""  # the error of the disk
        self.notes: list[tuple[str, dict[str, object]]] = []
        self.kept: list[object] = []
        self.stops: list[bool] = []
        self.unfollowed: list[int] = []  # numbers of requests
        self.replies: dict[tuple[Link, int], Answer] = {}
        self.steps: list[Step] = []  # of the last request
        self.on_commit: Callable[[Sequence[Record]], None] = lambda _records: None
        self.before_step: Callable[[Step], None] = lambda _step: None  # for what happens while a step is performed
        self.on_question: Callable[[Question], bytes | None] = lambda _question: None  # no worker answers
        self.other_shards: list[Answer] = []  # their answers to every question
        self.keys = KeyList(())
        self._seq = 0
        self._links = 0

    def connect(self, name: str = "", role: CrewRole = CrewRole.CLIENT) -> Link:
        self._links += 1
        name = name or f"client {self._links}"
        return self.foreman.on_link(PlayedPort(name), Credentials(role, f"key of {name}"), self.now)

    def worker(
        self, name: str = "w", slots: int = 2, extensions: Extension = FOREMAN_OFFERS, version: str = ""
    ) -> Link:
        link = self.connect(f"link of {name}", CrewRole.OWNER)
        hello = Hello(slots, (), extensions & ~Extension.CLIENT, About(f"{name}-1", name, slots, version=version))
        self.foreman.on_data(link, v2.encode(0, hello), self.now)
        self.pump()
        return link

    def ask(self, request: Request, link: Link | None = None) -> Any:
        """The answer. Raises: Refusal, StoreError."""
        self._seq += 1
        token = self.token = (link or self.connect(), self._seq)
        steps = self.answers.answer(encode(request), token[0], token)
        self.steps = []
        value: Any = None
        error: Exception | None = None
        while True:
            self.standing.now = self.now
            try:
                step = steps.send(value) if error is None else steps.throw(error)
            except StopIteration as stop:
                return self.replies.pop(token) if stop.value is None else stop.value
            self.steps.append(step)
            self.before_step(step)
            value, error = None, None
            try:
                value = self._ask_crew(step) if isinstance(step, CrewStep) else self._perform(step)
            except (Refusal, StoreError) as refused:
                error = refused

    def _ask_crew(self, step: CrewStep) -> Any:
        return self.other_shards if isinstance(step, AskShards) else step.request

    def _perform(self, step: OwnStep) -> Any:
        if isinstance(step, DrawIdentity):
            return IDENTITY
        if isinstance(step, Look):
            return run_sync(step.read(self.store))  # type: ignore[arg-type]
        if isinstance(step, Follow | Show | Unfollow):
            return self._subscribe(step)
        match step:
            case Decide(effects) | Commit(effects):
                if self.full:
                    raise StoreError(self.full)
                self.foreman.batch.add(effects)
                self.pump()
            case Ask(questions):
                return [self.on_question(question) for question in questions]
            case Note(what, about):
                self.notes.append((what, dict(about)))
            case CompareClocks():
                return self._compare_clocks()
            case KeepArguments(request):
                self.kept.append(request)
            case ManageKeys(request):
                return self.keys if isinstance(request, ListKeys) else request
            case StopProgram(drain):
                self.stops.append(drain)
        return None

    def _subscribe(self, step: Follow | Show | Unfollow) -> Any:
        """No events are sent here."""
        if isinstance(step, Follow):
            return run_sync(self.store.find_job(step.job))
        if isinstance(step, Unfollow):
            self.unfollowed.append(step.seq)
            return None
        self.replies[self.token] = Done()
        return step.job is None or self.foreman.reactor.jobs.find(step.job) is not None

    def _compare_clocks(self) -> float:
        if self.shared is None:
            raise Refusal("no_clock", "there is no shared time")
        return self.shared - self.now

    def pump(self) -> None:
        """Commit the decisions, and perform them."""
        while self.foreman.has_work:
            batch = self.foreman.take_batch(self.now)
            run_sync(self.store.commit(batch.records))
            for send in batch.sends:
                if isinstance(send, Reply):
                    self.replies[send.token] = send.value
                else:
                    self.foreman.perform(send, {}, self.now)
            self.on_commit(batch.records)
        self.foreman.links.flush()
        self.foreman.check()

    def end(self, job: int, task: int = 1, ending: Ending = OK, attempt: int = 1, worker: str = "w-1") -> None:
        """A worker reports the end of a task."""
        key = AttemptKey(JobId(job), TaskNumber(task), attempt)
        self.foreman.batch.add(self.foreman.reactor.on_results(worker, [(key, ending)], self.now))
        self.pump()
