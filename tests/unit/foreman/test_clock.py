import asyncio
import time

import pytest

from gandy.core.reactor import Reactor
from gandy.foreman.clock import ForemanClock
from gandy.net import loop


def test_the_loops_time_is_the_foremans() -> None:
    """So what a timer of the loop waits for is due by the foreman's clock."""

    async def compare() -> float:
        await asyncio.sleep(0)
        return asyncio.get_running_loop().time() - ForemanClock(Reactor()).now()

    assert abs(loop.run(compare())) < 10.0  # on a busy machine; the wall clock differs by the age of Unix


def test_what_is_kept_is_no_older_for_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    reactor = Reactor()
    clock = ForemanClock(reactor)
    before = time.time()
    monkeypatch.setattr("gandy.foreman.clock.read_wall", lambda: before + 86_400.0)
    now = clock.now()
    assert now + reactor.clocks.wall_ahead == pytest.approx(before + 86_400.0)
    assert clock.find_oldest(3_600.0) < before - 3_500.0
    clock.note_last_stamp(before - 86_400.0)
    assert clock.find_oldest(3_600.0) < before - 86_400.0 - 3_500.0
