"""Commits what was decided, in groups, and performs it only then. A store with a problem gets no new work."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Final, Protocol

from gandy.clocks import read_monotonic
from gandy.core.effects import Effect, Reply, Send
from gandy.core.foreman import Batch, Foreman
from gandy.core.link_tasks import Inputs
from gandy.core.model import AttemptKey
from gandy.core.standing import Standing
from gandy.core.withdrawal import Withdrawal
from gandy.errors import OutcomeUnknown, ShardLost, StoreError, StoreFull, SubmittedBefore
from gandy.foreman.clock import ForemanClock
from gandy.foreman.inputs import InputCache
from gandy.foreman.shard import ServedShard
from gandy.ids import JobId
from gandy.moments import LONG_AGO
from gandy.store.base import Store

log = logging.getLogger("gandy.foreman")

COMMIT_INTERVAL: Final = 0.008  # seconds from one commit to the next: busy crews share commits, idle ones do not wait
FEW_RECORDS: Final = 8  # in a commit; a crew that makes no more of them at a time is not busy
STORE_PATIENCE: Final = 5.0  # seconds until a store that does not answer has a problem: as long as a lease is trusted
STORE_RETRY: Final = 1.0  # seconds between tries of a commit that failed, and between looks at a store with a problem


def make_silence() -> StoreError:
    """The problem of a store that does not answer."""
    why = "its disk is slow, or a synchronous standby of a database is away"
    return StoreError(f"it has not answered for {STORE_PATIENCE:g} s: {why}", retryable=True)


class CommitListener(Protocol):
    """What is called about commits."""

    def on_commit(self, batch: Batch) -> None:
        """The store has this batch, and its sends are performed."""
        ...

    def on_withdrawal(self, new: Withdrawal) -> None:
        """The store could not keep this new work, or has it already."""
        ...


class _Waiter:
    """A coroutine that waits for a commit. Stands for the client of a `Reply`."""

    def __init__(self) -> None:
        self.done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def answer(self, _value: None) -> None:
        if not self.done.done():
            self.done.set_result(None)

    def refuse(self, error: StoreError) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class Committer:
    """The only part that writes to the store. `run` and `mend` are its two loops."""

    listener: CommitListener

    def __init__(
        self, foreman: Foreman, store: Store, standing: Standing, clock: ForemanClock, shard: ServedShard
    ) -> None:
        self.store = store
        self._shard = shard
        self.standing = standing
        self._foreman = foreman
        self._clock = clock
        self._inputs = InputCache(store)
        self._work = asyncio.Event()
        self._has_trouble = asyncio.Event()

    def wake(self) -> None:
        self._work.set()

    def decide(self, effects: list[Effect]) -> None:
        """Take what the reactor decided; it is performed as soon as the store has it."""
        self._foreman.batch.add(effects)
        self.wake()

    async def commit(self, effects: list[Effect]) -> None:
        """Take what the reactor decided, and wait until the store has it and everything before. Raises: StoreError."""
        waiter = _Waiter()
        self.decide([*effects, Reply(waiter, None)])
        await waiter.done

    async def run(self, after: Callable[[], Any]) -> None:
        """Commit groups: each is everything that was decided since the one before. `after` is called after each.

        Ends only if the shard is lost.
        """
        next_commit = LONG_AGO
        while True:
            await self._work.wait()
            await asyncio.sleep(next_commit - read_monotonic())
            self._work.clear()
            batch = self._foreman.take_batch(self._clock.now())
            next_commit = read_monotonic() + (COMMIT_INTERVAL if len(batch.records) > FEW_RECORDS else 0.0)
            try:
                lost = await self._commit(batch)
                await self._perform(batch, lost)
            except ShardLost as error:
                log.warning("%s", error)
                self._shard.on_lost()
                return
            self._foreman.links.flush()
            if self._foreman.has_work:
                self.wake()
            after()

    async def mend(self) -> None:
        """After trouble with the store, find out when it accepts new work again."""
        while True:
            await self._has_trouble.wait()
            await asyncio.sleep(STORE_RETRY)
            if self.standing.is_stuck:  # the commit loop tries again already
                continue
            try:
                await self.store.prepare()
                await self._shard.hold()  # a foreman without a lease commits, but says nothing
            except StoreError as error:
                self.note_trouble(error)
            else:
                log.info("the store works again")
                self.standing.trouble = ""
                self._has_trouble.clear()
                self._foreman.on_store_ready(self._clock.now())
                self.wake()

    async def _commit(self, batch: Batch) -> frozenset[AttemptKey]:
        """Try until the store has the batch, or what is left of it without new work."""
        while batch.records:
            try:
                with self._watching():
                    lost = await self.store.commit(batch.records)
            except ShardLost:
                raise
            except StoreError as error:
                if isinstance(error, SubmittedBefore) and self._recognise(batch, error):
                    continue
                self.note_trouble(error)
                # A commit that may have been done is repeated as it was; the store finds out about it.
                if isinstance(error, OutcomeUnknown) or not self._withdraw(batch, error):
                    self.standing.is_stuck = True
                    self._put_off(batch, error)
                    await asyncio.sleep(STORE_RETRY)
            else:
                self.standing.is_stuck = False
                return lost
        return frozenset()

    async def _find_inputs(self, sends: list[Send]) -> tuple[Inputs, dict[AttemptKey, str]]:
        """As `InputCache.find`. While the store does not answer, tasks wait for it."""
        while True:
            try:
                with self._watching():
                    found = await self._inputs.find(sends)
            except StoreError as error:
                self.note_trouble(error)
                self.standing.is_stuck = True
                await asyncio.sleep(STORE_RETRY)
            else:
                self.standing.is_stuck = False
                return found

    @contextmanager
    def _watching(self) -> Iterator[None]:
        """Say so if the store does not answer for long."""
        timer = asyncio.get_running_loop().call_later(STORE_PATIENCE, self._on_silence)
        try:
            yield
        finally:
            timer.cancel()

    def _on_silence(self) -> None:
        """What the store was asked to commit is neither done nor failed. Refuse the new work that waits behind it."""
        error = make_silence()
        self.standing.is_stuck = True
        self.note_trouble(error)
        waiting = Batch()
        self._withdraw(waiting, error)
        self._put_off(waiting, error)
        self._foreman.batch = waiting

    def note_trouble(self, error: StoreError) -> None:
        """No new work is accepted until the store works again."""
        if str(error) != self.standing.trouble:
            log.error("the store has a problem, and no new work is accepted: %s", error)
        self.standing.note_trouble(error)
        self._has_trouble.set()

    def _recognise(self, batch: Batch, error: SubmittedBefore) -> bool:
        """Take jobs out of a batch that were submitted before, and answer with the earlier ones. False if it cannot."""
        earlier = {JobId(new): JobId(job) for new, job in error.jobs.items()}
        new = self._foreman.on_submitted_before(batch, earlier, self._clock.now())
        if new is not None:
            self.listener.on_withdrawal(new)
        return new is not None

    def _withdraw(self, batch: Batch, error: StoreError) -> bool:
        """Take new work out of a batch, and refuse it to its clients. False if there is none."""
        new = self._foreman.on_commit_failed(batch, self._clock.now())
        self.listener.on_withdrawal(new)
        for reply in new.replies:
            reply.token.refuse(_make_refusal("nothing was accepted", error))
        return bool(new)

    def _put_off(self, batch: Batch, error: StoreError) -> None:
        """Refuse the replies of a batch that must wait for the store. What was decided stays decided.

        New work that may have been committed is neither confirmed nor refused before that is known.
        """
        is_unknown = isinstance(error, OutcomeUnknown)
        waiting = [each for each in batch.sends if isinstance(each, Reply) and not (is_unknown and each.takes_work)]
        batch.sends = [send for send in batch.sends if send not in waiting]
        for reply in waiting:
            reply.token.refuse(_make_refusal("it is done when the store works again", error))

    async def _perform(self, batch: Batch, lost: frozenset[AttemptKey]) -> None:
        """Raises: ShardLost."""
        self._foreman.reactor.on_claims_lost(lost)
        self._inputs.note(batch.records)
        inputs, unreadable = await self._find_inputs(batch.sends)
        await self._shard.hold()  # last: nothing may take time between this and what is sent
        now = self._clock.now()
        sends: list[Send] = batch.sends
        if unreadable:
            log.error("tasks fail because the store cannot read what they need: %s", next(iter(unreadable.values())))
            sends = self._foreman.fail_unreadable(sends, unreadable, now)
        for send in sends:
            if isinstance(send, Reply):
                send.token.answer(send.value)
            else:
                self._foreman.perform(send, inputs, now)
        self.listener.on_commit(batch)


def _make_refusal(what: str, error: StoreError) -> StoreError:
    """What a client is told if its request waits or fails because of an error of the store."""
    text = f"{what}: {error}"
    return StoreFull(text) if isinstance(error, StoreFull) else StoreError(text, error.retryable)
