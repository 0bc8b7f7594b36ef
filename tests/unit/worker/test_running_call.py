"""Credit of a call: what it sends waits for it, on the loop and in threads, and no cancelled call sends anything."""

import asyncio
from threading import Condition, Thread

import pytest
from tests.waiting import until

from gandy.wire.calls import WINDOW_BYTES
from gandy.worker.commands import Command, Way, echo
from gandy.worker.running_call import CallCancelled, RunningCall


def a_call() -> RunningCall:
    return RunningCall(1, 0, Command("echo", echo, Way.THREAD), 1)


def test_sending_waits_for_credit_on_the_loop() -> None:
    async def go() -> None:
        call = a_call()
        call.room = asyncio.Event()
        await call.spend(WINDOW_BYTES)
        waiting = asyncio.create_task(call.spend(10))
        await asyncio.sleep(0)
        assert not waiting.done()
        call.add_credit(4)
        await waiting
        assert call.credit == -6  # a piece is sent whole as soon as there is any credit

    asyncio.run(go())


def test_sending_waits_for_credit_in_a_thread() -> None:
    call = a_call()
    call.room = Condition()
    call.spend_in_thread(WINDOW_BYTES)
    thread = Thread(target=call.spend_in_thread, args=(10,))
    thread.start()
    call.add_credit(4)
    thread.join(60)
    assert not thread.is_alive()
    assert call.credit == -6


def test_a_cancelled_call_spends_nothing_on_the_loop() -> None:
    async def go() -> None:
        call = a_call()
        call.room = asyncio.Event()
        call.is_cancelled = True
        with pytest.raises(CallCancelled):
            await call.spend(10)
        assert call.credit == WINDOW_BYTES

    asyncio.run(go())


def test_a_call_that_waits_in_a_thread_can_be_cancelled() -> None:
    call = a_call()
    call.room = room = Condition()
    call.spend_in_thread(WINDOW_BYTES)
    raised: list[Exception] = []

    def work() -> None:
        try:
            call.spend_in_thread(10)
        except CallCancelled as error:
            raised.append(error)

    thread = Thread(target=work)
    thread.start()
    call.is_cancelled = True

    def has_ended() -> bool:
        with room:
            room.notify_all()
        return not thread.is_alive()

    until(has_ended)
    assert len(raised) == 1
