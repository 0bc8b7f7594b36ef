"""A poll thread takes turns until it is stopped, and whatever goes wrong, it ends once."""

import select
from collections.abc import Callable
from queue import SimpleQueue
from threading import current_thread

import pytest

from gandy import poll_thread
from gandy.poll_thread import PollThread

SOON = 5.0  # seconds, for a busy machine


class Owner:
    """Waits for nothing but its thread to be woken."""

    def __init__(self, on_turn: Callable[[], None] = lambda: None) -> None:
        self.turns: SimpleQueue[str] = SimpleQueue()
        self.ends: list[str] = []
        self._on_turn = on_turn
        self.thread = PollThread("test-thread", self._turn, self._end)

    def _turn(self) -> None:
        assert select.select((self.thread,), (), (), SOON)[0]
        self.thread.clear()
        self.turns.put(current_thread().name)
        self._on_turn()

    def _end(self) -> None:
        self.ends.append(current_thread().name)


def is_readable(thread: PollThread) -> bool:
    return bool(select.select((thread,), (), (), 0)[0])


def test_each_wake_is_a_turn_in_its_own_thread() -> None:
    owner = Owner()
    owner.thread.start()
    for _ in range(3):
        owner.thread.wake()
        assert owner.turns.get(timeout=SOON) == "test-thread"
    owner.thread.stop()
    assert owner.ends == ["test-thread"]


def test_many_wakes_before_a_turn_are_one_byte() -> None:
    owner = Owner()
    for _ in range(100_000):  # more than the buffer of a socket holds
        owner.thread.wake()
    owner.thread.clear()
    assert not is_readable(owner.thread)
    owner.thread.wake()
    assert is_readable(owner.thread)
    owner.thread.stop()


def test_a_turn_that_raises_does_not_end_it(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(poll_thread, "BUG_PAUSE", 0.0)
    owner = Owner(lambda: [][0])
    owner.thread.start()
    for _ in range(2):
        owner.thread.wake()
        owner.turns.get(timeout=SOON)
    owner.thread.stop()
    assert owner.ends == ["test-thread"]
    assert "test-thread has a bug and continues" in caplog.text


def test_its_own_thread_can_stop_it() -> None:
    owner = Owner(lambda: owner.thread.stop())
    assert not owner.thread.is_current
    owner.thread.start()
    owner.thread.wake()
    owner.turns.get(timeout=SOON)
    owner.thread.stop()
    assert owner.ends == ["test-thread"]


def test_one_that_never_started_ends_where_it_is_stopped() -> None:
    owner = Owner()
    owner.thread.stop()
    assert owner.ends == [current_thread().name]
    assert owner.turns.empty()
    owner.thread.wake()  # says nothing: its sockets are closed
    assert owner.thread.fileno() == -1
