"""Looks whether jobs of other shards have ended that jobs of this shard wait for."""

import asyncio
import logging
from typing import Final

from gandy.core.foreman import Foreman
from gandy.core.model import FINAL_JOB_STATES, JobState
from gandy.errors import StoreError
from gandy.foreman.clock import ForemanClock
from gandy.foreman.committer import Committer

log = logging.getLogger("gandy.foreman")

LOOK_PERIOD: Final = 0.5  # seconds between two looks, while there is something to look for


async def follow_other_shards(foreman: Foreman, clock: ForemanClock, committer: Committer) -> None:
    """Runs until cancelled."""
    while True:
        await asyncio.sleep(LOOK_PERIOD)
        awaited = foreman.reactor.jobs.list_awaited_elsewhere()
        if not awaited:
            continue
        try:
            states = await committer.store.find_states(awaited)
        except StoreError as error:
            log.debug("jobs of other shards cannot be looked at: %s", error)
            continue
        for job in awaited:
            state = states.get(job, JobState.CANCELLED)  # forgotten: it is not known that it finished
            if state in FINAL_JOB_STATES:
                committer.decide(foreman.reactor.control.on_end_elsewhere(job, state, clock.now()))
