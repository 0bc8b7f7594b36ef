"""Signals end what waits, and nothing else."""

import signal
from collections.abc import Iterator
from queue import SimpleQueue
from threading import Event

import pytest

from gandy.doors.roundrobin.console import waiting
from gandy.doors.roundrobin.console.waiting import Signals, take, wait_for


@pytest.fixture
def signals(monkeypatch: pytest.MonkeyPatch) -> Iterator[Signals]:
    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.getsignal(number) for number in numbers]
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signals = Signals()
    signals.install()
    monkeypatch.setattr(waiting, "SIGNALS", signals)
    yield signals
    for number, handler in zip(numbers, before, strict=True):
        signal.signal(number, handler)


def test_wait_tells_whether_it_came() -> None:
    flag = Event()
    assert not wait_for(flag, 0.0)
    assert not wait_for(flag, -1.0)
    flag.set()
    assert wait_for(flag, 0.0)


def test_take_tells_what_came() -> None:
    queue: SimpleQueue[int] = SimpleQueue()
    assert take(queue, 0.0) is None
    queue.put(3)
    assert take(queue, 0.0) == 3


def test_interrupt_ends_a_wait(signals: Signals) -> None:
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        wait_for(Event(), 10.0)
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        take(SimpleQueue[int](), 10.0)
    signals.check()  # it is heard once


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_being_told_to_go_is_more_than_an_interrupt(signals: Signals, number: signal.Signals) -> None:
    signal.raise_signal(signal.SIGINT)
    signal.raise_signal(number)
    with pytest.raises(SystemExit) as caught:
        signals.check()
    assert caught.value.code == 0


def test_what_reads_is_ended_at_once(signals: Signals) -> None:
    with pytest.raises(KeyboardInterrupt):
        signals.read(lambda: signal.raise_signal(signal.SIGINT))
    signal.raise_signal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        signals.read(lambda: pytest.fail("the signal came before"))


def test_what_is_shielded_comes_to_its_end(signals: Signals) -> None:
    def read() -> str:
        signals.shield(lambda: signal.raise_signal(signal.SIGINT))
        return "done"

    assert signals.read(read) == "done"
    with pytest.raises(KeyboardInterrupt):
        signals.check()


def test_ignored_interrupt_stays_ignored(signals: Signals) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signals.install()
    assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN
