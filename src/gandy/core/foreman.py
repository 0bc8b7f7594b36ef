"""A whole foreman without I/O: links, jobs, calls, who is silent, and the queue between deciding and doing.

The program around it moves bytes, commits the records of `take_batch`, and only then calls `perform`. The simulator and
the real server are both such programs.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, Protocol, assert_never, get_args

from gandy.core.effects import Acknowledge, Assignment, Dismiss, Effect, Give, KillAttempts, Recall, Reply, Send
from gandy.core.links import Inputs, Link, Port
from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reactor import Reactor
from gandy.core.records import Record
from gandy.core.roles import OFFERS, Credentials, admits, guard_calls, make_refusal, may_call
from gandy.core.switchboard import Switchboard
from gandy.core.unknown_peers import UnknownPeers
from gandy.core.withdrawal import Withdrawal, find_new_work, keep_records, keep_sends
from gandy.core.workers import WorkerInfo
from gandy.errors import ErrorCode, RemoteProtocolError
from gandy.limits import HELLO_SECONDS, MAX_SILENT_LINKS
from gandy.moments import LONG_AGO, Monotonic, Wall
from gandy.talk.foreman import ForemanSide
from gandy.talk.side import Side
from gandy.wire.messages import Extension

RECORDS: Final = frozenset(get_args(Record))
HEARTBEAT_EXPIRY: Final = 15.0  # seconds of silence after which a worker's link is cut


class Batch:
    """What has been decided and not yet done: records to commit, then sends to perform."""

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.sends: list[Send] = []

    def __bool__(self) -> bool:
        return bool(self.records or self.sends)

    def add(self, effects: Iterable[Effect]) -> None:
        for effect in effects:
            if type(effect) in RECORDS:
                self.records.append(effect)  # type: ignore[arg-type]
            else:
                self.sends.append(effect)  # type: ignore[arg-type]  # whatever is not a record is a send


class AttachedDoor(Protocol):
    """A door of another protocol with its socket: its peers are in the switchboard, and have no link here."""

    def send(self, now: Monotonic) -> bool:
        """Send what the door has to say. True if there was something."""
        ...

    def on_time(self, now: Monotonic) -> None: ...

    def dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None: ...


class PeerLog(Protocol):
    """What is told of peers, for the log and the audit."""

    def on_worker(self, link: Link, worker: WorkerInfo) -> None:
        """A link turned out to be a worker's."""
        ...

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None:
        """A peer broke the rules, and is cut."""
        ...

    def on_expired(self, link: Link) -> None:
        """A peer's key is not good any more, and it is cut."""
        ...

    def on_silent(self, worker: WorkerInfo) -> None:
        """A worker was silent for too long, and its link is cut."""
        ...


class NoPeerLog:
    """For programs that do not want to know."""

    def on_worker(self, link: Link, worker: WorkerInfo) -> None: ...

    def on_refused(self, link: Link, error: RemoteProtocolError) -> None: ...

    def on_expired(self, link: Link) -> None: ...

    def on_silent(self, worker: WorkerInfo) -> None: ...


