"""Whose turn it is among workers, as in the round-robin queue. It knows neither slots nor commands.

That queue searches a table from the top, and puts every worker that it looks at to the bottom, busy or not. So no
worker ever changes places: the table is a ring, and what moves is the place where the search begins.
"""

from bisect import bisect_left, bisect_right, insort
from operator import attrgetter
from typing import Final, Protocol

SPAN: Final = 1 << 40  # places in the ring
STEP: Final = 1 << 20  # between two workers that register one after the other, if there is room

_by_place: Final = attrgetter("place")


class RingMember(Protocol):
    """What has a place in a ring."""

    place: int


class Ring:
    """Turns are numbers: the next turn of a member is the first one behind `at` that fits its place."""

    def __init__(self) -> None:
        self.at = -1  # the turn of the member that was used last
        self._members: list[RingMember] = []  # by place

    def add(self, member: RingMember) -> bool:
        """Add a member at the bottom: all others have their turn first. True if members were renumbered."""
        is_spread = self._find_room() < 2
        if is_spread:
            self._spread()
        self.at += min(self._find_room() // 2, STEP)
        member.place = self.at % SPAN
        insort(self._members, member, key=_by_place)
        return is_spread

    def remove(self, member: RingMember) -> None:
        del self._members[bisect_left(self._members, member.place, key=_by_place)]

    def next_turn(self, member: RingMember) -> int:
        """The next turn of a member."""
        turn = self.at - self.at % SPAN + member.place
        return turn if turn > self.at else turn + SPAN

    def _find_room(self) -> int:
        """The distance from the last turn to the next place that is taken, or to the end of the round."""
        place = self.at % SPAN
        following = bisect_right(self._members, place, key=_by_place)
        end = self._members[following].place if following < len(self._members) else SPAN
        return end - place

    def _spread(self) -> None:
        """Give all members new places, far from one another and in the same order."""
        self._members.sort(key=self.next_turn)
        distance = SPAN // (len(self._members) + 2)
        for index, member in enumerate(self._members):
            member.place = (index + 1) * distance
        self.at = len(self._members) * distance  # the last one's, and there is room behind it
