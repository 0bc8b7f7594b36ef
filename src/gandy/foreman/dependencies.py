"""Looks whether jobs of other shards have ended that jobs of this shard wait for."""

import asyncio
import logging
from typing import Final

from gandy.clocks import read_monotonic
from gandy.core.foreman import Foreman
from gandy.core.model import FINAL_JOB_STATES, JobState
from gandy.core.sources import read_source
from gandy.errors import StoreError
from gandy.foreman.clock import ForemanClock
from gandy.foreman.committer import Committer

log = logging.getLogger("gandy.foreman")

LOOK_PERIOD: Final = 0.5  # seconds between two looks, while there is something to look for
SHARE: Final = 0.05  # of the time that looks take at most: a job that is followed task by task may have a million


async def follow_other_shards(foreman: Foreman, clock: ForemanClock, committer: Committer) -> None:
    """Runs until cancelled."""
    pause = LOOK_PERIOD
    while True:
        await asyncio.sleep(pause)
        begun = read_monotonic()
        try:
            await _look_at_jobs(foreman, clock, committer)
            await _look_at_tasks(foreman, clock, committer)
        except StoreError as error:
            log.debug("jobs of other shards cannot be looked at: %s", error)
        pause = max(LOOK_PERIOD, (read_monotonic() - begun) / SHARE)


async def _look_at_jobs(foreman: Foreman, clock: ForemanClock, committer: Committer) -> None:
    """Raises: StoreError."""
    awaited = foreman.reactor.jobs.list_awaited_elsewhere()
    states = await committer.store.find_states(awaited) if awaited else {}
    for job in awaited:
        state = states.get(job, JobState.CANCELLED)  # forgotten: it is not known that it finished
        if state in FINAL_JOB_STATES:
            committer.decide(foreman.reactor.control.on_end_elsewhere(job, state, clock.now()))


async def _look_at_tasks(foreman: Foreman, clock: ForemanClock, committer: Committer) -> None:
    """Raises: StoreError."""
    for source in foreman.reactor.linking.list_elsewhere():
        found = await read_source(committer.store, source)
        if effects := foreman.reactor.control.on_states_elsewhere(source, found, clock.now()):
            committer.decide(effects)
        else:
            committer.wake()  # tasks may start now, and that is not an effect
