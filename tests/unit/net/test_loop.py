"""What a loop leaves behind when it has ended."""

import asyncio
import signal
from collections.abc import Callable, Iterator

import pytest

from gandy.net import loop


def ignore(_number: int, _frame: object) -> None: ...


@pytest.fixture(autouse=True)
def _sigterm() -> Iterator[None]:
    before = signal.getsignal(signal.SIGTERM)
    yield
    signal.signal(signal.SIGTERM, before)


async def listen() -> None:
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, lambda: None)


@pytest.mark.parametrize("before", [signal.SIG_DFL, ignore])
def test_a_signal_means_what_it_did_before(before: Callable[[int, object], None]) -> None:
    """uvloop leaves a handler that does nothing: a program could not be ended by SIGTERM any more."""
    signal.signal(signal.SIGTERM, before)
    loop.run(listen())
    assert signal.getsignal(signal.SIGTERM) == before


def test_a_signal_means_what_it_did_before_if_the_program_fails() -> None:
    async def fail() -> None:
        await listen()
        raise ValueError

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    with pytest.raises(ValueError):
        loop.run(fail())
    assert signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
