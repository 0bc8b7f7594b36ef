"""The links of a foreman, whatever is at the other end: a worker of any generation, a client, an observer.

A link translates the conversation into the terms of the reactor, and back. Nothing above it knows which protocol a
worker speaks. A plain worker, which has no name and no attempts, gets both here.
"""

import shlex
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

from msgspec import UNSET, UnsetType
from msgspec.structs import astuple

from gandy.core.calls import Peer
from gandy.core.effects import Assignment, Effect
from gandy.core.extensions import BEGUN, CAPACITY, PING, PONG, decode_begun, decode_capacity
from gandy.core.model import AttemptKey, Cause, Ending, Input, JobSpec
from gandy.core.reactor import Reactor
from gandy.core.reports import read_attempt, read_ending, read_identity
from gandy.core.roles import Credentials
from gandy.core.workers import PING_PONG, ROUND_ROBIN, WorkerInfo
from gandy.errors import ErrorCode, LocalProtocolError
from gandy.ids import JobId
from gandy.limits import MAX_TOLD
from gandy.moments import Monotonic
from gandy.talk.events import ExtensionReceived, ForemanEvent, Greeted, Refused, Reported, Requested
from gandy.talk.foreman import Fault
from gandy.talk.packing import Unsendable
from gandy.talk.side import Side
from gandy.wire.messages import (
    About,
    Extended,
    Extension,
    Hello,
    JobDescription,
    Orders,
    PythonOrders,
    Status,
    Task,
    TaskPair,
    TaskResult,
)

Inputs = Mapping[AttemptKey, Input]
NAMELESS: Final = "plain-"  # what ids of workers begin with that have no name, and are known by their link


class NotGiven(NamedTuple):
    """Attempts that did not go to the worker."""

    refused: Sequence[AttemptKey] = ()  # it has no room for them now
    unsendable: Sequence[tuple[AttemptKey, Ending]] = ()  # no frame can carry them, so no worker will ever have them


class Port(Protocol):
    """What carries the bytes of a link. After `close` or `abort`, `Foreman.on_cut` follows."""

    @property
    def name(self) -> str:
        """No other link has it, in this foreman or an earlier one: plain workers are known by it."""
        ...

    @property
    def source(self) -> str:
        """What the peer is counted for as long as it is silent: its address, or this machine."""
        ...

    def write(self, data: bytes) -> None: ...

    def dismiss(self, last_word: bytes) -> None:
        """Close it behind a last word, which the peer cannot put off by reading nothing."""
        ...

    def close(self) -> None:
        """After what was written has gone out."""
        ...

    def abort(self) -> None: ...


