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
    Hall,
    Note,
)

from gandy.doors.base import Door
from gandy.doors.roundrobin import door as roundrobin


@pytest.fixture
def hall() -> Hall:
    return Hall()


def test_it_is_a_door(hall: Hall) -> None:
    door: Door = hall.door
    door.on_connect(0.0)
    assert not door.outbox


# The server itself


def test_a_ping_is_answered_with_its_id(hall: Hall) -> None:
    client = hall.client()
    client.say(Note(PING, b"12345678"))
    assert client.hear() == [Note(PONG, b"12345678")]


def test_a_ping_over_several_hops_is_answered_the_way_that_it_came(hall: Hall) -> None:
    hall.client(b"proxy").say(Note(PING, b"1234", path=(b"far", b"near")))
    assert hall.client(b"proxy").hear() == [Note(PONG, b"1234", to=(b"near", b"far"))]


def test_what_makes_no_sense_is_counted_and_dropped(hall: Hall) -> None:
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
        hall.say(b"c", frames)
    assert hall.door.dropped.total() == len(nonsense)
    assert not hall.log
    hall.check_empty()


def test_a_request_without_a_command_is_dropped(hall: Hall) -> None:
    hall.client().say(Note(TRACKEXEC, b"1234"))
    assert hall.door.dropped == {"no command": 1}
    assert not hall.log


@pytest.mark.parametrize("command", [PONG, TRACKADDRESS])
def test_words_about_heartbeats_for_the_server_itself_change_nothing(hall: Hall, command: bytes) -> None:
    hall.client().say(Note(command, b"1234"))
    assert not hall.log
    assert not hall.door.dropped


def test_a_response_that_nobody_waits_for_is_dropped(hall: Hall) -> None:
    hall.worker()
    hall.client(b"w").say(Note(RESPONSE, b"1234"))
    hall.client(b"c").say(Note(RESPONSE, b"1234"))
    assert hall.door.dropped == {"response to nothing": 2}
    assert len(hall.log) == 1  # that of REGISTER


@pytest.mark.parametrize("code", [REGISTER, DEREGISTER, INCREMENT])
def test_words_of_workers_are_confirmed_where_that_is_wanted(hall: Hall, code: bytes) -> None:
    hall.client(b"w").track(code, b"2", id=b"1234")
    assert hall.client(b"w").hear() == [Note(RESPONSE, b"1234")]
    hall.client(b"w").execute(code, b"2")
    assert hall.client(b"w").hear() == []


def test_an_unknown_command_is_answered_with_a_failure_and_costs_no_slot(hall: Hall) -> None:
    worker, client = hall.worker(), hall.client()
    client.track(b"\x99", b"x", id=b"1234")
    client.execute(b"\x99", b"x")
    assert client.failures() == [(b"1234", "the command 0x99 is unknown here")]
    assert worker.take() == []
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


# Pass-through


def test_a_message_with_an_address_on_top_goes_there(hall: Hall) -> None:
    """Two-hop heartbeat: client -> server -> worker."""
    client, worker = hall.client(), hall.worker()
    number = client.ping(b"w")
    assert worker.hear() == [Note(PING, number, path=(b"c",))]
    worker.say(Note(PONG, number, to=(b"c",)))
    assert client.hear() == [Note(PONG, number, path=(b"w",))]


def test_addresses_are_taken_and_added_hop_by_hop(hall: Hall) -> None:
    """Further servers on both sides: each takes its own address from the top, and adds the sender at the end."""
    near, far = hall.client(b"near"), hall.client(b"far")
    near.say(Note(TRACKEXEC, b"1234", (b"mqs_more", b"x"), to=(b"far", b"beyond"), path=(b"origin",)))
    (note,) = far.hear()
    assert note == Note(TRACKEXEC, b"1234", (b"mqs_more", b"x"), to=(b"beyond",), path=(b"origin", b"near"))
    far.say(Note(RESPONSE, b"1234", (b"y",), to=(b"near", b"origin"), path=(b"beyond",)))
    assert near.hear() == [Note(RESPONSE, b"1234", (b"y",), to=(b"origin",), path=(b"beyond", b"far"))]
    far.say(Note(RESPONSE, b"1234", (b"y",), to=(b"near", b"origin"), path=(b"beyond",)))
    assert near.hear() == []
    assert hall.door.dropped == {"response to nothing": 1}


