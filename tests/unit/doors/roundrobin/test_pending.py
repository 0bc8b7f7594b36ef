"""Requests that wait for a response."""

from math import inf

from gandy.doors.roundrobin.pending import PendingRequests


def test_a_request_waits_until_it_is_taken() -> None:
    requests = PendingRequests()
    requests.add(b"a", 5.0)
    assert b"a" in requests
    assert [requests.take(b"a"), requests.take(b"a")] == [True, False]
    assert b"a" not in requests


def test_requests_expire_in_order() -> None:
    requests = PendingRequests()
    assert requests.next_deadline() == inf
    for number, expires_at in ((b"late", 9.0), (b"soon", 5.0), (b"answered", 5.0)):
        requests.add(number, expires_at)
    requests.take(b"answered")
    assert requests.next_deadline() == 5.0
    assert requests.take_expired(4.9) == []
    assert requests.take_expired(5.0) == [b"soon"]
    assert requests.take_expired(9.0) == [b"late"]


def test_all_requests_are_taken_in_the_order_in_which_they_were_made() -> None:
    requests = PendingRequests()
    for number in (b"c", b"a", b"b"):
        requests.add(number, 5.0)
    assert requests.take_all() == [b"c", b"a", b"b"]
    assert requests.next_deadline() == inf
