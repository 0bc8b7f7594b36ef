"""Workers that left the round-robin door without a word: how that is noticed, and how they come back."""

import pytest
from tests.roundrobin import (
    COPY,
    EXEC,
    FAILURE,
    ONCE,
    PING,
    RESPONSE,
    TRACKEXEC,
    Client,
    DoorHarness,
    PlainMessage,
)

from gandy.doors.roundrobin import lost_workers
from gandy.doors.roundrobin.limits import MAX_LOST_WORKERS
from gandy.doors.roundrobin.lost_workers import REMEMBER
from gandy.doors.roundrobin.worker_calls import EXPIRY
from gandy.doors.roundrobin.workers import IDLE

# Lost workers


def silence(harness: DoorHarness, seconds: float) -> None:
    """No peer says a word."""
    harness.pass_time(seconds)


def test_repeatable_calls_of_a_lost_worker_are_served_elsewhere(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=10)
    ids = [client.track(PING) for _ in range(5)] + [client.track(COPY) for _ in range(5)]
    assert len(worker.take()) == 10
    worker.vanish()
    assert harness.registry.workers == {}
    other = harness.worker(b"x", 10)
    messages = other.take()
    assert [message.id for message in messages] == ids
    for message in messages:
        other.finish(message)
    assert [number for number, _ in client.responses()] == ids
    harness.check_empty()


def test_other_calls_of_a_lost_worker_are_answered_with_a_failure(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=10)
    ids = [client.track(ONCE) for _ in range(10)]
    client.execute(ONCE)
    worker.take()
    worker.vanish()
    text = "worker roundrobin/w was lost while it had the call"
    assert client.failures() == [(number, text) for number in ids]
    other = harness.worker(b"x", 10)
    assert [message.command for message in other.take()] == [EXEC]  # it waited when the worker was lost
    other.increment()
    harness.check_empty()


def test_casts_of_a_lost_worker_are_lost_unless_they_are_repeatable(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=2)
    client.execute(ONCE)
    number = client.execute(COPY)
    assert len(worker.take()) == 2
    worker.vanish()
    other = harness.worker(b"x", 2)
    assert other.take_one().id == number
    other.increment()
    assert client.hear() == []
    harness.check_empty()


def test_what_never_reached_a_worker_is_served_elsewhere_even_if_not_repeatable(
    harness: DoorHarness, client: Client
) -> None:
    worker = harness.worker(slots=3)
    lost = client.track(ONCE)
    worker.take_one()
    harness.undeliverable.add(b"w")
    with harness.together():
        ids = [client.track(ONCE), client.execute(ONCE)]
    assert client.failures() == [(lost, "worker roundrobin/w was lost while it had the call")]
    other = harness.worker(b"x", 3)
    messages = other.take()
    assert sorted(message.id for message in messages) == ids
    for message in messages:
        other.finish(message)
    assert client.responses() == [(ids[0], ())]
    harness.check_empty()


def test_a_call_that_reached_its_second_worker_has_begun(harness: DoorHarness, client: Client) -> None:
    harness.worker(b"w")
    harness.undeliverable.add(b"w")
    number = client.track(ONCE)
    worker = harness.worker(b"x")
    assert worker.take_one().id == number
    worker.vanish()
    assert client.failures() == [(number, "worker roundrobin/x was lost while it had the call")]
    harness.check_empty()


def test_what_waits_is_not_lost_with_a_worker_that_has_no_slot_for_it(harness: DoorHarness, client: Client) -> None:
    harness.worker(slots=1)
    harness.undeliverable.add(b"w")
    with harness.together():
        ids = [client.track(ONCE) for _ in range(3)]
    assert client.responses() == []
    assert sorted(message.id for message in harness.worker(b"x", 3).take()) == ids


def test_however_many_workers_are_gone_an_undelivered_call_is_served_at_last(
    harness: DoorHarness, client: Client
) -> None:
    for name in range(20):
        harness.worker(b"w%d" % name)
        harness.undeliverable.add(b"w%d" % name)
    number = client.track(COPY)
    assert harness.registry.workers == {}
    worker = harness.worker(b"x")
    assert worker.take_one().id == number
    worker.vanish()  # this one may have begun it, which is the first try
    other = harness.worker(b"y")
    other.finish(other.take_one())
    assert client.responses() == [(number, ())]


def test_a_call_whose_workers_are_lost_again_and_again_is_given_up(harness: DoorHarness, client: Client) -> None:
    number = client.track(COPY)
    tries = 0
    while not (responses := client.responses()):
        worker = harness.worker(b"w%d" % tries)
        assert worker.take_one().id == number
        worker.vanish()
        tries += 1
    assert tries == 6
    assert responses[0][1][0] == FAILURE
    harness.check_empty()


def test_a_call_that_was_not_handed_over_when_its_worker_was_lost_has_never_begun(
    harness: DoorHarness, client: Client
) -> None:
    worker, other = harness.worker(b"w"), harness.worker(b"x")
    with harness.together():
        number = client.track(ONCE)
        harness.door.workers.lose(b"w", (), harness.now)
    assert worker.take() == []
    assert other.take_one().id == number


