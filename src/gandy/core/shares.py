"""How a worker shares its slots among shards: by rank of what each wants, so that rank decides in the whole crew.

The worker is the keeper of its slots. Running tasks are never stopped; free slots go to the shard of the highest rank
that can use them, and what no shard wants is offered to all.
"""

from collections.abc import Mapping
from operator import itemgetter
from typing import Final, NamedTuple, TypeVar

from gandy.core.shards import Want
from gandy.ids import JobId
from gandy.limits import MAX_PRIORITY

K = TypeVar("K")

Rank = tuple[int, JobId]  # the lower goes first: as that of jobs in `core.queue`

LAST: Final[Rank] = (MAX_PRIORITY + 1, JobId(0))


class SlotUse(NamedTuple):
    """What a shard uses of a worker, and what it could use at once."""

    started: int  # slots of its tasks that have begun
    waiting: Want  # slots of its tasks that wait on the worker, with the rank of the first of them
    want: Want  # for tasks that wait at the foreman, as that said last

    @property
    def claims(self) -> list[Want]:
        return [claim for claim in (self.waiting, self.want) if claim.slots]

    @property
    def rank(self) -> Rank:
        """That of its best claim. A shard without claims goes last."""
        return min(map(get_rank, self.claims), default=LAST)


def share_slots(slots: int, uses: Mapping[K, SlotUse]) -> dict[K, int]:
    """How many slots each shard may use now, in the order in which they may start tasks.

    `slots`: those that tasks may use. Two shards may be offered the same slot, if neither wanted it before: of their
    two tasks, one waits on the worker then.
    """
    free = max(0, slots - sum(use.started for use in uses.values()))
    granted = dict.fromkeys(sorted(uses, key=lambda shard: uses[shard].rank), 0)
    claims = [(get_rank(claim), claim.slots, shard) for shard, use in uses.items() for claim in use.claims]
    for _, wanted, shard in sorted(claims, key=itemgetter(0)):
        grant = min(wanted, free)
        granted[shard] += grant
        free -= grant
    return {shard: uses[shard].started + grant + free for shard, grant in granted.items()}


def get_rank(claim: Want) -> Rank:
    return -claim.priority, claim.job
