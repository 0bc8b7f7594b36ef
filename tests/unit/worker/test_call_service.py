"""Calls of commands, as their worker sees them."""

import asyncio
from collections.abc import Iterator
from threading import Event

from gandy.functions.values import encode_value
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
        service.on_cut()

    asyncio.run(run())


def test_a_stream_that_is_cancelled_before_it_gets_a_thread_never_begins() -> None:
    begun: list[str] = []
    release = Event()
    commands = Commands()

    @commands.command
    def block() -> None:
        release.wait()

    @commands.command
    def count() -> Iterator[int]:
        begun.append("count")
        yield 1

    async def run() -> None:
        service = CallService(commands, 1, 0, lambda _data: None)
        room = asyncio.Event()
        service.on_room = room.set
        service.on_frame(calls.CALL, 0, 1, 0, calls.encode_target("block") + encode_value([]))
        service.on_frame(calls.CALL, calls.STREAM, 2, 0, calls.encode_target("count") + encode_value([]))
        service.on_frame(calls.CANCEL, 0, 2, 0, b"")
        release.set()
        while not service.is_idle:
            room.clear()
            await room.wait()
        service.on_cut()

    asyncio.run(run())
    assert begun == []
