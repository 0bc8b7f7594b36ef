"""A whole foreman without I/O: links, jobs, calls, silent peers, and what is decided but not done yet.

The program around it moves bytes, commits the records of `take_batch`, and only then calls `perform`. The simulator and
the real server are both such programs.
"""

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Final, assert_never, get_args

from gandy.core.effects import Acknowledge, Assignment, Dismiss, Effect, Give, KillAttempts, Recall, Reply, Send
from gandy.core.extensions import DIRECTORY, PONG, WANT, encode
from gandy.core.link_table import LinkTable
from gandy.core.link_tasks import Inputs
from gandy.core.links import Link, Port
from gandy.core.liveness import Liveness
from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.peer_log import PeerLog
from gandy.core.reactor import Reactor
from gandy.core.records import Record
from gandy.core.roles import OFFERS, WORKING, Credentials, CrewRole, admits, guard_calls, may_call
from gandy.core.shards import NO_SHARD, Directory
from gandy.core.switchboard import Switchboard
from gandy.core.wants import Wants
from gandy.core.withdrawal import Withdrawal, find_new_work, find_repeated, keep_records, keep_sends
from gandy.errors import RemoteProtocolError
from gandy.ids import JobId
from gandy.limits import MAX_SILENT_LINKS
from gandy.moments import Monotonic
from gandy.talk.foreman import ForemanSide
from gandy.talk.side import Side
from gandy.wire.messages import Extension

RECORDS: Final = frozenset(get_args(Record))


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


