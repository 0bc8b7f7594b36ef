"""Staying awake pays only where messages follow one another."""

from gandy.bus.io.vigil import MAX_VAIN, MOMENT, REST, SOON, Vigil


def test_messages_that_come_now_and_then_are_slept_for() -> None:
    vigil = Vigil(is_allowed=True)
    for now in (1.0, 1.0 + 2 * SOON, 1.0 + 4 * SOON):
        vigil.on_message(now)
        assert not vigil.until


def test_a_dialogue_is_watched_for_a_moment() -> None:
    vigil = Vigil(is_allowed=True)
    vigil.on_message(1.0)
    vigil.on_message(1.0 + SOON / 2)
    assert vigil.until == 1.0 + SOON / 2 + MOMENT
    vigil.on_end(was_vain=False, now=1.0 + SOON)
    assert not vigil.until


def test_one_processor_is_for_those_who_answer() -> None:
    vigil = Vigil(is_allowed=False)
    vigil.on_message(1.0)
    vigil.on_message(1.0)
    assert not vigil.until


def test_what_is_in_vain_is_given_up_for_a_while() -> None:
    vigil, now, awake = Vigil(is_allowed=True), 1.0, 0.0
    for _ in range(1000):  # a message each time that a vigil has just ended
        vigil.on_message(now)
        if vigil.until:
            awake += vigil.until - now
            now = vigil.until
            vigil.on_end(was_vain=True, now=now)
        now += SOON / 2
    assert awake <= (1 + (now - 1.0) / REST) * MAX_VAIN * MOMENT


def test_success_lets_it_go_on() -> None:
    vigil, now = Vigil(is_allowed=True), 1.0
    vigil.on_message(now)
    for number in range(10 * MAX_VAIN):
        now += SOON / 2
        vigil.on_message(now)
        assert vigil.until, number
        vigil.on_end(was_vain=number % MAX_VAIN != 0, now=now)
