"""Has a sample of the shard made every ten seconds, and writes it into the history of the store.

A sample that cannot be written is lost: history never keeps the foreman from its work.
"""

import asyncio
import logging
from contextlib import suppress
from typing import Final

from gandy.core.foreman import Foreman
from gandy.core.samples import PERIODS, Level, StoredSample
from gandy.core.sampling import Sampler
from gandy.errors import StoreError
from gandy.foreman.clock import ForemanClock
from gandy.foreman.committer import Committer

log = logging.getLogger("gandy.foreman")

LAST_SECONDS: Final = 1.0  # that the last sample may take when the foreman stops


class SampleWriter:
    """`run` is its loop; `finish` comes before the foreman stops committing."""

    def __init__(self, foreman: Foreman, committer: Committer, clock: ForemanClock) -> None:
        self._shard = foreman.shard
        self._committer = committer
        self._clock = clock
        self._sampler = Sampler(foreman, clock.now())
        self._has_begun = False  # it is known where the history ended before
        self._trouble = ""

    async def run(self) -> None:
        await self._begin()
        while True:
            await asyncio.sleep(PERIODS[Level.SAMPLE])
            if self._has_begun:
                await self._write_next()
            else:
                self._sampler.look(self._clock.now())
                await self._begin()

    async def _begin(self) -> None:
        try:
            last = await self._committer.store.history.find_last(self._shard)
        except StoreError as error:
            self._note_trouble(error)
        else:
            self._sampler.resume(last, self._clock.now())
            self._has_begun = True

    async def _write_next(self) -> None:
        sample = self._sampler.take(self._clock.now())
        if sample is None:
            return
        try:
            await self._committer.commit([])  # the store has all that the sample shows
            await self._committer.store.history.add_samples([sample])
        except StoreError as error:
            self._sampler.on_lost()
            self._note_trouble(error)
        else:
            self._trouble = ""

    def _note_trouble(self, error: StoreError) -> None:
        if str(error) != self._trouble:
            log.warning("history is not recorded: %s", error)
        self._trouble = str(error)

    async def finish(self) -> None:
        """The foreman stops, or hands its shard over."""
        sample: StoredSample | None = self._sampler.take_last(self._clock.now()) if self._has_begun else None
        if sample is not None:
            with suppress(StoreError, TimeoutError):
                async with asyncio.timeout(LAST_SECONDS):
                    await self._committer.store.history.add_samples([sample])
