"""Spinning pays only where messages follow one another."""

from gandy.bus.io.spinning import MISSES_BEFORE_REST, MOMENT, REST, SOON, SpinPolicy


def test_a_reader_of_rare_messages_sleeps() -> None:
    spin = SpinPolicy(is_allowed=True)
    for now in (1.0, 1.0 + 2 * SOON, 1.0 + 4 * SOON):
        spin.on_message(now)
        assert not spin.until


def test_a_reader_in_a_dialogue_spins_for_a_moment() -> None:
    spin = SpinPolicy(is_allowed=True)
    spin.on_message(1.0)
    spin.on_message(1.0 + SOON / 2)
    assert spin.until == 1.0 + SOON / 2 + MOMENT
    spin.on_caught()
    assert not spin.until


def test_on_one_processor_a_reader_never_spins() -> None:
    spin = SpinPolicy(is_allowed=False)
    spin.on_message(1.0)
    spin.on_message(1.0)
    assert not spin.until


def test_spinning_that_catches_nothing_is_given_up_for_a_while() -> None:
    spin, now, wasted = SpinPolicy(is_allowed=True), 1.0, 0.0
    for _ in range(1000):  # a message each time that it has just stopped spinning
        spin.on_message(now)
        if spin.until:
            wasted += spin.until - now
            now = spin.until
            spin.on_missed(now)
        now += SOON / 2
    assert wasted <= (1 + (now - 1.0) / REST) * MISSES_BEFORE_REST * MOMENT


def test_one_success_in_three_keeps_it_spinning() -> None:
    spin, now = SpinPolicy(is_allowed=True), 1.0
    spin.on_message(now)
    for number in range(10 * MISSES_BEFORE_REST):
        now += SOON / 2
        spin.on_message(now)
        assert spin.until, number
        if number % MISSES_BEFORE_REST:
            spin.on_missed(now)
        else:
            spin.on_caught()
