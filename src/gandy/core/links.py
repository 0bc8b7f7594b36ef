"""The links of a foreman, with any peer at the other end: a worker of any generation, a client, an observer.

A link translates the conversation into the terms of the reactor, and back. Nothing above it knows which protocol a
worker speaks. A plain worker, which has no name and no attempts, gets both here and in `link_tasks`.
"""

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Final, Protocol

from msgspec import UNSET

from gandy.core.calls import Peer
from gandy.core.effects import Effect
from gandy.core.extensions import (
    BEGUN,
    CAPACITY,
    LOAD,
    PING,
    PONG,
    MachineLoad,
    decode_begun,
    decode_capacity,
    decode_load,
)
from gandy.core.link_tasks import LinkTasks
from gandy.core.model import AttemptKey, Ending
from gandy.core.reactor import Reactor
from gandy.core.reports import read_ending
from gandy.core.roles import Credentials
from gandy.core.workers import PING_PONG, ROUND_ROBIN, WorkerInfo
from gandy.errors import ErrorCode
from gandy.moments import Monotonic
from gandy.talk.events import ExtensionReceived, ForemanEvent, Greeted, Refused, Reported
from gandy.talk.foreman import Fault
from gandy.talk.side import Side
from gandy.wire.messages import (
    Extended,
    Extension,
    Hello,
    TaskResult,
)

NAMELESS: Final = "plain-"  # what ids of workers begin with that have no name, and are known by their link


class Port(Protocol):
    """What carries the bytes of a link. After `close` or `abort`, `Foreman.on_cut` follows."""

    @property
    def name(self) -> str:
        """No other link has it, in this foreman or an earlier one: plain workers are known by it."""
        ...

    @property
    def source(self) -> str:
        """What the peer is counted as until it says HELLO: its address, or this machine."""
        ...

    def write(self, data: bytes) -> None: ...

    def dismiss(self, last_message: bytes) -> None:
        """Close it behind a last message, soon even if the peer reads nothing."""
        ...

    def close(self) -> None:
        """After what was written has gone out."""
        ...

    def abort(self) -> None: ...


