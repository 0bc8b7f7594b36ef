"""Commits what was decided, in groups, and only then has it done. A store with a problem gets no new work."""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from gandy.clocks import read_monotonic
from gandy.core.effects import Effect, Reply, Send
from gandy.core.foreman import Batch, Foreman
from gandy.core.model import AttemptKey
from gandy.core.requests import make_failure
from gandy.core.standing import Standing
from gandy.core.withdrawal import Withdrawal
from gandy.errors import StoreError
from gandy.foreman.inputs import InputCache
from gandy.moments import LONG_AGO, Monotonic
from gandy.store.base import Store

log = logging.getLogger("gandy.foreman")

COMMIT_INTERVAL: Final = 0.008  # seconds from one commit to the next: busy crews share commits, idle ones do not wait
FEW_RECORDS: Final = 8  # in a commit; a crew that has no more to tell at a time is not busy
STORE_RETRY: Final = 1.0  # seconds between tries of a commit that failed, and between looks at a store with a problem


class Committer:
    """One for each foreman. `run` and `mend` are its two loops."""

    def __init__(self, foreman: Foreman, store: Store, standing: Standing, now: Callable[[], Monotonic]) -> None:
        self.on_commit: Callable[[Batch], None] = lambda _batch: None
        self.on_reply: Callable[[Reply], None] = lambda _reply: None
        self.on_withdrawal: Callable[[Withdrawal], None] = lambda _new: None
        self._foreman = foreman
        self.store = store
        self._standing = standing
        self._now = now
        self._inputs = InputCache(store)
        self._work = asyncio.Event()
        self._has_trouble = asyncio.Event()

    def wake(self) -> None:
        self._work.set()

    def decide(self, effects: list[Effect]) -> None:
        """Take what the reactor decided; it is done as soon as the store knows."""
        self._foreman.batch.add(effects)
        self.wake()

    async def commit(self, effects: list[Effect]) -> None:
        """Take what the reactor decided, and wait until the store knows it, and everything before."""
        done = asyncio.get_running_loop().create_future()
        self.decide([*effects, Reply(done, None)])
        await done

    async def run(self, after: Callable[[], Any]) -> None:
        """Everything that was decided since the last group was written is the next group. `after` follows each."""
        next_commit = LONG_AGO
        while True:
            await self._work.wait()
            await asyncio.sleep(next_commit - read_monotonic())
            self._work.clear()
            batch = self._foreman.take_batch(self._now())
            next_commit = read_monotonic() + (COMMIT_INTERVAL if len(batch.records) > FEW_RECORDS else 0.0)
            lost = await self._commit(batch)
            await self._perform(batch, lost)
            self._foreman.flush()
            if self._foreman.has_work:
                self.wake()
            after()

    async def mend(self) -> None:
        """After trouble: see whether new work can be taken again."""
        while True:
            await self._has_trouble.wait()
            await asyncio.sleep(STORE_RETRY)
            if self._standing.is_stuck:  # the commit loop tries again already
                continue
            try:
                await self.store.prepare()
            except StoreError as error:
                self._note_trouble(error)
            else:
                log.info("the store works again")
                self._standing.trouble = ""
                self._has_trouble.clear()
                self._foreman.on_store_ready(self._now())
                self.wake()

    async def _commit(self, batch: Batch) -> frozenset[AttemptKey]:
        """Until the store has it, or what is left of it without new work."""
        while batch.records:
            try:
                lost = await self.store.commit(batch.records)
            except StoreError as error:
                self._note_trouble(error)
                if not self._withdraw(batch, error):
                    self._standing.is_stuck = True
                    self._put_off(batch, error)
                    await asyncio.sleep(STORE_RETRY)
            else:
                self._standing.is_stuck = False
                return lost
        return frozenset()

    def _note_trouble(self, error: StoreError) -> None:
        if str(error) != self._standing.trouble:
            log.error("the store has a problem, and no new work is accepted: %s", error)
        self._standing.trouble = str(error)
        self._has_trouble.set()

    def _withdraw(self, batch: Batch, error: StoreError) -> bool:
        """Take no new work, and tell those who asked. False if there is none in the batch."""
        new = self._foreman.on_commit_failed(batch, self._now())
        self.on_withdrawal(new)
        for reply in new.replies:
            self._refuse(reply, StoreError(f"nothing was accepted: {error}", error.retryable))
        return bool(new)

    def _put_off(self, batch: Batch, error: StoreError) -> None:
        """What was decided stays decided, but its clients need not wait for the store."""
        waiting = [send for send in batch.sends if isinstance(send, Reply)]
        batch.sends = [send for send in batch.sends if not isinstance(send, Reply)]
        for reply in waiting:
            self._refuse(reply, StoreError(f"it is done when the store works again: {error}", error.retryable))

    def _refuse(self, reply: Reply, error: StoreError) -> None:
        if not isinstance(reply.token, asyncio.Future):
            self.on_reply(Reply(reply.token, make_failure("store", str(error), error.retryable)))
        elif not reply.token.done():
            reply.token.set_exception(error)

    async def _perform(self, batch: Batch, lost: frozenset[AttemptKey]) -> None:
        now = self._now()
        self._foreman.reactor.on_claims_lost(lost)
        self._inputs.note(batch.records)
        inputs, unreadable = await self._inputs.find(batch.sends)
        sends: list[Send] = batch.sends
        if unreadable:
            log.error("tasks fail because the store cannot read what they need: %s", next(iter(unreadable.values())))
            sends = self._foreman.fail_unreadable(sends, unreadable, now)
        for send in sends:
            if isinstance(send, Reply):
                self._reply(send)
            else:
                self._foreman.perform(send, inputs, now)
        self.on_commit(batch)

    def _reply(self, reply: Reply) -> None:
        """To a client on a link, or to a coroutine in this process that waits."""
        if not isinstance(reply.token, asyncio.Future):
            self.on_reply(reply)
        elif not reply.token.done():
            reply.token.set_result(reply.value)
