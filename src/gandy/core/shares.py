"""How a worker shares its slots among shards: by rank of what each wants, so that rank decides in the whole crew.

The worker is the keeper of its slots. Running tasks are never stopped; free slots go to the shard of the highest rank
that can use them, and what no shard wants is offered to all.
"""

from collections.abc import Mapping
from typing import NamedTuple, TypeVar

from gandy.core.shards import Want
from gandy.ids import JobId

K = TypeVar("K")

Rank = tuple[bool, int, JobId]  # the lower goes first


class SlotUse(NamedTuple):
    """What a shard uses of a worker, and what it wants."""

    started: int  # slots of its tasks that have begun
    waiting: int  # slots of its tasks that wait on the worker
    want: Want  # as its foreman said last

    @property
    def demand(self) -> int:
        """The slots that it could use at once, beside those of tasks that have begun."""
        return self.waiting + self.want.slots

    @property
    def rank(self) -> Rank:
        """Tasks may wait on the worker before their foreman says which rank they have: they go last."""
        want = self.want
        return want.job == 0, -want.priority, want.job


def share_slots(slots: int, uses: Mapping[K, SlotUse]) -> dict[K, int]:
    """How many slots each shard may use now, in the order in which they may start tasks.

    `slots`: those that tasks may use. Two shards may be offered the same slot, if neither wanted it before: of their
    two tasks, one waits on the worker then.
    """
    free = max(0, slots - sum(use.started for use in uses.values()))
    granted: dict[K, int] = {}
    for shard, use in sorted(uses.items(), key=_get_turn):
        granted[shard] = min(use.demand, free)
        free -= granted[shard]
    return {shard: uses[shard].started + grant + free for shard, grant in granted.items()}


def update_want(before: Want, now: Want) -> Want:
    """What a foreman wants now. One that wants nothing more need not repeat the rank of what waits on the worker."""
    return now if now.job else Want(now.slots, before.priority, before.job)


def _get_turn(item: tuple[K, SlotUse]) -> tuple[bool, Rank]:
    _, use = item
    return use.demand == 0, use.rank