def test_a_worker_is_asked_for_more_of_its_stream_by_its_address_and_it_costs_no_slot(hall: Hall) -> None:
    client, worker = hall.client(), hall.worker()
    number = client.more(b"HANDLE", to=(b"w",))
    note = worker.take_one()
    assert note == Note(TRACKEXEC, number, (b"mqs_more", b"60:me", b"HANDLE", b"0"), path=(b"c",))
    assert hall.list() == [(b"w", 1)]
    worker.respond(note, b"packet")
    assert client.hear() == [Note(RESPONSE, number, (b"packet",), path=(b"w",))]
    worker.respond(note, b"packet")
    assert client.hear() == []


def test_the_same_id_passed_twice_gets_both_responses(hall: Hall) -> None:
    client, worker = hall.client(), hall.worker()
    for _ in range(2):
        client.track(b"mqs_more", id=b"same", to=(b"w",))
    for note in worker.take():
        worker.respond(note, b"packet")
    assert client.responses() == [(b"same", (b"packet",))] * 2
    worker.respond(note, b"packet")
    assert client.responses() == []


def test_track_address_and_exec_are_passed_and_nothing_is_kept_of_them(hall: Hall) -> None:
    client, worker = hall.client(), hall.worker()
    worker.say(Note(TRACKADDRESS, b"1234", (b"host",), to=(b"c",)))
    assert client.hear() == [Note(TRACKADDRESS, b"1234", (b"host",), path=(b"w",))]
    client.execute(PING, id=b"5678", to=(b"w",))
    note = worker.take_one()
    assert note == Note(EXEC, b"5678", (PING,), path=(b"c",))
    worker.respond(note)
    assert client.hear() == []


def test_a_response_must_come_from_the_peer_that_was_asked(hall: Hall) -> None:
    client, worker = hall.client(), hall.worker()
    number = client.track(b"mqs_more", to=(b"w",))
    hall.client(b"x").say(Note(RESPONSE, number, (b"forged",), to=(b"c",)))
    assert client.hear() == []
    worker.respond(worker.take_one())
    assert client.responses() == [(number, ())]


