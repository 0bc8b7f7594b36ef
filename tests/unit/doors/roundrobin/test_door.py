"""The round-robin door at a real switchboard, with workers and clients played by hand."""

import pytest
from tests.roundrobin import (
    COPY,
    DEREGISTER,
    EXEC,
    FAILURE,
    INCREMENT,
    ONCE,
    PING,
    PONG,
    REGISTER,
    RESPONSE,
    TRACKADDRESS,
    TRACKEXEC,
    DoorHarness,
    PlainMessage,
)

from gandy.doors.base import Door
from gandy.doors.roundrobin import door as roundrobin


def test_it_is_a_door(harness: DoorHarness) -> None:
    door: Door = harness.door
    door.on_connect(0.0)
    assert not door.outbox


# The server itself


def test_a_ping_is_answered_with_its_id(harness: DoorHarness) -> None:
    client = harness.client()
    client.say(PlainMessage(PING, b"12345678"))
    assert client.hear() == [PlainMessage(PONG, b"12345678")]


def test_a_ping_over_several_hops_is_answered_the_way_that_it_came(harness: DoorHarness) -> None:
    harness.client(b"proxy").say(PlainMessage(PING, b"1234", path=(b"far", b"near")))
    assert harness.client(b"proxy").hear() == [PlainMessage(PONG, b"1234", to=(b"near", b"far"))]


def test_what_makes_no_sense_is_counted_and_dropped(harness: DoorHarness) -> None:
    nonsense: list[list[bytes]] = [
        [],
        [b""],
        [b"", b"LMQv100", PING, b"id"],
        [b"", b"LMQv100", b""],
        [b"", b"LMQv101", PING, b"id", b""],
        [b"", b"LMQv100", b"\x0b", b"id", b""],
        [b"", b"LMQv100", PING, bytes(512), b""],
        [b"", b"LMQv100", PING, b"id", b"", b"a", b""],
    ]
    for frames in nonsense:
        harness.say(b"c", frames)
    assert harness.door.dropped.total() == len(nonsense)
    assert not harness.log
    harness.check_empty()


def test_a_request_without_a_command_is_dropped(harness: DoorHarness) -> None:
    harness.client().say(PlainMessage(TRACKEXEC, b"1234"))
    assert harness.door.dropped == {"no command": 1}
    assert not harness.log


@pytest.mark.parametrize("command", [PONG, TRACKADDRESS])
def test_words_about_heartbeats_for_the_server_itself_change_nothing(harness: DoorHarness, command: bytes) -> None:
    harness.client().say(PlainMessage(command, b"1234"))
    assert not harness.log
    assert not harness.door.dropped


def test_a_response_to_nothing_is_dropped(harness: DoorHarness) -> None:
    harness.worker()
    harness.client(b"w").say(PlainMessage(RESPONSE, b"1234"))
    harness.client(b"c").say(PlainMessage(RESPONSE, b"1234"))
    assert harness.door.dropped == {"response to nothing": 2}
    assert len(harness.log) == 1  # that of REGISTER


@pytest.mark.parametrize("code", [REGISTER, DEREGISTER, INCREMENT])
def test_words_of_workers_are_confirmed_where_that_is_wanted(harness: DoorHarness, code: bytes) -> None:
    harness.client(b"w").track(code, b"2", id=b"1234")
    assert harness.client(b"w").hear() == [PlainMessage(RESPONSE, b"1234")]
    harness.client(b"w").execute(code, b"2")
    assert harness.client(b"w").hear() == []


def test_an_unknown_command_is_answered_with_a_failure_and_costs_no_slot(harness: DoorHarness) -> None:
    worker, client = harness.worker(), harness.client()
    client.track(b"\x99", b"x", id=b"1234")
    client.execute(b"\x99", b"x")
    assert client.failures() == [(b"1234", "unknown command 0x99")]
    assert worker.take() == []
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


# Pass-through


def test_a_message_with_an_address_on_top_goes_there(harness: DoorHarness) -> None:
    """Two-hop heartbeat: client -> server -> worker."""
    client, worker = harness.client(), harness.worker()
    number = client.ping(b"w")
    assert worker.hear() == [PlainMessage(PING, number, path=(b"c",))]
    worker.say(PlainMessage(PONG, number, to=(b"c",)))
    assert client.hear() == [PlainMessage(PONG, number, path=(b"w",))]