class Link:
    """Turns messages of a worker into effects, and what the reactor wants into requests. Calls go by `peer`."""

    def __init__(self, port: Port, side: Side, peer: Peer, credentials: Credentials) -> None:
        self.port = port
        self.side = side
        self.framing = side.framing
        self.peer = peer
        self.credentials = credentials
        self.name = port.name
        self.is_known = False  # the peer has said HELLO
        self._is_named = False  # as a worker
        self.nameless = f"{NAMELESS}{port.name}"
        self.worker = self.nameless  # until HELLO gives another name
        self.former: tuple[str, ...] = ()  # workers that died in its folder, if they may be what it was
        self.tasks = LinkTasks(side)
        self.is_client = False
        self.inbox: deque[ExtensionReceived] = deque()  # for the program around: requests, pieces of output

    def flush(self) -> None:
        """Write what the conversation has to send."""
        if data := self.side.data_to_send():
            self.port.write(data)

    def pull(self, reactor: Reactor, now: Monotonic) -> Iterator[Effect]:
        """The effects of what the peer sent. Those before an error stay decided.

        Raises: RemoteProtocolError. Close the link.
        """
        ended: list[tuple[AttemptKey, Ending]] = []  # results that came together are one step for the reactor
        while (event := self.side.next_event()) is not None:
            if isinstance(event, Reported):
                result = event.results[0]
                former = self._find_former(result, reactor) if result.report is UNSET else None
                if former is None:
                    ended += self.tasks.on_reported(event, reactor)
                else:
                    yield from self._on_former(event, former, reactor, now)
                if self.framing is None:
                    self._note_slots(reactor)
                continue
            if ended:
                yield from reactor.on_results(self.worker, ended, now)
                ended = []
            yield from self._on_event(event, reactor, now)
        if ended:
            yield from reactor.on_results(self.worker, ended, now)

    @property
    def agreed(self) -> Extension:
        """The extensions that both sides use."""
        return Extension.NONE if self.framing is None else self.framing.agreed

    def send(self, kind: int, payload: bytes, seq: int) -> None:
        """Send a message of an agreed extension."""
        assert self.framing is not None, "no older protocol has extensions"
        self.framing.send_extended(Extended(kind, payload), seq)

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
                return reactor.on_refused(self.worker, self.tasks.on_refused(tasks), now)
            case ExtensionReceived(seq, kind):
                if kind == PING:
                    self.send(PONG, b"", seq)
                elif kind == CAPACITY:
                    capacity = decode_capacity(event.payload)
                    ahead = capacity.ahead if Extension.BEGUN in self.agreed else 0
                    reactor.on_capacity(self.worker, capacity.slots, ahead, capacity.problem)
                elif kind == BEGUN:
                    return reactor.on_begun(self.worker, decode_begun(event.payload).attempts, now)
                elif kind == LOAD:
                    _note_load(reactor, self.worker, decode_load(event.payload))
                else:
                    self.inbox.append(event)
                return []
            case _:
                return []

    def _note_slots(self, reactor: Reactor) -> None:
        """A v1 worker does not report slots that tasks of an earlier link hold. They show when these tasks end."""
        known = reactor.workers.find(self.worker)
        slots = self.side.slots.limit
        if known is None or slots <= 0:
            return
        if known.draining:  # the STOP was for those that were known
            self.side.stop_all()
        elif known.info.slots < slots:
            reactor.on_capacity(self.worker, slots, 0, "")

    def _find_former(self, result: TaskResult, reactor: Reactor) -> str | None:
        """The absent worker that this peer must be, if it reports a task that it was not given on this link.

        A plain peer may report before it says HELLO, and in v1 it has no other way to say what it holds.
        """
        if result.pair in self.tasks:
            return None
        return self._find_absent([reactor.current_attempt(result.job_id, result.task)], reactor)

    def _find_absent(self, attempts: Iterable[AttemptKey], reactor: Reactor) -> str | None:
        """The absent plain worker that has one of these attempts, unless it connected with another key."""
        absent = reactor.owners.find_absent(attempts)
        is_plain = absent is not None and absent.startswith(NAMELESS)
        return absent if absent is not None and is_plain and self._may_be(absent, reactor) else None

    def _on_former(self, event: Reported, former: str, reactor: Reactor, now: Monotonic) -> list[Effect]:
        (result,) = event.results  # plain peers report one at a time
        attempt = reactor.current_attempt(result.job_id, result.task)
        self.tasks.on_former_reported(event, attempt)
        return reactor.on_results(former, [(attempt, read_ending(result))], now, self.worker)

    def _on_greeted(self, event: Greeted, reactor: Reactor, now: Monotonic) -> list[Effect]:
        if Extension.CLIENT in event.extensions and event.about is UNSET:
            self.is_client = self.is_known = True
            return []
        held = self.tasks.on_greeted(event.running, reactor)
        slots = event.free + len(event.running)
        if event.about is UNSET:
            # A plain peer has no name. One that holds what an absent worker held is that worker.
            absent = None if self._is_named else self._find_absent(held, reactor)
            self.worker = absent or self.worker
            info = WorkerInfo(self.worker, self.worker, slots, key=self.credentials.key)
        else:
            about = event.about
            self.worker = about.id
            # Tasks may wait on a worker only if it says which ones have begun, and gives the others back.
            reports_begun = Extension.BEGUN in event.extensions
            ahead = about.ahead if reports_begun and Extension.UPDATES in event.extensions else 0
            info = WorkerInfo(
                self.worker,
                about.name,
                about.slots,
                frozenset(about.tags),
                ahead,
                self.credentials.key,
                about.folder,
                reports_begun,
                Extension.SHARDS in event.extensions,
                about.version,
                about.takes_tasks,
            )
        self.is_known = self._is_named = True
        # It reports for former workers, except for those that connected with another key.
        former = () if event.about is UNSET else event.about.former
        self.former = tuple(each for each in former if self._may_be(each, reactor))
        return reactor.on_hello(info, held, now, self.former)

    def find_fault(self, reactor: Reactor, hello: Hello) -> Fault | None:
        """Why a worker may not have the id that it claims. Checked before anything is agreed on."""
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
        """True if this peer may be that worker: as long as a worker is known, its id belongs to its key."""
        known = reactor.workers.find(worker)
        return known is None or known.info.key in (None, self.credentials.key)


def _note_load(reactor: Reactor, worker: str, machine: MachineLoad) -> None:
    """Viewers see it; nothing is decided by it."""
    if (known := reactor.workers.find(worker)) is not None:
        known.machine = machine