class Link:
    """What a worker says becomes effects; what the reactor wants becomes requests. Calls have `peer` for themselves."""

    def __init__(self, port: Port, side: Side, peer: Peer, who: Credentials) -> None:
        self.port = port
        self.side = side
        self.framing = side.framing
        self.peer = peer
        self.who = who
        self.name = port.name
        self._is_named = False
        self.nameless = f"{NAMELESS}{port.name}"
        self.worker = self.nameless  # until HELLO tells another name
        self._attempts: dict[TaskPair, AttemptKey] = {}  # what the worker holds
        self._reports: dict[AttemptKey, Reported] = {}  # that are not acknowledged, by the last attempt of each
        self._told: set[JobId] = set()  # jobs whose shared part this worker has
        self.is_client = False
        self.inbox: deque[ExtensionReceived] = deque()  # for the program around: requests, pieces of output

    def flush(self) -> None:
        """Write what is to be said."""
        if data := self.side.data_to_send():
            self.port.write(data)

    def receive(self, data: bytes) -> bool:
        """Take bytes; `pull` gives what follows. True if they were calls and nothing else: then nothing does.

        Raises: RemoteProtocolError. Close the link.
        """
        if self.framing is not None:
            return self.framing.receive_calls(data)
        self.side.receive_data(data)
        return False

    def pull(self, reactor: Reactor, now: Monotonic) -> Iterator[Effect]:
        """What came of it before an error stays decided.

        Raises: RemoteProtocolError. Close the link.
        """
        ended: list[tuple[AttemptKey, Ending]] = []  # results that came together are one step for the reactor
        while (event := self.side.next_event()) is not None:
            if isinstance(event, Reported):
                former = self._find_former(event.results[0], reactor)
                if former is None:
                    ended += self._on_reported(event, reactor)
                else:
                    yield from self._on_former(event, former, reactor, now)
                self._note_slots(reactor)
                continue
            if ended:
                yield from reactor.on_results(self.worker, ended, now)
                ended = []
            yield from self._on_event(event, reactor, now)
        if ended:
            yield from reactor.on_results(self.worker, ended, now)

    @property
    def is_known(self) -> bool:
        """True if the peer has said HELLO."""
        return self.is_client or self._is_named

    @property
    def agreed(self) -> Extension:
        """The extensions that this worker speaks."""
        return Extension.NONE if self.framing is None else self.framing.agreed

    def send(self, kind: int, payload: bytes, seq: int) -> None:
        """Send a message of an agreed extension."""
        assert self.framing is not None, "no older protocol has extensions"
        self.framing.send_extended(Extended(kind, payload), seq)

    def give(self, assignments: Sequence[Assignment], inputs: Inputs) -> NotGiven:
        """Send these tasks. Gives those that could not be sent; mostly there are none."""
        try:
            self._give(assignments, inputs)
        except LocalProtocolError:
            return self._give_some(assignments, inputs)
        return NotGiven()

    def _give_some(self, assignments: Sequence[Assignment], inputs: Inputs) -> NotGiven:
        """Send what can be sent: the worker has less room than we thought, or some tasks fit no frame."""
        new = [given for given in assignments if _get_pair(given.attempt) not in self.side.slots.running]
        fitting = new[: self.side.free]
        kept = {given.attempt for given in fitting}
        refused = [given.attempt for given in assignments if given.attempt not in kept]
        reasons: Mapping[TaskPair, str] = {}
        try:
            self._give(fitting, inputs)
        except Unsendable as error:
            reasons = error.reasons
            self._give([given for given in fitting if _get_pair(given.attempt) not in reasons], inputs)
        failed = [attempt for attempt in kept if _get_pair(attempt) in reasons]
        endings = [(it, Ending(cause=Cause.NOT_STARTED, note=reasons[_get_pair(it)])) for it in sorted(failed)]
        return NotGiven(refused, endings)

    def _give(self, assignments: Sequence[Assignment], inputs: Inputs) -> None:
        """Raises: LocalProtocolError, where nothing was given."""
        is_gandy = self.framing is not None and self.framing.is_gandy
        new: set[JobId] = set()  # jobs whose shared part is in here
        tasks = []
        job = None
        for attempt, spec in map(astuple, assignments):
            if attempt.job != job:  # mostly all are of one job
                job, description = attempt.job, _describe(attempt.job, spec)
                is_told = attempt.job in self._told or attempt.job in new
                new.add(attempt.job)
            orders = _make_orders(attempt, spec, inputs.get(attempt), is_told) if is_gandy else UNSET
            tasks.append(Task(attempt.task, description, orders))
            is_told = True
        self.side.give(tasks)
        self._told |= new
        if len(self._told) >= MAX_TOLD:
            self._told.clear()
        for task, assignment in zip(tasks, assignments, strict=True):
            self._attempts[task.pair] = assignment.attempt

    def kill(self, attempts: Iterable[AttemptKey]) -> None:
        if pairs := self._list_held(attempts):
            self.side.cancel(pairs)

    def recall(self, attempts: Iterable[AttemptKey]) -> None:
        if pairs := self._list_held(attempts):
            self.side.recall(pairs)

    def _list_held(self, attempts: Iterable[AttemptKey]) -> list[TaskPair]:
        """The tasks of attempts that are not over there. The wire names tasks, and a newer attempt is not meant."""
        pairs = ((_get_pair(attempt), attempt) for attempt in attempts)
        return [pair for pair, attempt in pairs if self._attempts.get(pair) == attempt]

    def acknowledge(self, attempts: Iterable[AttemptKey]) -> bool:
        """The reactor thanks for whole reports. Whether the worker may be heard now that it was answered: `pull`."""
        is_answered = False
        for attempt in attempts:
            report = self._reports.pop(attempt, None)
            if report is not None:
                self.side.acknowledge(report)
                is_answered = is_answered or isinstance(report.ticket, Requested)
        return is_answered

    def dismiss(self, immediate: bool) -> None:
        if immediate:
            self.side.stop_immediately()
        else:
            self.side.stop_all()

    def _on_event(self, event: ForemanEvent, reactor: Reactor, now: Monotonic) -> list[Effect]:
        match event:
            case Greeted():
                return self._on_greeted(event, reactor, now)
            case Refused(tasks):
                self._told.clear()
                attempts = [self._attempts.pop(task.pair) for task in tasks]
                return reactor.on_refused(self.worker, attempts, now)
            case ExtensionReceived(seq, kind):
                if kind == PING:
                    self.send(PONG, b"", seq)
                elif kind == CAPACITY:
                    told = decode_capacity(event.payload)
                    ahead = told.ahead if Extension.BEGUN in self.agreed else 0
                    reactor.on_capacity(self.worker, told.slots, ahead, told.problem)
                elif kind == BEGUN:
                    return reactor.on_begun(self.worker, decode_begun(event.payload).attempts, now)
                else:
                    self.inbox.append(event)
                return []
            case _:
                return []

    def _on_reported(self, event: Reported, reactor: Reactor) -> list[tuple[AttemptKey, Ending]]:
        ended = []
        for result in event.results:
            attempt = self._find_attempt(result)
            if reactor.jobs.is_same(attempt.job, read_identity(result)):
                self._attempts.pop(result.pair, None)
            else:
                attempt = AttemptKey(attempt.job, attempt.task, 0)  # of a job that is lost: no attempt of this one
            ended.append((attempt, read_ending(result)))
        self._reports[ended[-1][0]] = event
        return ended

    def _note_slots(self, reactor: Reactor) -> None:
        """A v1 worker does not tell of slots that tasks of an earlier link hold. They are known when these end."""
        known = reactor.workers.find(self.worker) if self.framing is None else None
        slots = self.side.slots.limit
        if known is None or slots <= 0:
            return
        if known.draining:  # the STOP was for those that were known
            self.side.stop_all()
        elif known.info.slots < slots:
            reactor.on_capacity(self.worker, slots, 0, "")

    def _find_former(self, result: TaskResult, reactor: Reactor) -> str | None:
        """The absent worker that this peer must be, where it tells the end of a task that it was not given here.

        A plain peer may report before it says HELLO, and in v1 there is no other way to tell what it had.
        """
        if result.report is not UNSET or result.pair in self._attempts:
            return None
        return self._find_absent([reactor.current_attempt(result.job_id, result.task)], reactor)

    def _find_absent(self, attempts: Iterable[AttemptKey], reactor: Reactor) -> str | None:
        """The absent plain worker that has one of these attempts, unless it came in with another key."""
        absent = reactor.owners.find_absent(attempts)
        is_plain = absent is not None and absent.startswith(NAMELESS)
        return absent if absent is not None and is_plain and self._may_be(absent, reactor) else None

    def _on_former(self, event: Reported, former: str, reactor: Reactor, now: Monotonic) -> list[Effect]:
        (result,) = event.results  # plain peers tell one at a time
        attempt = reactor.current_attempt(result.job_id, result.task)
        self._reports[attempt] = event
        return reactor.on_results(former, [(attempt, read_ending(result))], now, self.worker)

    def _on_greeted(self, event: Greeted, reactor: Reactor, now: Monotonic) -> list[Effect]:
        if Extension.CLIENT in event.extensions and event.about is UNSET:
            self.is_client = True
            return []
        self._told.clear()
        held = set(self.side.slots.running)
        self._attempts = {pair: attempt for pair, attempt in self._attempts.items() if pair in held}
        for task in event.running:
            self._attempts[task.pair] = _read_held_attempt(task, reactor)
        slots = event.free + len(event.running)
        if event.about is UNSET:
            # A plain peer has no name. One that holds what an absent worker held is that worker.
            absent = None if self._is_named else self._find_absent(self._attempts.values(), reactor)
            self.worker = absent or self.worker
            info = WorkerInfo(self.worker, self.worker, slots, key=self.who.key)
        else:
            about = event.about
            self.worker = about.id
            # What waits on a worker must be told from what runs there, and be had back.
            reports_begun = Extension.BEGUN in event.extensions
            ahead = about.ahead if reports_begun and Extension.UPDATES in event.extensions else 0
            info = WorkerInfo(
                self.worker,
                about.name,
                about.slots,
                frozenset(about.tags),
                ahead,
                self.who.key,
                about.folder,
                reports_begun,
            )
        self._is_named = True
        return reactor.on_hello(info, self._attempts.values(), now, self._list_former(event.about, reactor))

    def _list_former(self, about: About | UnsetType, reactor: Reactor) -> list[str]:
        """The former workers that this one reports for, except those that came in with another key."""
        return [] if about is UNSET else [former for former in about.former if self._may_be(former, reactor)]

    def find_fault(self, reactor: Reactor, hello: Hello) -> Fault | None:
        """Why a worker may not have the id that it claims. It is told before anything is agreed on."""
        if hello.about is UNSET:
            return None
        worker = hello.about.id
        if worker.startswith((ROUND_ROBIN, PING_PONG)):
            return Fault(f"the id {worker[:40]} is one of another door", ErrorCode.BAD_PAYLOAD)
        if self._is_named and worker != self.worker:
            return Fault(f"{self.worker[:40]} says that it is {worker[:40]} now", ErrorCode.BAD_PAYLOAD)
        if not self._may_be(worker, reactor):
            return Fault(f"the id {worker[:40]} belongs to another key", ErrorCode.WRONG_ROLE)
        return None

    def _may_be(self, worker: str, reactor: Reactor) -> bool:
        """As long as we remember a worker, its id belongs to the key that it came in with."""
        known = reactor.workers.find(worker)
        return known is None or known.info.key in (None, self.who.key)

    def _find_attempt(self, result: TaskResult) -> AttemptKey:
        return self._attempts.get(result.pair, read_attempt(result)) if result.report is UNSET else read_attempt(result)


