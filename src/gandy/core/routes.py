"""Where a worker reaches the shards of its crew, by the directories that foremen send. It dials nothing.

Foremen learn of changes one after another, so directories contradict one another for a moment. Of two places of a
shard, the one with the higher epoch is true. A shard is retired when no foreman that the worker has a link to names it.
"""

from collections.abc import Iterator
from typing import Final, NamedTuple

from gandy.core.hosting import name_shard
from gandy.core.shards import Directory, ShardPlace
from gandy.moments import Monotonic

RETIREMENT: Final = 20.0  # seconds; foremen look at the database every two, and a link that is silent for 15 is cut


class RouteChanges(NamedTuple):
    """What a directory changes: shards that were unknown, and shards that have another owner."""

    opened: tuple[int, ...] = ()
    moved: tuple[int, ...] = ()


class Routes:
    """One per worker. The links are those of its conversations, one for each shard."""

    def __init__(self) -> None:
        self._places: dict[int, ShardPlace] = {}
        self._named: dict[int, frozenset[int]] = {}  # shards in the last directory of each link that is up
        self._looked: frozenset[int] | None = None  # the same for the last one that came without a link
        self._retired: dict[int, Monotonic] = {}  # since when
        self.foremen: tuple[tuple[str, ...], ...] = ()  # the addresses of each, by the last directory

    def __iter__(self) -> Iterator[int]:
        return iter(self._places)

    def __contains__(self, shard: int) -> bool:
        return shard in self._places

    def on_directory(self, directory: Directory, *, is_linked: bool = True) -> RouteChanges:
        """A foreman says where the shards are. `is_linked`: over a link for its shard `here`, which stays up.

        A link over which its own shard is named with a lower epoch than the highest known is among the moved ones.
        """
        here = directory.here
        found = {place.shard: place for place in directory.shards}
        if is_linked:
            found.setdefault(here, self._places.get(here, ShardPlace(here, 0, ())))
            self._named[here] = frozenset(found).union(directory.ownerless)
        self._looked = None if is_linked else frozenset(found).union(directory.ownerless)
        self.foremen = directory.foremen
        opened = tuple(shard for shard in found if shard not in self._places)
        moved = tuple(shard for shard, place in found.items() if self._is_moved(place, is_linked and shard == here))
        for shard, place in found.items():
            if shard in opened or place.epoch >= self._places[shard].epoch:
                self._places[shard] = place
        return RouteChanges(opened, moved)

    def _is_moved(self, place: ShardPlace, is_here: bool) -> bool:
        known = self._places.get(place.shard)
        if known is None:
            return False
        return place.epoch < known.epoch if is_here else place.epoch > known.epoch

    def on_cut(self, shard: int) -> None:
        """The link for this shard is gone: what its foreman said does not keep other shards any more."""
        self._named.pop(shard, None)

    def list_places(self, shard: int, *, is_alone: bool = False) -> tuple[str, ...]:
        """Where the shard may be, the most likely first.

        `is_alone`: the worker has no link at all, so any foreman may have taken the shard over without its knowledge.
        """
        places = self._places[shard].places
        others = (name_shard(place, shard) for foreman in self.foremen for place in foreman) if is_alone else ()
        return tuple(dict.fromkeys((*places, *others)))

    def list_retired(self) -> list[int]:
        """Shards that no directory names any more: that of no link or, if there are none, not the last one that came.

        Their conversations may end once nothing is held for them.
        """
        named = frozenset[int]().union(*self._named.values()) or self._looked
        return [shard for shard in self._places if shard not in named] if named else []

    def list_dead(self, now: Monotonic) -> list[int]:
        """Shards that have been retired for so long that every foreman must know: nothing for them counts any more.

        Call this steadily. A foreman that has just started a shard is not known to all others yet.
        """
        self._retired = {shard: self._retired.get(shard, now) for shard in self.list_retired()}
        return [shard for shard, since in self._retired.items() if now - since >= RETIREMENT]

    def forget(self, shard: int) -> None:
        """The conversation for a retired shard has ended."""
        self._retired.pop(shard, None)
        del self._places[shard]
        self._named.pop(shard, None)
