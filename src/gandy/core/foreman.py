"""A whole foreman without I/O: the reactor, a desk for each worker's link, and the queue between deciding and doing.

The program around it moves bytes, commits the records of `take_batch`, and only then calls `perform`. The simulator and
the real server are both such programs.
"""

from collections.abc import Iterable, Mapping
from functools import partial
from typing import Final, assert_never, get_args

from gandy.core.desk import Desk, Inputs
from gandy.core.effects import Acknowledge, Assignment, Dismiss, Effect, Give, Kill, Publish, Recall, Reply, Send
from gandy.core.model import AttemptKey, Cause, Ending
from gandy.core.reactor import Reactor
from gandy.core.records import Record
from gandy.core.withdrawal import Withdrawal, find_new_work, keep_records, keep_sends
from gandy.talk.foreman import ForemanSide
from gandy.talk.side import Side

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


def _end_unread(why: str) -> Ending:
    return Ending(cause=Cause.NOT_STARTED, note=f"its line or arguments cannot be read: {why}")


class Foreman:
    """Links come and go; the reactor stays. Effects collect in `batch` until somebody takes it."""

    def __init__(self, reactor: Reactor) -> None:
        self.reactor = reactor
        self.desks: dict[str, Desk] = {}  # by link
        self.dirty: set[str] = set()  # links that may have something to send
        self._links: dict[str, str] = {}  # from worker to link
        self.batch = Batch()
        self.is_paused = False  # nothing begins until the store can keep new work again

    def on_link(self, link: str, side: Side, key: str | None = None) -> None:
        """`key`: what the peer came in with."""
        desk = self.desks[link] = Desk(side, link, key)
        if isinstance(side, ForemanSide):
            side.find_fault = partial(desk.find_fault, self.reactor)

    def on_data(self, link: str, data: bytes, now: float) -> bool:
        """Bytes came from a worker or a client. Whether they were calls and nothing else, so that nothing follows.

        Raises: RemoteProtocolError. Close the link, and say so with `on_cut`.
        """
        desk = self.desks[link]
        if desk.receive(data, self.reactor, now):
            return True
        self.dirty.add(link)
        self.batch.add(desk.pull(self.reactor, now))
        self._links[desk.worker] = link
        return False

    def on_cut(self, link: str, now: float) -> None:
        desk = self.desks.pop(link)
        self.dirty.discard(link)
        desk.side.disconnect()
        self._links.pop(desk.nameless, None)
        if self._links.get(desk.worker, link) == link:
            self._links.pop(desk.worker, None)
            self.batch.add(self.reactor.on_absent(desk.worker, now))

    def on_time(self, now: float) -> None:
        self.batch.add(self.reactor.on_time(now))

    @property
    def has_work(self) -> bool:
        """Whether there is something to decide or to do: take the batch."""
        return self._may_dispatch or bool(self.batch)

    @property
    def _may_dispatch(self) -> bool:
        return self.reactor.is_stirred and not self.is_paused

    def take_batch(self, now: float) -> Batch:
        """What has happened since the last one, and who gets which task now."""
        if self._may_dispatch:
            self.batch.add(self.reactor.dispatch(now))
        taken, self.batch = self.batch, Batch()
        return taken

    def on_commit_failed(self, batch: Batch, now: float) -> Withdrawal:
        """The store could not keep this batch. Take all new work out of it, and out of what was decided since.

        The rest is in `batch`, to be committed again. Tell the clients that asked for the new work that none was taken.
        Nothing begins until `on_store_ready`, so that results, cancels and the like have the room that is left.
        """
        self.is_paused = True
        batch.records += self.batch.records
        batch.sends += self.batch.sends
        self.batch = Batch()
        new = find_new_work(batch.records, self.reactor)
        batch.records = keep_records(batch.records, new)
        batch.sends = keep_sends(batch.sends, new)
        if new:
            batch.add(self.reactor.withdraw(new, now))
        return new

    def on_store_ready(self, now: float) -> None:
        """The store can keep new work again."""
        self.is_paused = False
        self.on_time(now)

    def perform(self, send: Send, inputs: Inputs, now: float) -> None:
        """Do what the store now knows about. What is for a worker that is gone is dropped: HELLO will tell.

        Raises: RemoteProtocolError, where a worker that is answered had said more. Close its link.
        """
        match send:
            case Give(worker, assignments):
                self._give(worker, assignments, inputs, now)
            case Kill(worker, attempts):
                desk = self._open_desk(worker)
                if desk is not None:
                    desk.kill(attempts)
            case Recall(worker, attempts):
                desk = self._open_desk(worker)
                if desk is not None:
                    desk.recall(attempts)
            case Acknowledge(worker, attempts):
                desk = self._open_desk(worker)
                if desk is not None and desk.acknowledge(attempts):
                    self.batch.add(desk.pull(self.reactor, now))
            case Dismiss(worker, immediate):
                desk = self._open_desk(worker)
                if desk is not None:
                    desk.dismiss(immediate)
            case Reply() | Publish():
                pass
            case _:
                assert_never(send)

    def _give(self, worker: str, assignments: tuple[Assignment, ...], inputs: Inputs, now: float) -> None:
        current = self.reactor.on_given(worker, [assignment.attempt for assignment in assignments], now)
        if len(current) < len(assignments):
            kept = set(current)
            assignments = tuple(assignment for assignment in assignments if assignment.attempt in kept)
        desk = self._open_desk(worker)
        if desk is None or not assignments:
            return
        refused, unsendable = desk.give(assignments, inputs)
        if unsendable:
            self.batch.add(self.reactor.on_results(worker, unsendable, now))
        if refused:
            self.batch.add(self.reactor.on_refused(worker, refused, now))

    def fail_unreadable(self, sends: Iterable[Send], unreadable: Mapping[AttemptKey, str], now: float) -> list[Send]:
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

    def get_link(self, worker: str) -> str:
        return self._links[worker]

    def find_desk(self, worker: str) -> Desk | None:
        """The desk of a worker that is here."""
        link = self._links.get(worker)
        return None if link is None else self.desks[link]

    def _open_desk(self, worker: str) -> Desk | None:
        """The desk of a worker that is here, for something that is to be sent to it."""
        desk = self.find_desk(worker)
        if desk is not None:
            self.dirty.add(desk.link)
        return desk
