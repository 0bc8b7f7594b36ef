"""Attempts that race, without a clock: what each waits for is decided here."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from gandy.errors import LinkError
from gandy.net.race import AllFailed, race


def dropped_in(drops: list[str]) -> Callable[[str], None]:
    return drops.append


async def succeed(name: str) -> str:
    return name


async def fail(name: str) -> str:
    raise LinkError(name)


async def hang() -> str:
    never: asyncio.Future[str] = asyncio.get_running_loop().create_future()
    found: str = await never
    return found


def test_the_first_that_succeeds_wins_and_later_ones_do_not_begin() -> None:
    begun: list[str] = []

    async def note(name: str) -> str:
        begun.append(name)
        return name

    assert asyncio.run(race([lambda: note("a"), lambda: note("b")], None, dropped_in([]))) == "a"
    assert begun == ["a"]


def test_after_a_failure_the_next_begins_at_once() -> None:
    assert asyncio.run(race([lambda: fail("a"), lambda: succeed("b")], None, dropped_in([]))) == "b"


def test_one_that_hangs_is_cancelled_when_another_succeeds() -> None:
    ends: list[str] = []

    async def wait() -> str:
        try:
            return await hang()
        finally:
            ends.append("cancelled")

    assert asyncio.run(race([wait, lambda: succeed("b")], 0.0, dropped_in([]))) == "b"
    assert ends == ["cancelled"]


def test_two_that_succeed_together_leave_one_to_drop() -> None:
    drops: list[str] = []

    async def test() -> str:
        both = asyncio.Event()

        async def wait(name: str) -> str:
            await both.wait()
            return name

        async def release() -> str:
            both.set()
            return await hang()

        won = await race([lambda: wait("a"), lambda: wait("b"), release], 0.0, dropped_in(drops))
        await asyncio.sleep(0)
        return won

    won = asyncio.run(test())
    assert sorted([won, *drops]) == ["a", "b"]


def test_all_failures_are_told_in_order() -> None:
    with pytest.raises(AllFailed) as caught:
        asyncio.run(race([lambda: fail("a"), lambda: fail("b")], None, dropped_in([])))
    assert [str(error) for error in caught.value.errors] == ["a", "b"]
    with pytest.raises(AllFailed):
        asyncio.run(race(list[Callable[[], Awaitable[str]]](), None, dropped_in([])))


def test_a_bug_is_no_failure() -> None:
    async def break_() -> str:
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        asyncio.run(race([break_, lambda: succeed("b")], None, dropped_in([])))
