"""Requests that wait for a response."""

from collections import deque
from math import inf

from gandy.doors.roundrobin.heartbeat import Heartbeat
from gandy.doors.roundrobin.message_ids import MessageIds
from gandy.doors.roundrobin.pending import PendingRequests
from gandy.doors.roundrobin.server_outbox import ServerOutbox
from gandy.doors.roundrobin.uplink_events import Event, Expired, Response
from gandy.doors.roundrobin.wire import RESPONSE, QueueMessage


def make_requests() -> tuple[PendingRequests, deque[Event]]:
    ids, events = MessageIds(), deque[Event]()
    return PendingRequests(ids, ServerOutbox(Heartbeat(0.0, ids)), events), events


def ask(requests: PendingRequests, timeout: float) -> bytes:
    return requests.send(b"\x20", now=0.0, timeout=timeout)


def test_a_request_waits_until_it_is_forgotten() -> None:
    requests, _ = make_requests()
    number = ask(requests, 5.0)
    assert number in requests
    assert [requests.forget(number), requests.forget(number)] == [True, False]
    assert number not in requests


def test_a_response_ends_its_request_and_no_other() -> None:
    requests, events = make_requests()
    number, other = ask(requests, 5.0), ask(requests, 5.0)
    response = QueueMessage(RESPONSE, number, (b"yes",))
    assert [requests.on_response(response), requests.on_response(response)] == [True, False]
    assert list(events) == [Response(number, (b"yes",), ())]
    assert other in requests


def test_requests_expire_in_order() -> None:
    requests, events = make_requests()
    assert requests.next_deadline() == inf
    late, soon, answered = ask(requests, 9.0), ask(requests, 5.0), ask(requests, 5.0)
    requests.forget(answered)
    assert requests.next_deadline() == 5.0
    for now, expired in ((4.9, []), (5.0, [soon]), (9.0, [soon, late])):
        requests.on_time(now)
        assert list(events) == [Expired(number, "no answer came in time") for number in expired]


def test_with_the_server_all_requests_are_lost_in_the_order_in_which_they_were_made() -> None:
    requests, events = make_requests()
    numbers = [ask(requests, timeout) for timeout in (5.0, 3.0, 4.0)]
    requests.on_lost()
    assert list(events) == [Expired(number, "the server was lost") for number in numbers]
    assert requests.next_deadline() == inf
