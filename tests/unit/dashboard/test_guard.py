"""Which requests may come in, by their headers alone."""

import pytest

from gandy.dashboard.guard import LOOPBACK_NAMES, Guard, check_change
from gandy.dashboard.messages import HttpRefusal, HttpRequest


def a_request(path: str = "/api/crew", method: str = "GET", **headers: str) -> HttpRequest:
    named = {name.replace("_", "-").lower(): value for name, value in headers.items()}
    return HttpRequest(method, path, "", {"host": "localhost:5430", **named})


def find_status(guard: Guard, request: HttpRequest) -> int:
    try:
        guard.check(request)
    except HttpRefusal as refused:
        return refused.status
    return 200


@pytest.mark.parametrize(
    "host", ["", "evil", "localhost.", "localhost:", "localhost:x", "[::1", "::1", "a b", "localhost/x"]
)
def test_host_must_be_ours(host: str) -> None:
    assert find_status(Guard(LOOPBACK_NAMES), a_request(host=host)) == 421


def test_any_address_is_ours_if_we_listen_at_all_of_them() -> None:
    """An attacker's page has a name, never an address."""
    everywhere = Guard(LOOPBACK_NAMES, takes_addresses=True)
    for host in ("10.0.0.7:5430", "[2001:db8::1]:5430", "192.168.1.1"):
        assert find_status(everywhere, a_request(host=host)) == 200
        assert find_status(Guard(LOOPBACK_NAMES), a_request(host=host)) == 421
    for host in ("evil.example", "10.0.0.7.evil.example", "0x7f000001.evil"):
        assert find_status(everywhere, a_request(host=host)) == 421


def test_origin_is_that_of_the_host_that_was_asked() -> None:
    guard = Guard((*LOOPBACK_NAMES, "hut.example"))
    own = {"host": "hut.example", "origin": "https://hut.example"}
    assert find_status(guard, a_request(**own)) == 200
    assert find_status(guard, a_request(**{**own, "origin": "https://hut.example:444"})) == 403
    assert find_status(guard, a_request(**{**own, "origin": "ftp://hut.example"})) == 403
    assert find_status(guard, a_request(**{**own, "origin": ""})) == 403


def test_only_the_page_itself_may_be_navigated_to_from_elsewhere() -> None:
    guard = Guard(LOOPBACK_NAMES)
    link = {"sec_fetch_site": "cross-site", "sec_fetch_mode": "navigate"}
    assert find_status(guard, a_request("/", **link)) == 200
    assert find_status(guard, a_request("/index.html", **link)) == 403
    assert find_status(guard, a_request("/api/crew", **link)) == 403
    assert find_status(guard, a_request("/", "POST", **link)) == 403
    assert find_status(guard, a_request("/", sec_fetch_site="cross-site", sec_fetch_mode="no-cors")) == 403


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 403),
        ({"content_type": "application/json"}, 403),
        ({"x_gandy": "1"}, 415),
        ({"x_gandy": "1", "content_type": "text/plain; application/json"}, 415),
    ],
)
def test_changes_need_what_forms_cannot_send(headers: dict[str, str], status: int) -> None:
    with pytest.raises(HttpRefusal) as refused:
        check_change(a_request("/api/jobs", "POST", **headers))
    assert refused.value.status == status
    check_change(a_request("/api/jobs", "POST", x_gandy="1", content_type="Application/JSON; charset=utf-8"))


def test_body_may_be_compressed_only_as_the_browser_says() -> None:
    assert a_request(accept_encoding="gzip, deflate, br").accepts_encoding("deflate")
    assert a_request(accept_encoding="GZIP;q=0.5").accepts_encoding("gzip")
    assert not a_request(accept_encoding="gzip;q=0, deflate ; q=0.000").accepts_encoding("gzip")
    assert not a_request(accept_encoding="deflate;q=0.00").accepts_encoding("deflate")
    assert not a_request(accept_encoding="xgzip").accepts_encoding("gzip")
    assert not a_request().accepts_encoding("gzip")