def _get_pair(attempt: AttemptKey) -> TaskPair:
    return TaskPair(attempt.job, attempt.task)


def _read_held_attempt(task: Task, reactor: Reactor) -> AttemptKey:
    """Which attempt a worker holds. A plain peer cannot say, so it is taken for the current one."""
    if task.orders is not UNSET:
        return AttemptKey(task.job.job_id, task.number, task.orders.attempt)
    return reactor.current_attempt(task.job.job_id, task.number)


def _describe(job: JobId, spec: JobSpec) -> JobDescription:
    text = spec.command if isinstance(spec.command, str) else shlex.join(spec.command)
    return JobDescription(job, spec.name, spec.tasks, spec.cwd, "", text, Status.RUNNING)


def _make_orders(attempt: AttemptKey, spec: JobSpec, given: Input | None, is_told: bool) -> Orders:
    line = given if isinstance(given, str) else None
    python = None
    if spec.python is not None:
        pickled = given if isinstance(given, bytes) else b""
        shared = None if is_told else spec.python.shared
        python = PythonOrders(pickled, shared, spec.python.fresh)
    return Orders(
        attempt.attempt,
        spec.command,
        spec.env,
        spec.timeout,
        line,
        spec.slots,
        spec.memory,
        python,
        spec.at,
        spec.identity,
    )
