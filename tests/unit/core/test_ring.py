"""The ring is seed 002's table, searched from the top."""

import random

import pytest

from gandy.core.ring import SPAN, Ring


class Member:
    place = 0


def use(ring: Ring, members: list[Member]) -> Member:
    """The next one of these in turn."""
    chosen = min(members, key=ring.next_turn)
    ring.at = ring.next_turn(chosen)
    return chosen


def test_members_take_turns_in_the_order_in_which_they_came() -> None:
    ring, members = Ring(), [Member() for _ in range(3)]
    for member in members:
        ring.add(member)
    assert [use(ring, members) for _ in range(6)] == members * 2


def test_a_newcomer_is_at_the_bottom() -> None:
    ring, (a, b, c, d) = Ring(), (Member() for _ in range(4))
    for member in (a, b, c):
        ring.add(member)
    assert use(ring, [a, b, c]) is a
    ring.add(d)
    assert [use(ring, [a, b, c, d]) for _ in range(5)] == [b, c, a, d, b]


def test_who_is_gone_has_no_turn() -> None:
    ring, (a, b) = Ring(), (Member(), Member())
    ring.add(a)
    ring.add(b)
    ring.remove(a)
    ring.add(a)
    assert [use(ring, [a, b]) for _ in range(3)] == [b, a, b]


@pytest.mark.parametrize("seed", range(20))
def test_it_is_the_table_of_the_seed(seed: int) -> None:
    chance = random.Random(seed)
    ring, table = Ring(), [Member()]
    ring.add(table[0])
    spreads = 0
    for _ in range(2_000):
        act = chance.random()
        if act < 0.3 or not table:
            table.append(Member())
            is_spread = ring.add(table[-1])
            spreads += is_spread
            assert all(0 <= member.place < SPAN for member in (table if is_spread else table[-1:]))
        elif act < 0.4:
            ring.remove(table.pop(chance.randrange(len(table))))
        else:
            able = chance.sample(table, chance.randint(1, len(table)))
            chosen = set(able)
            index = next(index for index, member in enumerate(table) if member in chosen)
            assert use(ring, able) is table[index]
            table = table[index + 1 :] + table[: index + 1]
    assert spreads > 0 or seed  # the ring was full at least once, in the first run