def test_passed_requests_are_remembered_up_to_a_limit(hall: Hall, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(roundrobin, "MAX_PASSED", 2)
    client, worker = hall.client(), hall.worker()
    ids = [client.track(b"mqs_more", to=(b"w",)) for _ in range(3)]
    for note in worker.take():
        worker.respond(note)
    assert [number for number, _ in client.responses()] == ids[1:]


def test_a_message_for_nobody_vanishes(hall: Hall) -> None:
    client = hall.client()
    hall.undeliverable.add(b"nobody")
    client.track(PING, to=(b"nobody",))
    assert not hall.log
    hall.check_empty()


# Ids


@pytest.mark.parametrize("number", [b"\x07", b"\x08", b"\x09", b"\x01", b"x", b"LMQv100", bytes(511)])
def test_ids_of_any_kind_and_length_mean_nothing_to_the_server(hall: Hall, number: bytes) -> None:
    client, worker = hall.client(), hall.worker()
    client.track(COPY, b"x", id=number)
    note = worker.take_one()
    assert note == Note(TRACKEXEC, number, (COPY, b"x"), path=(b"c",))
    worker.finish(note, b"y")
    assert client.hear() == [Note(RESPONSE, number, (b"y",), path=(b"w",))]
    assert hall.list() == [(b"w", 1)]
    hall.check_empty()


def test_an_id_of_512_bytes_is_refused(hall: Hall) -> None:
    worker = hall.worker()
    hall.client().track(COPY, id=bytes(512))
    assert worker.take() == []
    assert hall.door.dropped == {"too_long": 1}


def test_the_same_id_of_two_clients_is_two_calls(hall: Hall) -> None:
    first, second, worker = hall.client(b"c1"), hall.client(b"c2"), hall.worker(slots=2)
    first.track(COPY, b"1", id=b"same")
    second.track(COPY, b"2", id=b"same")
    for note in reversed(worker.take()):
        worker.finish(note, note.args[1])
    assert first.responses() == [(b"same", (b"1",))]
    assert second.responses() == [(b"same", (b"2",))]
    hall.check_empty()


def test_the_same_id_twice_of_one_client_is_two_calls(hall: Hall) -> None:
    client, one, two = hall.client(), hall.worker(b"w1", 2), hall.worker(b"w2", 1)
    for _ in range(3):
        client.track(COPY, id=b"same")
    for note in one.take():
        one.finish(note, b"1")
    two.finish(two.take_one(), b"2")
    assert client.responses() == [(b"same", (b"1",)), (b"same", (b"1",)), (b"same", (b"2",))]
    hall.check_empty()


def test_a_way_over_several_hops_is_part_of_who_asks(hall: Hall) -> None:
    proxy, worker = hall.client(b"proxy"), hall.worker(slots=2)
    proxy.say(Note(TRACKEXEC, b"same", (COPY, b"1"), path=(b"a",)))
    proxy.say(Note(TRACKEXEC, b"same", (COPY, b"2"), path=(b"b",)))
    first, second = worker.take()
    assert first.path == (b"a", b"proxy")
    worker.finish(second, b"2")
    worker.finish(first, b"1")
    assert proxy.hear() == [
        Note(RESPONSE, b"same", (b"2",), to=(b"b",), path=(b"w",)),
        Note(RESPONSE, b"same", (b"1",), to=(b"a",), path=(b"w",)),
    ]
    hall.check_empty()


def test_a_response_for_another_client_is_dropped(hall: Hall) -> None:
    client, worker = hall.client(), hall.worker()
    client.track(ONCE, id=b"1234")
    note = worker.take_one()
    worker.say(Note(RESPONSE, b"1234", (b"y",), to=(b"other",)))
    worker.say(Note(RESPONSE, b"1235", (b"y",), to=(b"c",)))
    hall.client(b"x").say(Note(RESPONSE, b"1234", (b"y",), to=(b"c",)))
    worker.say(Note(RESPONSE, b"1234", (b"y",)))
    assert hall.client(b"other").hear() == client.hear() == []
    assert hall.door.dropped == {"response to nothing": 4}
    worker.finish(note)
    assert client.responses() == [(b"1234", ())]


def test_a_second_response_is_dropped(hall: Hall) -> None:
    client, worker = hall.client(), hall.worker()
    client.track(COPY)
    note = worker.take_one()
    for _ in range(2):
        worker.respond(note, b"y")
    assert len(client.responses()) == 1


def test_a_failure_of_a_worker_is_passed_as_it_is(hall: Hall) -> None:
    client, worker = hall.client(), hall.worker()
    number = client.track(COPY)
    worker.finish(worker.take_one(), FAILURE, b"no", b"more")
    assert client.responses() == [(number, (FAILURE, b"no", b"more"))]


# Undelivered messages


def test_what_else_was_for_a_lost_worker_is_not_sent(hall: Hall) -> None:
    client, worker = hall.client(), hall.worker(slots=3)
    other = hall.worker(b"x", slots=3)
    hall.undeliverable.add(b"w")
    with hall.together():
        for _ in range(4):
            client.track(ONCE)
    assert hall.registry.workers.keys() == {"roundrobin/x"}
    assert len(other.take()) == 3
    assert worker.take() == []


def test_a_lost_peer_that_is_neither_worker_nor_client_changes_nothing(hall: Hall) -> None:
    hall.undeliverable.add(b"x")
    hall.client(b"x")
    hall.undeliverable.add(b"x")
    hall.say(b"x", Note(PING, b"1234").frames)
    hall.disconnect(b"x")
    assert not hall.log
