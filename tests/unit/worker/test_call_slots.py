"""Slots that calls borrow from tasks of jobs, and what the foreman hears of those it asked for."""

import asyncio
from collections.abc import Callable

from gandy.wire.calls import YIELDED, read_frames
from gandy.worker.call_frames import CallFrames
from gandy.worker.call_slots import CallSlots


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
