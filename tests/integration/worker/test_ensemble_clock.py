"""What begins at a shared time, on a real bus: never before it, and not at all where the time means nothing now."""

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from tests.netns.namespaces import Namespace, find_hindrance

from gandy.bus import Ensemble
from gandy.worker.ensemble_clock import EnsembleClock

HINDRANCE = find_hindrance()
pytestmark = pytest.mark.skipif(HINDRANCE is not None, reason=str(HINDRANCE))

PATIENCE = 20  # seconds


@contextmanager
def a_band() -> Iterator[Ensemble]:
    """It leads the clock after two seconds."""
    with Namespace() as namespace, namespace.inside(), Ensemble("band", clock="lead", unix_time=True) as band:
        assert band.wait_for_clock(PATIENCE)
        yield band


@pytest.fixture(scope="module")
def steady_band() -> Iterator[Ensemble]:
    """For tests that change nothing about it."""
    with a_band() as band:
        yield band


@pytest.fixture
def band() -> Iterator[Ensemble]:
    with a_band() as band:
        yield band


class Guest:
    """Waits for one moment of the shared time, and for what comes of it."""

    def __init__(self, band: Ensemble) -> None:
        self.band = band
        self.ended: asyncio.Future[float | str] = asyncio.get_running_loop().create_future()
        self.changes: list[bool] = []
        self.clock = EnsembleClock(lambda: self.changes.append(self.clock.is_known))
        self.clock.join(band)
        assert self.changes == [True]

    def come(self, at: float) -> None:
        def act() -> None:
            self.ended.set_result(self.band.now())

        self.start = self.clock.call_at(at, act, self.ended.set_result)

    async def wait(self) -> float | str:
        return await asyncio.wait_for(self.ended, PATIENCE)


@pytest.mark.parametrize("seconds", [-1.0, 0.0, 0.01, 0.9])
def test_nothing_begins_before_its_time(steady_band: Ensemble, seconds: float) -> None:
    async def go() -> None:
        guest = Guest(steady_band)
        at = steady_band.now() + seconds
        assert guest.clock.seconds_since(at) >= -seconds
        guest.come(at)
        began = await guest.wait()
        assert isinstance(began, float)
        assert began >= at

    asyncio.run(go())


@pytest.mark.parametrize("seconds", [0.1, 3600.0])
def test_what_is_cancelled_does_not_begin(steady_band: Ensemble, seconds: float) -> None:
    async def go() -> None:
        guest, other = Guest(steady_band), Guest(steady_band)
        guest.come(steady_band.now() + seconds)
        other.come(steady_band.now() + 0.3)
        await asyncio.sleep(0.05)  # it is with the engine, if it is near
        guest.start.cancel()
        await other.wait()
        assert not guest.ended.done()

    asyncio.run(go())


def test_wall_clock_and_shared_time_are_the_same_where_it_is_unix_time(steady_band: Ensemble) -> None:
    assert abs(steady_band.now() - time.time()) < 0.1


@pytest.mark.parametrize(("seconds", "move"), [(0.19, -1000.0), (3600.0, -1000.0), (3600.0, 1e9)])
def test_time_that_begins_anew_cancels_what_waits_for_it(band: Ensemble, seconds: float, move: float) -> None:
    async def go() -> None:
        guest = Guest(band)
        guest.come(band.now() + seconds)
        await asyncio.sleep(0.02)
        band.engine.ask(lambda member, now: member.time.clock.set(member.time.clock.read(now) + move, now))
        ended = await guest.wait()
        assert isinstance(ended, str)
        assert "was reset" in ended

    asyncio.run(go())


def test_band_that_is_left_cancels_what_waits_for_it(band: Ensemble) -> None:
    async def go() -> None:
        guest = Guest(band)
        guest.come(band.now() + 0.7)
        await asyncio.sleep(0.02)
        await asyncio.to_thread(band.close)
        assert "has left the ensemble" in str(await guest.wait())
        guest.clock.update()
        assert guest.changes == [True, False]
        guest.start.cancel()

    asyncio.run(go())
