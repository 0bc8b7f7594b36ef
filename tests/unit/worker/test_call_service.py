"""Calls of commands, as their worker sees them."""

import asyncio

from gandy.wire import calls
from gandy.worker.call_service import CallService
from gandy.worker.commands import Commands


def test_a_hello_on_the_same_link_does_not_forget_the_slots_that_tasks_leave() -> None:
    """It follows each RESET of sequence numbers, of which calls know nothing."""

    async def run() -> None:
        service = CallService(Commands(), 2, 0, lambda _data: None)
        service.on_welcome()
        service.on_frame(calls.YIELD, 0, 7, 1, b"")
        service.on_welcome()
        assert service.slots.borrowed == 1
        service.on_cut()
        assert service.slots.borrowed == 0
        service.close()

    asyncio.run(run())