class Foreman:
    """Links come and go; reactor and switchboard stay. Effects collect in `batch` until the program takes it."""

    def __init__(
        self, reactor: Reactor, now: Monotonic, peer_log: PeerLog | None = None, max_silent: int = MAX_SILENT_LINKS
    ) -> None:
        self.reactor = reactor
        self.switchboard = Switchboard(now)
        self.links: dict[str, Link] = {}
        self.doors: list[AttachedDoor] = []
        self.batch = Batch()
        self.is_paused = False  # nothing begins until the store can keep new work again
        self._peer_log = peer_log or NoPeerLog()
        self._silent: UnknownPeers[Port] = UnknownPeers(max_silent, HELLO_SECONDS)  # that have not said HELLO
        self._dirty: set[Link] = set()  # that may have something to send
        self._by_worker: dict[str, Link] = {}
        self._by_peer: dict[int, Link] = {}  # by the number of the peer in the switchboard
        self._next_silence = LONG_AGO  # when the first worker may have been silent for too long

    # Links

    def on_link(self, port: Port, who: Credentials, now: Monotonic, side: Side | None = None) -> Link:
        """A peer connected. `side`: the conversation, where it is not that of the native wire."""
        side = side or ForemanSide(offers=OFFERS[who.role], admits=partial(admits, who.role))
        link = self.links[port.name] = Link(port, side, self.switchboard.add_peer(), who)
        self._by_peer[link.peer.number] = link
        if isinstance(side, ForemanSide):
            side.find_fault = partial(link.find_fault, self.reactor)
            side.framing.on_call = guard_calls(who.role, partial(self.switchboard.on_frame, link.peer))
            if may_call(who.role):
                side.framing.take_plain_calls = partial(self.switchboard.pass_calls, link.peer)
        link.flush()
        self._silent.enter(port, port.source, now)
        return link

    def on_data(self, link: Link, data: bytes, now: Monotonic) -> None:
        """Bytes came. What needs no commit is answered at once. A peer that breaks a rule hears which, and is cut."""
        switchboard = self.switchboard
        switchboard.now = now
        if link.peer.worker is not None:
            link.peer.worker.last_heard = now
        if link.framing is not None and (taken := link.framing.take_calls(data)):  # the short way
            self.flush_calls(now)
            if taken < len(data):
                self._hear(link, data[taken:], now)
        else:
            self._hear(link, data, now)
        if self.reactor.dispatcher.unmet and link.peer.worker is not None:
            self.reactor.dispatcher.on_room(link.peer.worker)

    def _hear(self, link: Link, data: bytes, now: Monotonic) -> None:
        try:
            if not link.receive(data):
                self._on_words(link, now)
        except RemoteProtocolError as error:
            self._refuse(link, error)
        self.flush_calls(now)

    def _on_words(self, link: Link, now: Monotonic) -> None:
        """More than calls came. Raises: RemoteProtocolError."""
        self.batch.add(link.pull(self.reactor, now))
        self._by_worker[link.worker] = link
        if not link.is_client and link.peer.worker is None:
            self._introduce(link)
        if link.is_known:
            self._silent.leave(link.port)
        link.flush()  # nothing in there waits for the store: what does is sent by `perform`
        self._dirty.discard(link)

    def _introduce(self, link: Link) -> None:
        """A worker has said HELLO: it may serve calls, too."""
        worker = self.reactor.workers.find(link.worker)
        if worker is None:
            return
        self._peer_log.on_worker(link, worker.info)
        if link.framing is not None:
            link.framing.take_plain_calls = partial(self.switchboard.pass_results, link.peer)
        before = self.switchboard.on_worker(link.peer, worker)
        if before is not None:  # a link that broke, and we have not noticed
            self._by_peer[before.number].port.abort()

    def _refuse(self, link: Link, error: RemoteProtocolError) -> None:
        self._peer_log.on_refused(link, error)
        link.flush()
        link.port.close()

    def on_cut(self, link: Link, now: Monotonic) -> None:
        del self.links[link.name], self._by_peer[link.peer.number]
        self._silent.leave(link.port)
        self._dirty.discard(link)
        self.switchboard.on_cut(link.peer, now)
        link.side.disconnect()
        self._by_worker.pop(link.nameless, None)
        if self._by_worker.get(link.worker, link) is link:
            self._by_worker.pop(link.worker, None)
            self.batch.add(self.reactor.on_absent(link.worker, now))
        self.flush_calls(now)

    def find_link(self, worker: str) -> Link | None:
        """The link of a worker that is here."""
        return self._by_worker.get(worker)

    def list_links(self, key: str) -> list[Link]:
        """Those of peers that came in with this key."""
        return [link for link in self.links.values() if link.who.key == key]

    def cut_key(self, key: str) -> None:
        """A key was revoked."""
        for link in self.list_links(key):
            link.port.dismiss(make_refusal(ErrorCode.REVOKED_KEY))

    def cut_expired(self, wall: Wall) -> None:
        """Keys are good until a time of day."""
        for link in list(self.links.values()):
            if link.who.expires is not None and wall >= link.who.expires:
                self._peer_log.on_expired(link)
                link.port.dismiss(make_refusal(ErrorCode.EXPIRED_KEY))

    def send(self, link: Link, kind: int, payload: bytes, seq: int) -> bool:
        """Have a message of an agreed extension sent by `flush`. False: the link is not there any more."""
        if link.name not in self.links:
            return False
        link.send(kind, payload, seq)
        self._dirty.add(link)
        return True

    def greet(self, link: Link) -> None:
        """For a worker that waits for the foreman to speak first."""
        if link.name in self.links:
            link.side.greet()
            link.flush()

    def flush(self) -> None:
        """Write everything that is to be said to links, but for calls."""
        for link in self._dirty:
            link.flush()
        self._dirty.clear()

    def flush_calls(self, now: Monotonic) -> None:
        """Write all frames of calls. What a door sends may reach no peer, and then there is more to be said."""
        self._write_calls(now)
        while self.doors and sum(door.send(now) for door in self.doors):
            self._write_calls(now)

    def _write_calls(self, now: Monotonic) -> None:
        touched = self.switchboard.touched
        while touched:
            peer = touched.pop()
            data = b"".join(peer.out)
            peer.out.clear()
            if peer.on_out is None:
                self._by_peer[peer.number].port.write(data)
            else:
                peer.on_out(peer, data, now)

    # Time

    def on_time(self, now: Monotonic) -> None:
        """Pauses that end, workers that stay away, peers that are silent."""
        self.batch.add(self.reactor.on_time(now))
        self._silent.expire(now)
        self._cut_silent(now)

    def on_call_time(self, now: Monotonic) -> None:
        """Now and then: calls that wait too long, commands that no worker offers any more."""
        self.switchboard.now = now
        self.switchboard.on_time(now)
        for door in self.doors:
            door.on_time(now)
        self.flush_calls(now)

    def share_slots(self, now: Monotonic) -> None:
        """Have tasks of jobs leave slots to calls that wait, which do not wait for a store that takes long."""
        if self.batch or self.reactor.dispatcher.is_needed:
            self._offer_room(now)
        self.switchboard.share(now)
        self.flush_calls(now)

    def _cut_silent(self, now: Monotonic) -> None:
        if now < self._next_silence:  # a look at a thousand workers takes milliseconds
            return
        self._next_silence = now + HEARTBEAT_EXPIRY
        for link in list(self.links.values()):
            worker = self.reactor.workers.find(link.worker)
            if worker is None or Extension.HEARTBEAT not in link.agreed:
                continue
            if now - worker.last_heard > HEARTBEAT_EXPIRY:
                self._peer_log.on_silent(worker.info)
                link.port.abort()
            else:
                self._next_silence = min(self._next_silence, worker.last_heard + HEARTBEAT_EXPIRY)

    # Deciding and doing

    @property
    def has_work(self) -> bool:
        """True if there is something to decide or to do: take the batch."""
        return self._may_dispatch or bool(self.batch)

    @property
    def _may_dispatch(self) -> bool:
        return self.reactor.dispatcher.is_needed and not self.is_paused

    def take_batch(self, now: Monotonic) -> Batch:
        """What has happened since the last one, and which worker gets which task now."""
        if self._may_dispatch:
            self.batch.add(self.reactor.dispatch(now))
        taken, self.batch = self.batch, Batch()
        self._offer_room(now)
        return taken

    def _offer_room(self, now: Monotonic) -> None:
        """Calls that wait get the slots that tasks did not take. What ends from now on is for tasks first."""
        is_wanted = self.switchboard.queued > 0
        for link in self.links.values():
            if is_wanted or link.peer.missing:
                self.switchboard.on_room(link.peer.id, now)
        self.flush_calls(now)

    def on_commit_failed(self, batch: Batch, now: Monotonic) -> Withdrawal:
        """The store could not keep this batch. Take all new work out of it, and out of what was decided since.

        The rest is in `batch`, to be committed again. Tell the clients that asked for the new work that none was taken.
        Nothing begins until `on_store_ready`, so that results, cancels and the like have the room that is left.
        """
        self.is_paused = True
        batch.records += self.batch.records
        batch.sends += self.batch.sends
        self.batch = Batch()
        new = find_new_work(batch.records, self.reactor.owners)
        batch.records = keep_records(batch.records, new)
        batch.sends = keep_sends(batch.sends, new)
        if new:
            batch.add(self.reactor.control.withdraw(new, now))
        return new

    def on_store_ready(self, now: Monotonic) -> None:
        """The store can keep new work again."""
        self.is_paused = False
        self.on_time(now)

    def perform(self, send: Send, inputs: Inputs, now: Monotonic) -> None:
        """Do what the store now knows about. What is for a worker that is gone is dropped: HELLO will tell."""
        match send:
            case Give(worker, assignments):
                self._give(worker, assignments, inputs, now)
            case KillAttempts(worker, attempts):
                if (link := self._open_link(worker)) is not None:
                    link.kill(attempts)
            case Recall(worker, attempts):
                if (link := self._open_link(worker)) is not None:
                    link.recall(attempts)
            case Acknowledge(worker, attempts):
                if (link := self._open_link(worker)) is not None and link.acknowledge(attempts):
                    self._hear_more(link, now)
            case Dismiss(worker, immediate):
                self._dismiss(worker, immediate, now)
            case Reply():
                pass  # the program around answers requests
            case _:
                assert_never(send)

    def _hear_more(self, link: Link, now: Monotonic) -> None:
        """A worker that is answered may have said more."""
        try:
            self.batch.add(link.pull(self.reactor, now))
        except RemoteProtocolError as error:
            self._refuse(link, error)

    def _dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None:
        if (link := self._open_link(worker)) is not None:
            link.dismiss(immediate)
            return
        for door in self.doors:
            door.dismiss(worker, immediate, now)
        self.flush_calls(now)

    def _give(self, worker: str, assignments: tuple[Assignment, ...], inputs: Inputs, now: Monotonic) -> None:
        current = self.reactor.on_given(worker, [assignment.attempt for assignment in assignments], now)
        if len(current) < len(assignments):
            kept = set(current)
            assignments = tuple(assignment for assignment in assignments if assignment.attempt in kept)
        link = self._open_link(worker)
        if link is None or not assignments:
            return
        refused, unsendable = link.give(assignments, inputs)
        if unsendable:
            self.batch.add(self.reactor.on_results(worker, unsendable, now))
        if refused:
            self.batch.add(self.reactor.on_refused(worker, refused, now))

    def fail_unreadable(
        self, sends: Iterable[Send], unreadable: Mapping[AttemptKey, str], now: Monotonic
    ) -> list[Send]:
        """Some attempts have inputs that the store cannot read, and why: they end. Gives what is left to send."""
        left: list[Send] = []
        for send in sends:
            if isinstance(send, Give):
                lost = [each.attempt for each in send.assignments if each.attempt in unreadable]
                ends = [(attempt, _end_unread(unreadable[attempt])) for attempt in lost]
                self.reactor.on_given(send.worker, lost, now)
                self.batch.add(self.reactor.on_results(send.worker, ends, now))
                send = Give(send.worker, tuple(each for each in send.assignments if each.attempt not in unreadable))
            left.append(send)
        return left

    def _open_link(self, worker: str) -> Link | None:
        """The link of a worker that is here, for something that is to be sent to it."""
        link = self.find_link(worker)
        if link is not None:
            self._dirty.add(link)
        return link

    def check(self) -> None:
        """What must hold after every step; for tests."""
        self.reactor.check()
        self.switchboard.check_tables()
        if not self.has_work and not self.is_paused:  # else what tasks left is about to be dealt out
            self.switchboard.check_room()
        assert set(self._by_peer) == {link.peer.number for link in self.links.values()}
        assert set(self._by_worker.values()) | self._dirty <= set(self.links.values())


def _end_unread(why: str) -> Ending:
    return Ending(cause=Cause.NOT_STARTED, note=f"its line or arguments cannot be read: {why}")
