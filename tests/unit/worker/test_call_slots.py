"""Slots that calls borrow from tasks of jobs, and what the foreman hears of those it asked for."""

import asyncio
from collections.abc import Callable

from gandy.wire.calls import YIELDED, read_frames
from gandy.worker.call_frames import CallFrames
from gandy.worker.call_slots import BorrowedSlots, CallSlots


def run(test: Callable[[CallSlots, CallFrames], None], reserved: int = 1) -> list[tuple[int, int, int]]:
    """What was sent: kind, number and argument of each frame."""
    sent: list[tuple[int, int, int]] = []

    def on_frame(kind: int, _subtype: int, number: int, argument: int, _payload: bytes) -> None:
        sent.append((kind, number, argument))

    def write(data: bytes) -> None:
        assert read_frames(data, 0, on_frame) == len(data)

    async def go() -> None:
        frames = CallFrames(write)
        frames.is_open = True
        test(CallSlots(reserved, frames), frames)
        frames.flush()

    asyncio.run(go())
    return sent


def test_calls_borrow_only_beyond_what_is_reserved_for_them() -> None:
    def test(slots: CallSlots, _frames: CallFrames) -> None:
        assert slots.borrowed == 0
        slots.in_use = 1
        assert slots.borrowed == 0
        slots.in_use = 3
        assert slots.borrowed == 2
        slots.on_yield(7, 4)
        assert slots.borrowed == 4  # those that are wanted count even before calls use them

    assert run(test) == []


def test_slots_are_reported_as_yielded_once_and_never_more_than_were_wanted() -> None:
    def test(slots: CallSlots, _frames: CallFrames) -> None:
        slots.on_yield(7, 2)
        for free in (0, 1, 1, 5, 2):
            slots.report_yielded(free)

    assert run(test) == [(YIELDED, 7, 1), (YIELDED, 7, 2)]


def test_a_request_ends_with_its_link() -> None:
    def test(slots: CallSlots, frames: CallFrames) -> None:
        slots.on_yield(7, 2)
        frames.close()
        slots.report_yielded(2)
        slots.forget_request()
        frames.is_open = True
        assert slots.borrowed == 0
        slots.report_yielded(2)

    assert run(test) == []


def test_calls_of_all_foremen_borrow_together() -> None:
    """Each foreman counts on the reserved slot. If two want more than that, tasks leave one too many."""

    def test(one: CallSlots, frames: CallFrames) -> None:
        two = CallSlots(1, frames)
        slots = BorrowedSlots(1)
        slots.parts += [one, two]
        assert (slots.borrowed, slots.wanted) == (0, 0)
        one.in_use = two.in_use = 1
        assert slots.borrowed == 1  # each would be in the reserved slot, if it were alone
        one.on_yield(7, 2)
        assert (slots.borrowed, slots.wanted) == (3, 2)
        two.on_yield(8, 1)
        assert (slots.borrowed, slots.wanted) == (4, 3)
        slots.parts.remove(two)
        assert slots.borrowed == one.borrowed == 2

    run(test)


def test_a_free_slot_is_left_to_the_calls_of_one_foreman() -> None:
    def test(one: CallSlots, frames: CallFrames) -> None:
        two, three = CallSlots(1, frames), CallSlots(1, frames)
        slots = BorrowedSlots(1)
        slots.parts += [one, two, three]
        one.on_yield(7, 2)
        two.on_yield(8, 2)
        three.in_use = 2  # one in the reserved slot
        slots.report_yielded(4)
        three.in_use = 0
        slots.report_yielded(4)

    assert run(test) == [(YIELDED, 7, 2), (YIELDED, 8, 1), (YIELDED, 8, 2)]