class Foreman:
    """Links come and go; reactor and switchboard stay. Effects collect in `batch` until the program takes it."""

    def __init__(
        self,
        reactor: Reactor,
        now: Monotonic,
        peer_log: PeerLog | None = None,
        max_silent: int = MAX_SILENT_LINKS,
        shard: int = NO_SHARD,
    ) -> None:
        self.reactor = reactor
        self.shard = shard  # of the crew's jobs that this foreman has
        self.wants = Wants(reactor.jobs, reactor.workers)
        self._directory: Callable[[Link], Directory] | None = None  # what a worker is sent about the other shards
        self.switchboard = Switchboard(now)
        self.links = LinkTable()
        self.batch = Batch()
        self.is_paused = False  # nothing begins until the store can keep new work again
        self._peer_log = peer_log or PeerLog()
        self.liveness = Liveness(self.links, reactor.workers, self._peer_log, max_silent)

    # Links

    def on_link(self, port: Port, credentials: Credentials, now: Monotonic, side: Side | None = None) -> Link:
        """A peer connected. `side`: the conversation, if it is not that of the native wire."""
        role = credentials.role
        side = side or ForemanSide(offers=self._list_offers(role), admits=partial(admits, role))
        link = self.links.by_name[port.name] = Link(port, side, self.switchboard.add_peer(), credentials)
        link.peer.write = port.write
        if isinstance(side, ForemanSide):
            side.find_fault = partial(link.find_fault, self.reactor)
            side.framing.on_call = guard_calls(role, partial(self.switchboard.on_frame, link.peer))
            if may_call(role):
                side.framing.take_plain_calls = partial(self.switchboard.pass_calls, link.peer)
        link.flush()
        self.liveness.silent.enter(port, port.source, now)
        return link

    def _list_offers(self, role: CrewRole) -> Extension:
        return OFFERS[role] | Extension.SHARDS if self.shard and role in WORKING else OFFERS[role]

    def on_data(self, link: Link, data: bytes, now: Monotonic) -> None:
        """Handle bytes, and answer what needs no commit. A peer that breaks a rule is sent an ERROR, and is cut."""
        self.switchboard.now = now
        if link.peer.worker is not None:
            link.peer.worker.last_heard = now
        if link.framing is not None and (taken := link.framing.take_calls(data)):  # plain calls
            self.switchboard.output.flush(now)
            if taken < len(data):
                self._receive(link, data[taken:], now)
        else:
            self._receive(link, data, now)
        if self.reactor.dispatcher.unmet and link.peer.worker is not None:
            self.reactor.dispatcher.on_room(link.peer.worker)

    def _receive(self, link: Link, data: bytes, now: Monotonic) -> None:
        try:
            if link.framing is None:
                link.side.receive_data(data)
                self._pull(link, now)
            elif not link.framing.receive_calls(data):  # more than calls came
                self._pull(link, now)
        except RemoteProtocolError as error:
            self._refuse(link, error)
        self.switchboard.output.flush(now)

    def _pull(self, link: Link, now: Monotonic) -> None:
        """Raises: RemoteProtocolError."""
        was_known, worker = link.is_known, link.worker
        self.batch.add(link.pull(self.reactor, now))
        if not was_known or link.worker != worker:
            self._introduce(link, now)
        link.flush()  # nothing in there waits for the store: what does is sent by `perform`

    def _introduce(self, link: Link, now: Monotonic) -> None:
        """Register a peer once it has said HELLO. A worker may serve calls, too."""
        before = self.links.set_worker(link)
        if not link.is_known:
            return
        self.liveness.silent.leave(link.port)
        worker = None if link.is_client else self.reactor.workers.find(link.worker)
        if worker is None:
            return
        self._peer_log.on_worker(link, worker.info)
        if link.framing is not None:
            link.framing.take_plain_calls = partial(self.switchboard.pass_results, link.peer)
        self.wants.on_hello(link.worker)
        self._send_directory(link)
        self.switchboard.dispatcher.on_worker(link.peer, worker, now)
        if before is not None:  # that link broke, and the foreman has not noticed
            before.port.abort()
        self._probe(link)

    def _probe(self, link: Link) -> None:
        """Send something to the former workers of this one whose links have not ended. If their machine has lost its
        power, it says now that it knows nothing of these links; a living worker ignores a PONG."""
        for former in map(self.links.find, link.former):
            if former is not None and former is not link and Extension.HEARTBEAT in former.agreed:
                former.send(PONG, b"", 0)
                former.flush()

    # Other shards

    def set_directory(self, make: Callable[[Link], Directory]) -> None:
        """Shards or foremen have changed: say so to all workers. `make`: what a link is sent, now and after HELLO."""
        self._directory = make
        for link in self.links.by_name.values():
            self._send_directory(link)
            link.flush()

    def _send_directory(self, link: Link) -> None:
        if self._directory is not None and Extension.SHARDS in link.agreed:
            directory = self._directory(link)
            self.wants.has_others = len(directory.shards) > 1
            link.send(DIRECTORY, encode(directory), 0)

    def _send_wants(self, now: Monotonic) -> None:
        for worker, want in self.wants.decide(now):
            link = self.links.find(worker)
            assert link is not None, "it is connected"
            link.send(WANT, encode(want), 0)
            link.flush()

    def _refuse(self, link: Link, error: RemoteProtocolError) -> None:
        self._peer_log.on_refused(link, error)
        link.flush()
        link.port.close()

    def on_cut(self, link: Link, now: Monotonic) -> None:
        is_absent = self.links.remove(link)
        self.liveness.silent.leave(link.port)
        self.switchboard.dispatcher.on_cut(link.peer, now)
        link.side.disconnect()
        if is_absent:
            self.batch.add(self.reactor.on_absent(link.worker, now))
        self.switchboard.output.flush(now)

    # Time

    def on_time(self, now: Monotonic) -> None:
        """Handle pauses that have ended, workers that stay away, and peers that are silent."""
        self.batch.add(self.reactor.on_time(now))
        self.liveness.on_time(now)

    def on_call_time(self, now: Monotonic) -> None:
        """Expire calls that have waited too long, and commands that no worker offers any more."""
        self.switchboard.now = now
        self.switchboard.dispatcher.on_time(now)
        for door in self.switchboard.output.doors:
            door.on_time(now)
        self.switchboard.output.flush(now)

    def share_slots(self, now: Monotonic) -> None:
        """Give calls the slots that tasks have left, or ask for some. Calls do not wait for a slow store."""
        if self.batch or self.reactor.dispatcher.is_needed:
            self._offer_room(now)
        self.switchboard.dispatcher.share(now)
        self.switchboard.output.flush(now)

    # Deciding and doing

    @property
    def has_work(self) -> bool:
        """True if there is something to decide or to do: take the batch."""
        may_dispatch = self.reactor.dispatcher.is_needed and not self.is_paused
        return may_dispatch or bool(self.batch)

    def take_batch(self, now: Monotonic) -> Batch:
        """What has happened since the last one, and which worker gets which task now."""
        if self.reactor.dispatcher.is_needed and not self.is_paused:
            self.batch.add(self.reactor.dispatch(now))
            if self.shard:
                self._send_wants(now)
        taken, self.batch = self.batch, Batch()
        self._offer_room(now)
        return taken

    def _offer_room(self, now: Monotonic) -> None:
        """Give calls that wait the slots that tasks did not take. Slots that become free later are for tasks first."""
        board = self.switchboard
        is_wanted = board.waiting.count > 0
        for link in self.links.by_name.values():
            if is_wanted or link.peer.missing:
                board.dispatcher.drain(link.peer, now)
        board.output.flush(now)

    def on_commit_failed(self, batch: Batch, now: Monotonic) -> Withdrawal:
        """The store could not keep this batch. Take all new work out of it, and out of what was decided since.

        The rest is in `batch`, to be committed again. The program refuses the new work to its clients.
        Nothing begins until `on_store_ready`, so that results, cancels and the like have the room that is left.
        """
        self.is_paused = True
        self._gather(batch)
        new = find_new_work(batch.records, self.reactor.owners)
        self._withdraw(batch, new, now)
        return new

    def on_submitted_before(self, batch: Batch, earlier: Mapping[JobId, JobId], now: Monotonic) -> Withdrawal | None:
        """The store has these new jobs of this batch already, with other numbers: answer with those.

        The rest is in `batch`, to be committed again. None: other work needs them, and nothing was taken out.
        """
        self._gather(batch)
        new = find_repeated(batch.records, earlier)
        if new is not None:
            self._withdraw(batch, new, now)
        return new

    def _gather(self, batch: Batch) -> None:
        """Add what was decided since to a batch."""
        batch.records += self.batch.records
        batch.sends += self.batch.sends
        self.batch = Batch()

    def _withdraw(self, batch: Batch, new: Withdrawal, now: Monotonic) -> None:
        batch.records = keep_records(batch.records, new)
        batch.sends = keep_sends(batch.sends, new)
        if new:
            batch.add(self.reactor.control.withdraw(new, now))

    def on_store_ready(self, now: Monotonic) -> None:
        """The store can keep new work again."""
        self.is_paused = False
        self.on_time(now)

    def perform(self, send: Send, inputs: Inputs, now: Monotonic) -> None:
        """Do what is on record now. What is for an absent worker is dropped: its next HELLO says what it holds."""
        match send:
            case Give(worker, assignments):
                self._give(worker, assignments, inputs, now)
            case KillAttempts(worker, attempts):
                if (link := self.links.find_to_send(worker)) is not None:
                    link.tasks.kill(attempts)
            case Recall(worker, attempts):
                if (link := self.links.find_to_send(worker)) is not None:
                    link.tasks.recall(attempts)
            case Acknowledge(worker, attempts):
                if (link := self.links.find_to_send(worker)) is not None and link.tasks.acknowledge(attempts):
                    self._pull_more(link, now)
            case Dismiss(worker, immediate):
                self._dismiss(worker, immediate, now)
            case Reply():
                pass  # the program around answers requests
            case _:
                assert_never(send)

    def _pull_more(self, link: Link, now: Monotonic) -> None:
        """Handle what a worker sent behind the report that was acknowledged now."""
        try:
            self.batch.add(link.pull(self.reactor, now))
        except RemoteProtocolError as error:
            self._refuse(link, error)

    def _dismiss(self, worker: str, immediate: bool, now: Monotonic) -> None:
        if (link := self.links.find_to_send(worker)) is not None:
            link.dismiss(immediate)
            return
        for door in self.switchboard.output.doors:
            door.dismiss(worker, immediate, now)
        self.switchboard.output.flush(now)

    def _give(self, worker: str, assignments: tuple[Assignment, ...], inputs: Inputs, now: Monotonic) -> None:
        current = self.reactor.on_given(worker, [assignment.attempt for assignment in assignments], now)
        if len(current) < len(assignments):
            kept = set(current)
            assignments = tuple(assignment for assignment in assignments if assignment.attempt in kept)
        link = self.links.find_to_send(worker)
        if link is None or not assignments:
            return
        refused, unsendable = link.tasks.give(assignments, inputs)
        if unsendable:
            self.batch.add(self.reactor.on_results(worker, unsendable, now))
        if refused:
            self.batch.add(self.reactor.on_refused(worker, refused, now))

    def fail_unreadable(
        self, sends: Iterable[Send], unreadable: Mapping[AttemptKey, str], now: Monotonic
    ) -> list[Send]:
        """End attempts whose inputs the store cannot read, each with the reason. Returns what is left to send."""
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

    def check(self) -> None:
        """What must hold after every step; for tests."""
        self.reactor.check()
        # Until all is settled, slots that tasks have left are about to be given to tasks.
        self.switchboard.dispatcher.check(is_settled=not self.has_work and not self.is_paused)
        self.links.check()


def _end_unread(why: str) -> Ending:
    return Ending(cause=Cause.NOT_STARTED, note=f"its line or arguments cannot be read: {why}")