def test_addresses_are_taken_and_added_hop_by_hop(harness: DoorHarness) -> None:
    """Further servers on both sides: each takes its own address from the top, and adds the sender at the end."""
    near, far = harness.client(b"near"), harness.client(b"far")
    near.say(PlainMessage(TRACKEXEC, b"1234", (b"mqs_more", b"x"), to=(b"far", b"beyond"), path=(b"origin",)))
    (message,) = far.hear()
    assert message == PlainMessage(TRACKEXEC, b"1234", (b"mqs_more", b"x"), to=(b"beyond",), path=(b"origin", b"near"))
    far.say(PlainMessage(RESPONSE, b"1234", (b"y",), to=(b"near", b"origin"), path=(b"beyond",)))
    assert near.hear() == [PlainMessage(RESPONSE, b"1234", (b"y",), to=(b"origin",), path=(b"beyond", b"far"))]
    far.say(PlainMessage(RESPONSE, b"1234", (b"y",), to=(b"near", b"origin"), path=(b"beyond",)))
    assert near.hear() == []
    assert harness.door.dropped == {"response to nothing": 1}


def test_a_worker_is_asked_for_more_of_its_stream_by_its_address_and_it_costs_no_slot(harness: DoorHarness) -> None:
    client, worker = harness.client(), harness.worker()
    number = client.more(b"HANDLE", to=(b"w",))
    message = worker.take_one()
    assert message == PlainMessage(TRACKEXEC, number, (b"mqs_more", b"60:me", b"HANDLE", b"0"), path=(b"c",))
    assert harness.list() == [(b"w", 1)]
    worker.respond(message, b"packet")
    assert client.hear() == [PlainMessage(RESPONSE, number, (b"packet",), path=(b"w",))]
    worker.respond(message, b"packet")
    assert client.hear() == []


def test_the_same_id_passed_twice_gets_both_responses(harness: DoorHarness) -> None:
    client, worker = harness.client(), harness.worker()
    for _ in range(2):
        client.track(b"mqs_more", id=b"same", to=(b"w",))
    for message in worker.take():
        worker.respond(message, b"packet")
    assert client.responses() == [(b"same", (b"packet",))] * 2
    worker.respond(message, b"packet")
    assert client.responses() == []


def test_track_address_and_exec_are_passed_and_nothing_is_kept_of_them(harness: DoorHarness) -> None:
    client, worker = harness.client(), harness.worker()
    worker.say(PlainMessage(TRACKADDRESS, b"1234", (b"host",), to=(b"c",)))
    assert client.hear() == [PlainMessage(TRACKADDRESS, b"1234", (b"host",), path=(b"w",))]
    client.execute(PING, id=b"5678", to=(b"w",))
    message = worker.take_one()
    assert message == PlainMessage(EXEC, b"5678", (PING,), path=(b"c",))
    worker.respond(message)
    assert client.hear() == []


def test_a_response_must_come_from_the_peer_that_was_asked(harness: DoorHarness) -> None:
    client, worker = harness.client(), harness.worker()
    number = client.track(b"mqs_more", to=(b"w",))
    harness.client(b"x").say(PlainMessage(RESPONSE, number, (b"forged",), to=(b"c",)))
    assert client.hear() == []
    worker.respond(worker.take_one())
    assert client.responses() == [(number, ())]


def test_passed_requests_are_remembered_up_to_a_limit(harness: DoorHarness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roundrobin, "MAX_PASSED_REQUESTS", 2)
    client, worker = harness.client(), harness.worker()
    ids = [client.track(b"mqs_more", to=(b"w",)) for _ in range(3)]
    for message in worker.take():
        worker.respond(message)
    assert [number for number, _ in client.responses()] == ids[1:]


def test_a_message_for_an_unknown_peer_vanishes(harness: DoorHarness) -> None:
    client = harness.client()
    harness.undeliverable.add(b"nobody")
    client.track(PING, to=(b"nobody",))
    assert not harness.log
    harness.check_empty()


# Ids


@pytest.mark.parametrize("number", [b"\x07", b"\x08", b"\x09", b"\x01", b"x", b"LMQv100", bytes(511)])
def test_ids_of_any_kind_and_length_mean_nothing_to_the_server(harness: DoorHarness, number: bytes) -> None:
    client, worker = harness.client(), harness.worker()
    client.track(COPY, b"x", id=number)
    message = worker.take_one()
    assert message == PlainMessage(TRACKEXEC, number, (COPY, b"x"), path=(b"c",))
    worker.finish(message, b"y")
    assert client.hear() == [PlainMessage(RESPONSE, number, (b"y",), path=(b"w",))]
    assert harness.list() == [(b"w", 1)]
    harness.check_empty()


