import asyncio

import pytest

from gandy.foreman.clock import ForemanClock
from gandy.net import loop


def test_the_loops_time_is_the_foremans() -> None:
    """So the lane for calls may note by it when a worker was heard."""

    async def compare() -> float:
        await asyncio.sleep(0)
        return asyncio.get_running_loop().time() - ForemanClock().now()

    assert abs(loop.run(compare())) < 10.0  # on a busy machine; the wall clock differs by the age of Unix


def test_what_is_kept_is_no_older_for_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ForemanClock()
    before = clock.wall()
    monkeypatch.setattr("gandy.foreman.clock.read_wall", lambda: before + 86_400.0)
    assert clock.read_wall_ahead() > 86_000.0
    assert clock.find_oldest(3_600.0) < before - 3_500.0
    clock.note_last_stamp(before - 86_400.0)
    assert clock.find_oldest(3_600.0) < before - 86_400.0 - 3_500.0