def test_a_silent_worker_is_asked_and_then_lost(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    worker.ping()
    worker.hear()
    number = client.track(ONCE)
    assert worker.take_one().id == number
    silence(harness, EXPIRY / 3 - 1)
    assert worker.hear() == []
    silence(harness, 1)
    assert [message.command for message in worker.hear()] == [PING]
    silence(harness, EXPIRY)
    assert {message.command for message in worker.hear()} == {PING}
    assert len(client.failures()) == 1
    assert harness.list() == []


def test_a_worker_that_answers_is_not_lost_however_long_it_works(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    number = client.track(ONCE)
    message = worker.take_one()
    for _ in range(100):
        silence(harness, EXPIRY / 2)
        worker.pong()
    worker.finish(message)
    assert client.responses() == [(number, ())]


def test_an_idle_worker_is_asked_seldom(harness: DoorHarness) -> None:
    worker = harness.worker()
    worker.ping()
    worker.hear()
    silence(harness, IDLE)
    assert worker.hear() == []
    silence(harness, EXPIRY / 3)
    worker.pong()
    silence(harness, IDLE + EXPIRY - 1)
    assert harness.list() == [(b"w", 1)]
    silence(harness, 1)
    assert harness.list() == []


def test_a_worker_that_was_idle_for_long_is_not_lost_with_its_next_call(harness: DoorHarness, client: Client) -> None:
    """Its silence before is no silence about the call."""
    worker = harness.worker()
    worker.ping()
    worker.hear()
    silence(harness, IDLE - 5)
    number = client.track(ONCE)
    message = worker.take_one()
    silence(harness, 3)
    worker.finish(message)
    assert client.responses() == [(number, ())]


def test_a_foreman_that_was_stopped_for_long_asks_before_it_gives_workers_up(
    harness: DoorHarness, client: Client
) -> None:
    worker = harness.worker()
    worker.ping()
    worker.hear()
    number = client.track(ONCE)
    message = worker.take_one()
    harness.pass_time(1000, step=1000)
    worker.finish(message)
    assert client.responses() == [(number, ())]


def test_a_worker_that_never_spoke_of_pings_is_not_lost_for_its_silence(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    number = client.track(ONCE)
    message = worker.take_one()
    silence(harness, 1000)
    assert {question.command for question in worker.hear()} == {PING}
    worker.finish(message)
    assert client.responses() == [(number, ())]
    harness.undeliverable.add(b"w")
    silence(harness, 1000)
    assert harness.list() == []  # but for a question that reaches no worker


def test_a_lost_worker_that_speaks_again_is_registered_again(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker(slots=7)
    worker.ping()
    worker.vanish()
    assert harness.list() == []
    harness.connect(b"w")
    harness.pass_time(1.0)
    assert [message.command for message in worker.hear()][-1] == PING
    worker.ping()
    assert harness.list() == [(b"w", 7)]
    number = client.track(COPY)
    assert [message.id for message in worker.hear() if message.command == TRACKEXEC] == [number]


def test_a_lost_worker_that_registers_has_the_slots_that_it_tells(harness: DoorHarness, client: Client) -> None:
    """Not those of before, even for a moment: calls wait."""
    worker = harness.worker(slots=7)
    worker.vanish()
    for _ in range(10):
        client.track(COPY)
    worker.register(2)
    assert len(worker.take()) == 2
    assert harness.list() == [(b"w", 0)]


@pytest.mark.parametrize("to", [(), (b"c",)])
def test_whatever_else_a_lost_worker_says_brings_it_back(harness: DoorHarness, to: tuple[bytes, ...]) -> None:
    """Also a value that looks like a word about itself."""
    worker = harness.worker(slots=7)
    worker.vanish()
    worker.say(PlainMessage(RESPONSE, b"1234", (b"\x08", b"1"), to))
    assert harness.list() == [(b"w", 7)]


def test_a_lost_worker_that_deregisters_stays_away(harness: DoorHarness) -> None:
    worker = harness.worker()
    worker.vanish()
    worker.deregister()
    worker.ping()
    assert harness.list() == []


def test_a_worker_that_was_leaving_is_not_expected_back(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    client.track(ONCE)
    worker.deregister()
    worker.vanish()
    worker.ping()
    assert harness.list() == []
    assert len(client.failures()) == 1


def test_lost_workers_are_remembered_for_a_while(harness: DoorHarness) -> None:
    worker = harness.worker()
    worker.vanish()
    assert harness.door.workers.list_slots() == {b"w": 1}
    silence(harness, REMEMBER)
    assert harness.door.workers.list_slots() == {}
    worker.ping()
    assert harness.list() == []


def test_so_many_lost_workers_are_remembered(harness: DoorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    assert MAX_LOST_WORKERS >= 2
    monkeypatch.setattr(lost_workers, "MAX_LOST_WORKERS", 2)
    for name in (b"a", b"b", b"c"):
        harness.worker(name).vanish()
    assert list(harness.door.workers.lost.list_slots()) == [b"b", b"c"]


def test_a_hint_about_a_peer_that_is_still_there_does_no_harm(harness: DoorHarness, client: Client) -> None:
    worker = harness.worker()
    harness.door.on_disconnect(b"w", harness.now)
    harness.settle()
    assert [message.command for message in worker.hear()] == [PING]
    harness.door.on_disconnect(b"x", harness.now)
    harness.settle()
    assert harness.list() == [(b"w", 1)]


def test_every_change_is_reported(harness: DoorHarness, client: Client) -> None:
    changes: list[dict[bytes, int]] = []
    workers = harness.door.workers
    workers.on_change = lambda: changes.append(workers.list_slots())
    worker = harness.worker(slots=1)
    assert changes[-1] == {b"w": 1}
    worker.register(2)
    assert changes[-1] == {b"w": 2}
    worker.vanish()
    assert changes[-1] == {b"w": 2}
    worker.register(3)
    client.track(COPY)
    worker.deregister()
    assert changes[-1] == {}
    worker.register(4)
    harness.dismiss("roundrobin/w", immediate=True)
    assert changes[-1] == {}
