"""What a program hears, and what it cannot be flooded with."""

import asyncio
import os
from itertools import count
from queue import Queue
from threading import Event

import pytest

from gandy.bus import AsyncEnsemble, Ensemble, aio
from gandy.bus.core.effects import News, ServiceFound

SOON = 30.0  # seconds; the machine may be busy
NUMBERS = count()


def make_name() -> str:
    return f"test-{os.getpid()}-{next(NUMBERS)}"


def test_the_first_who_listens_hears_what_came_before() -> None:
    first: Queue[News] = Queue()
    second: Queue[News] = Queue()
    with Ensemble(make_name()) as band:
        band.service("early").offer()
        assert band.wait_for("early", SOON)
        band.on_news(first.put)
        assert first.get(timeout=SOON) == ServiceFound("early", band.process)
        band.on_news(second.put)
        band.service("late").offer()
        assert first.get(timeout=SOON) == second.get(timeout=SOON) == ServiceFound("late", band.process)


def fail(news: News) -> None:
    raise ValueError("as it should")


def test_a_listener_that_fails_does_not_stop_the_others() -> None:
    heard: Queue[News] = Queue()
    with Ensemble(make_name()) as band:
        band.on_news(fail)
        band.on_news(heard.put)
        band.service("some").offer()
        assert heard.get(timeout=SOON) == ServiceFound("some", band.process)


def test_while_a_loop_is_behind_nothing_more_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine waits for coroutines: what comes by TCP waits with its sender, and all of it comes in the end."""
    monkeypatch.setattr(aio, "MAX_UNFINISHED_DELIVERIES", 5)
    name, sent, most = make_name(), 2_000, 0

    async def listen() -> list[int]:
        nonlocal most
        heard: list[int] = []
        under_way = 0
        is_over = asyncio.Event()
        async with AsyncEnsemble(name) as band:

            async def take(number: int) -> None:
                nonlocal under_way, most
                under_way += 1
                most = max(most, under_way)
                await asyncio.sleep(0)
                heard.append(number)
                under_way -= 1
                if number == sent - 1:
                    is_over.set()

            band.service("slow").add(take, "/take", "i")
            is_offered.set()
            await asyncio.wait_for(is_over.wait(), SOON)
        return heard

    is_offered = Event()
    with Ensemble(name) as sender:

        def send_all() -> None:
            is_offered.wait(SOON)
            assert sender.wait_for("slow", SOON)
            for number in range(sent):
                sender.send("!slow/take", number)

        async def run() -> list[int]:
            heard, _ = await asyncio.gather(listen(), asyncio.to_thread(send_all))
            return heard

        assert asyncio.run(run()) == list(range(sent))
    assert most <= 5


def test_an_ensemble_whose_loop_is_stuck_can_be_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(aio, "MAX_UNFINISHED_DELIVERIES", 1)

    async def leave() -> None:
        band = AsyncEnsemble(make_name())
        band.service("stuck").add(lambda: None, "/x")
        for _ in range(10):
            band.send("/stuck/x")
        band.close()  # on the loop, which can run nothing meanwhile

    asyncio.run(leave())


def test_waiting_for_a_service_can_time_out() -> None:
    async def wait() -> list[bool]:
        async with AsyncEnsemble(make_name(), clock="lead") as band:
            band.service("here").add(print, "/x")
            return [
                await band.wait_for("nobody", 0.01),
                await band.wait_for("here", 0.0),
                await band.wait_for("here"),
                await band.wait_for_clock(0.0),
            ]

    assert asyncio.run(wait()) == [False, True, True, False]
