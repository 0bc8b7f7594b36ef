"""What threads put into the loop's queue runs in order, and one that fails keeps no other from running."""

import asyncio
import logging
from threading import Thread

import pytest

from gandy.worker.loop_queue import LoopQueue


def test_everything_runs_in_order_and_then_the_queue_says_so(caplog: pytest.LogCaptureFixture) -> None:
    ran: list[object] = []

    def fail() -> None:
        raise ValueError("not this one")

    async def go() -> None:
        emptied = asyncio.Event()
        queue = LoopQueue(emptied.set)

        def work() -> None:
            queue.put(ran.append, 1)
            queue.put(fail)
            queue.put(ran.append, 2)

        thread = Thread(target=work)
        thread.start()
        thread.join()
        assert ran == []  # nothing runs in the thread
        await asyncio.wait_for(emptied.wait(), 60)

    with caplog.at_level(logging.ERROR):
        asyncio.run(go())
    assert ran == [1, 2]
    assert "this is a bug in gandy" in caplog.text


def test_a_thread_that_ends_after_the_loop_is_ignored() -> None:
    async def make() -> LoopQueue:
        return LoopQueue(lambda: None)

    queue = asyncio.run(make())
    queue.put(pytest.fail, "the loop is closed")
