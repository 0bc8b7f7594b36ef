"""Which shards a foreman process should take over, hand over or retire. It decides, and opens nothing.

Every foreman makes its own plan from what the database shows. Two that plan the same are harmless: the epoch of a shard
lets only one of them have it.
"""

from collections.abc import Collection
from hashlib import sha256
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from gandy.core.shards import CrewView, ForemanPlace, Lease, ShardPlace
from gandy.moments import Monotonic

LEASE_SECONDS: Final = 6.0  # after which other foremen may take over a shard whose owner is silent
BEAT_PERIOD: Final = 2.0  # seconds between two renewals: two may fail before a lease expires
LEASE_MARGIN: Final = 1.0  # seconds before the end of its lease from which a foreman sends nothing before it has looked
SILENCE_SECONDS: Final = LEASE_SECONDS - BEAT_PERIOD  # that we see a foreman silent before we take over its shards
SECOND_CHOICE: Final = 1.0  # seconds after the end of a lease from which not only the best heir takes over


class Seize(Struct, frozen=True):
    """Take over a shard: its owner is gone."""

    seen: Lease


class HandOver(Struct, frozen=True):
    """Let another foreman have one of our shards."""

    shard: int
    heir: str


class Retire(Struct, frozen=True):
    """Forget one of our shards, if it has no jobs that are not final."""

    shard: int


class Forget(Struct, frozen=True):
    """Have the database forget a foreman that is gone, and owns nothing any more."""

    foreman: str


Step = Seize | HandOver | Retire | Forget


class Silences:
    """Since when we have seen other foremen silent.

    While the database is away no lease can be renewed, and we see nothing. Afterwards all leases have expired, and
    their owners must have the time to renew them.
    """

    def __init__(self) -> None:
        self._since: dict[str, Monotonic] = {}

    def note(self, view: CrewView, now: Monotonic) -> None:
        """The database showed this now."""
        silent = (each for each in view.foremen if each.silent_seconds > BEAT_PERIOD)
        self._since = {each.id: self._find_start(each, now) for each in silent}

    def _find_start(self, foreman: ForemanPlace, now: Monotonic) -> Monotonic:
        since = self._since.get(foreman.id, now)
        return since if foreman.silent_seconds >= now - since else now  # else it was heard of since

    def find_spared(self, now: Monotonic) -> set[str]:
        """Foremen whose leases may have expired although they live."""
        return {foreman for foreman, since in self._since.items() if now < since + SILENCE_SECONDS}


def plan(
    view: CrewView,
    me: str,
    own: int,
    mine: Collection[int],
    dead: Collection[str],
    spared: Collection[str] = (),
) -> list[Step]:
    """What to do now. `own`: the shard that our clients talk to; `mine`: all that run here; `dead`: foremen that are
    known to be gone; `spared`: those whose leases may have expired although they live."""
    loads = _count_shards(view, dead)
    gone = [lease for lease in view.leases if lease.owner in dead or lease.owner not in spared]
    steps: list[Step] = [Seize(lease) for lease in gone if _should_seize(lease, me, loads, dead)]
    extra = sorted(shard for shard in mine if shard != own)
    return steps or _forget(view, dead) or _balance(extra, me, loads) or [Retire(shard) for shard in extra]


def _forget(view: CrewView, dead: Collection[str]) -> list[Step]:
    owners = {lease.owner for lease in view.leases}
    return [Forget(each.id) for each in view.foremen if each.id in dead and each.id not in owners]


def plan_leaving(view: CrewView, me: str, mine: Collection[int], dead: Collection[str]) -> list[HandOver]:
    """Who gets what runs here, when we are about to stop. Nothing, if no other foreman is there."""
    loads = _count_shards(view, dead)
    loads.pop(me, None)
    steps: list[HandOver] = []
    for shard in sorted(mine):
        heir = find_heir(shard, loads)
        if heir is not None:
            loads[heir] += 1
            steps.append(HandOver(shard, heir))
    return steps


