"""Calls of commands, as their worker sees them."""

import asyncio

from gandy.wire import calls
from gandy.worker.commands import Commands
from gandy.worker.serving import Serving


def test_a_hello_on_the_same_link_does_not_forget_the_slots_that_tasks_leave() -> None:
    """It follows each RESET of sequence numbers, of which calls know nothing."""

    async def run() -> None:
        serving = Serving(Commands(), 2, 0, lambda _data: None)
        serving.on_welcome()
        serving.on_frame(calls.YIELD, 0, 7, 1, b"")
        serving.on_welcome()
        assert serving.borrowed == 1
        serving.on_cut()
        assert serving.borrowed == 0
        serving.close()

    asyncio.run(run())
