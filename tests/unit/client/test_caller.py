"""Simple calls: what becomes of results for futures that the program cancelled."""

import asyncio
import gc
from math import inf, nan
from typing import Any

import pytest

from gandy.client.caller import Caller, on_frame
from gandy.client.options import CallOptions
from gandy.client.pending import Pending
from gandy.client.simple import SWEEP_PERIOD, SimpleCalls
from gandy.errors import CallFailed, LinkError, Rejected
from gandy.wire import calls
from gandy.wire.calls import CANCEL, FAILED, LAST, RESULT, WHOLE, CallFailure

FIRST = 1  # number of a call on its link
SHARED = 1000.0  # what the foreman says that the time is


class FakeLink:
    """Keeps what is written."""

    def __init__(self) -> None:
        self.calls: dict[int, Pending] = {}
        self.simple = SimpleCalls(self.write_soon, self.write_soon, self.calls)
        self.takes_calls = self.takes_times = True
        self.is_open = True
        self.written: list[int] = []  # kinds

    def write_soon(self, data: bytes) -> None:
        calls.read_frames(data, 0, lambda kind, *_rest: self.written.append(kind))


def run(test: Any) -> list[dict[str, Any]]:
    """What asyncio complained about."""
    complaints: list[dict[str, Any]] = []

    async def go() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _loop, context: complaints.append(context))
        link = FakeLink()

        async def get_link() -> FakeLink:
            return link

        async def get_shared_time() -> float:
            return SHARED

        await test(link, Caller(get_link, lambda: link, get_shared_time, Rejected))
        await asyncio.sleep(0)
        gc.collect()  # asyncio complains when a future with an exception is gone unread

    asyncio.run(go())
    return complaints


FAILURE = calls.encode_failure(CallFailure("ValueError", "ValueError: no"))


def test_failure_of_a_cancelled_call_is_dropped_in_silence() -> None:
    async def test(link: FakeLink, caller: Caller) -> None:
        future = caller.call("ping", ())
        number = FIRST
        future.cancel()
        on_frame(link, caller, RESULT, LAST | FAILED, number, 0, FAILURE)
        assert not link.simple
        assert not link.calls

    assert run(test) == []


def test_cancelled_call_is_told_to_the_foreman_though_pieces_come() -> None:
    async def test(link: FakeLink, caller: Caller) -> None:
        future = caller.call("ping", ())
        number = FIRST
        future.cancel()
        on_frame(link, caller, RESULT, 0, number, 0, b"piece")
        await asyncio.sleep(2 * SWEEP_PERIOD)
        assert link.written[-1] == CANCEL
        assert not link.simple

    assert run(test) == []


def test_failure_and_pieces_reach_a_simple_call() -> None:
    async def test(link: FakeLink, caller: Caller) -> None:
        failing, large = caller.call("fail", ()), caller.call("make", ())
        first, second = FIRST, FIRST + 1
        on_frame(link, caller, RESULT, LAST | FAILED, first, 0, FAILURE)
        on_frame(link, caller, RESULT, 0, second, 0, b"\xc4\x04ab")
        on_frame(link, caller, RESULT, LAST | WHOLE, second, 0, b"cd")
        with pytest.raises(CallFailed, match="no"):
            await failing
        assert await large == b"abcd"
        assert not link.calls

    assert run(test) == []


def test_values_that_come_together_reach_their_calls() -> None:
    async def test(link: FakeLink, caller: Caller) -> None:
        futures = [caller.call("echo", ()) for _ in range(4)]
        futures[1].cancel()
        values = (b"\xc3", b"\xc3", b"\xc1", b"\xc2")  # true twice, no value, false
        done = LAST | WHOLE
        data = b"".join(calls.encode(RESULT, done, FIRST + at, 0, value) for at, value in enumerate(values))
        assert link.simple.take_plain(data + data[:20], 0) == len(data)
        assert (await futures[0], await futures[3]) == (True, False)
        with pytest.raises(ValueError, match="not a value"):
            await futures[2]
        assert not link.simple

    assert run(test) == []


def test_the_first_call_goes_out_at_once_and_others_go_together() -> None:
    async def test(_link: FakeLink, _caller: Caller) -> None:
        now: list[bytes] = []
        soon: list[bytes] = []
        simple = SimpleCalls(now.append, soon.append, {FIRST + 1})
        waiting = [simple.start(calls.encode_target("ping"), b"\x90") for _ in range(3)]
        assert [calls.PLAIN_HEADER.unpack_from(data)[1] for data in now] == [FIRST]
        assert [calls.PLAIN_HEADER.unpack_from(data)[1] for data in soon] == [FIRST + 2, FIRST + 3]
        simple.fail(LinkError("gone"))
        for future in waiting:
            with pytest.raises(LinkError):
                await future

    assert run(test) == []


# Times


def test_timeout_of_a_call_with_a_time_counts_from_then_on() -> None:
    async def test(link: FakeLink, caller: Caller) -> None:
        before = asyncio.get_running_loop().time()
        call = caller.call("ping", (), CallOptions(at=SHARED + 50.0, timeout=10.0))
        assert not link.written  # the time is asked for first
        while not link.written:
            await asyncio.sleep(0)
        ((_, pending),) = link.calls.items()
        assert pending is call
        assert pending.deadline is not None
        assert pending.deadline - before == pytest.approx(60.0, abs=5.0)
        call.cancel()

    assert run(test) == []


def test_call_with_a_time_says_so_and_goes_out_at_once() -> None:
    async def test(link: FakeLink, caller: Caller) -> None:
        call = caller.call("ping", (), CallOptions(at=SHARED), "w1")
        assert link.written == [calls.CALL]
        ((_, pending),) = link.calls.items()
        assert pending.flags == calls.AT | calls.DIRECT
        assert pending.target == calls.encode_target("ping", "w1") + calls.encode_time(SHARED)
        call.cancel()
        for nonsense in (nan, inf):
            with pytest.raises(ValueError, match="is not a time"):
                caller.call("ping", (), CallOptions(at=nonsense))

    assert run(test) == []


def test_a_foreman_gets_no_calls_that_it_does_not_know() -> None:
    async def test(link: FakeLink, caller: Caller) -> None:
        link.takes_times = False
        with pytest.raises(Rejected, match="calls with a time"):
            await caller.call("ping", (), CallOptions(at=SHARED))
        link.takes_calls = False
        with pytest.raises(Rejected, match="calls"):
            await caller.call("ping", ())
        assert not link.written

    assert run(test) == []