def _count_shards(view: CrewView, dead: Collection[str]) -> dict[str, int]:
    """How many shards each foreman owns that is there to stay."""
    alive = [each for each in view.foremen if each.id not in dead and not each.is_leaving and not _is_silent(each)]
    return {each.id: sum(lease.owner == each.id for lease in view.leases) for each in alive}


def list_present(view: CrewView) -> frozenset[str]:
    """The ids of foremen that are not gone. One that is silent is gone as soon as it owns nothing any more: others have
    taken over then."""
    owners = {lease.owner for lease in view.leases}
    return frozenset(each.id for each in view.foremen if each.id in owners or not _is_silent(each))


def find_foreman(view: CrewView, name: str) -> ForemanPlace | None:
    """A foreman by its id or name. One that is gone leaves its name to others."""
    present = list_present(view)
    found = [each for each in view.foremen if name in (each.id, each.name)]
    return max(found, key=lambda each: each.id in present, default=None)


def _is_silent(foreman: ForemanPlace) -> bool:
    return foreman.silent_seconds > LEASE_SECONDS


def _should_seize(lease: Lease, me: str, loads: dict[str, int], dead: Collection[str]) -> bool:
    """True if the owner is gone, and we are its best heir, or the best heir has not come."""
    if lease.owner == me:
        return False
    if lease.owner and lease.owner not in dead and lease.seconds_left > 0:
        return False
    return find_heir(lease.shard, loads) in (me, None) or lease.seconds_left < -SECOND_CHOICE


def find_heir(shard: int, loads: dict[str, int]) -> str | None:
    """Who should have a shard: a foreman with few of them. All foremen find the same one."""
    return min(loads, key=lambda each: (loads[each], _mix(shard, each)), default=None)


def _mix(shard: int, foreman: str) -> bytes:
    """An order of foremen that differs from shard to shard."""
    return sha256(f"{shard}/{foreman}".encode()).digest()


def _balance(extra: list[int], me: str, loads: dict[str, int]) -> list[Step]:
    """Hand over one shard, if another foreman has at least two fewer."""
    others = {each: load for each, load in loads.items() if each != me}
    if not extra or not others:
        return []
    heir = find_heir(extra[0], others)
    return [HandOver(extra[0], heir)] if heir is not None and others[heir] + 2 <= loads.get(me, 0) else []


def note_lease(view: CrewView, mine: Lease) -> CrewView:
    """The view with a lease that was taken since."""
    others = (lease for lease in view.leases if lease.shard != mine.shard)
    return replace(view, leases=(*others, mine))


def list_shard_places(view: CrewView, machine: str) -> tuple[ShardPlace, ...]:
    """Where each shard that has an owner can be reached, by peers on this machine; without a machine, by all peers."""
    foremen = {each.id: reach(each, machine) for each in view.foremen}
    return tuple(
        ShardPlace(lease.shard, lease.epoch, tuple([name_shard(place, lease.shard) for place in foremen[lease.owner]]))
        for lease in view.leases
        if lease.owner in foremen
    )


def list_ownerless(view: CrewView) -> tuple[int, ...]:
    """The shards that no foreman has now. One will have them soon."""
    foremen = {each.id for each in view.foremen}
    return tuple(lease.shard for lease in view.leases if lease.owner not in foremen)


def reach(foreman: ForemanPlace, machine: str) -> tuple[str, ...]:
    """The addresses of a foreman that mean something on this machine; without a machine, everywhere."""
    if machine != "" and machine == foreman.machine:
        return foreman.places
    return tuple([place for place in foreman.places if not place.startswith("unix:")])


def name_shard(place: str, shard: int) -> str:
    """The address of a shard at this address of its owner: each shard has a unix socket of its own."""
    if not place.startswith("unix:"):
        return place
    folder = place.rpartition("/")[0]
    return f"{folder}/shard-{shard}.sock"