def test_an_id_of_512_bytes_is_refused(harness: DoorHarness) -> None:
    worker = harness.worker()
    harness.client().track(COPY, id=bytes(512))
    assert worker.take() == []
    assert harness.door.dropped == {"too_long": 1}


def test_the_same_id_of_two_clients_is_two_calls(harness: DoorHarness) -> None:
    first, second, worker = harness.client(b"c1"), harness.client(b"c2"), harness.worker(slots=2)
    first.track(COPY, b"1", id=b"same")
    second.track(COPY, b"2", id=b"same")
    for message in reversed(worker.take()):
        worker.finish(message, message.args[1])
    assert first.responses() == [(b"same", (b"1",))]
    assert second.responses() == [(b"same", (b"2",))]
    harness.check_empty()


def test_the_same_id_twice_of_one_client_is_two_calls(harness: DoorHarness) -> None:
    client, one, two = harness.client(), harness.worker(b"w1", 2), harness.worker(b"w2", 1)
    for _ in range(3):
        client.track(COPY, id=b"same")
    for message in one.take():
        one.finish(message, b"1")
    two.finish(two.take_one(), b"2")
    assert client.responses() == [(b"same", (b"1",)), (b"same", (b"1",)), (b"same", (b"2",))]
    harness.check_empty()


def test_a_way_over_several_hops_is_part_of_who_asks(harness: DoorHarness) -> None:
    proxy, worker = harness.client(b"proxy"), harness.worker(slots=2)
    proxy.say(PlainMessage(TRACKEXEC, b"same", (COPY, b"1"), path=(b"a",)))
    proxy.say(PlainMessage(TRACKEXEC, b"same", (COPY, b"2"), path=(b"b",)))
    first, second = worker.take()
    assert first.path == (b"a", b"proxy")
    worker.finish(second, b"2")
    worker.finish(first, b"1")
    assert proxy.hear() == [
        PlainMessage(RESPONSE, b"same", (b"2",), to=(b"b",), path=(b"w",)),
        PlainMessage(RESPONSE, b"same", (b"1",), to=(b"a",), path=(b"w",)),
    ]
    harness.check_empty()


def test_a_response_for_another_client_is_dropped(harness: DoorHarness) -> None:
    client, worker = harness.client(), harness.worker()
    client.track(ONCE, id=b"1234")
    message = worker.take_one()
    worker.say(PlainMessage(RESPONSE, b"1234", (b"y",), to=(b"other",)))
    worker.say(PlainMessage(RESPONSE, b"1235", (b"y",), to=(b"c",)))
    harness.client(b"x").say(PlainMessage(RESPONSE, b"1234", (b"y",), to=(b"c",)))
    worker.say(PlainMessage(RESPONSE, b"1234", (b"y",)))
    assert harness.client(b"other").hear() == client.hear() == []
    assert harness.door.dropped == {"response to nothing": 4}
    worker.finish(message)
    assert client.responses() == [(b"1234", ())]


def test_a_second_response_is_dropped(harness: DoorHarness) -> None:
    client, worker = harness.client(), harness.worker()
    client.track(COPY)
    message = worker.take_one()
    for _ in range(2):
        worker.respond(message, b"y")
    assert len(client.responses()) == 1


def test_a_failure_of_a_worker_is_passed_as_it_is(harness: DoorHarness) -> None:
    client, worker = harness.client(), harness.worker()
    number = client.track(COPY)
    worker.finish(worker.take_one(), FAILURE, b"no", b"more")
    assert client.responses() == [(number, (FAILURE, b"no", b"more"))]


# Undelivered messages


def test_what_else_was_for_a_lost_worker_is_not_sent(harness: DoorHarness) -> None:
    client, worker = harness.client(), harness.worker(slots=3)
    other = harness.worker(b"x", slots=3)
    harness.undeliverable.add(b"w")
    with harness.together():
        for _ in range(4):
            client.track(ONCE)
    assert harness.registry.workers.keys() == {"roundrobin/x"}
    assert len(other.take()) == 3
    assert worker.take() == []


def test_a_lost_peer_that_is_neither_worker_nor_client_changes_nothing(harness: DoorHarness) -> None:
    harness.undeliverable.add(b"x")
    harness.client(b"x")
    harness.undeliverable.add(b"x")
    harness.say(b"x", PlainMessage(PING, b"1234").frames)
    harness.disconnect(b"x")
    assert not harness.log
