"""How a worker shares its slots among shards: by rank of what each wants, so that rank decides in the whole crew.

The worker is the keeper of its slots. Running tasks are never stopped; free slots go to the shard of the highest rank
that can use them, and what no shard wants is offered to all.
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import NamedTuple, TypeVar

from gandy.core.shards import Want
from gandy.ids import JobId

K = TypeVar("K")

Rank = tuple[int, JobId]  # the lower goes first: as that of jobs in `core.queue`


class SlotUse(NamedTuple):
    """What a shard uses of a worker, and what it could use at once."""

    started: int  # slots of its tasks that have begun
    waiting: Want  # slots of its tasks that wait on the worker, with the rank of the first of them
    want: Want  # for tasks that wait at the foreman, as that said last


def share_slots(slots: int, uses: Mapping[K, SlotUse]) -> dict[K, int]:
    """How many slots each shard may use now, in the order in which they may start tasks.

    `slots`: those that tasks may use. Two shards may be offered the same slot, if neither wanted it before: of their
    two tasks, one waits on the worker then.
    """
    free = slots
    claims: list[tuple[Rank, int, K]] = []
    for shard, use in uses.items():
        free -= use.started
        claims += [(get_rank(claim), claim.slots, shard) for claim in (use.waiting, use.want) if claim.slots]
    free = max(0, free)
    if not claims:  # hot: mostly no task waits
        return {shard: use.started + free for shard, use in uses.items()}
    claims.sort(key=itemgetter(0))
    granted = dict.fromkeys([shard for _, _, shard in claims], 0)  # by rank of the best claim
    for _, wanted, shard in claims:
        grant = min(wanted, free)
        granted[shard] += grant
        free -= grant
    granted.update((shard, 0) for shard in uses if shard not in granted)  # a shard without claims goes last
    return {shard: uses[shard].started + grant + free for shard, grant in granted.items()}


def get_rank(claim: Want) -> Rank:
    return -claim.priority, claim.job
