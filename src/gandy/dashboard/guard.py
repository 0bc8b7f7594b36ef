"""Decides which requests may come in at all, by their headers: whom they are meant for, and which page sent them.

Against DNS rebinding, a request must name a host that the server was told it is. Against other pages, it must come from
our own page or from no page. Who sent it, `sessions` knows.
"""

import re
from collections.abc import Iterable
from http import HTTPStatus
from ipaddress import ip_address
from typing import Final

from gandy.dashboard.messages import HttpRefusal, HttpRequest

LOOPBACK_NAMES: Final = ("127.0.0.1", "localhost", "::1")
SAFE_METHODS: Final = frozenset({"GET", "HEAD"})
PAGE: Final = "/"  # the only path that other pages may link to

OWN_SITES: Final = frozenset({"", "same-origin", "none"})  # none: the user typed the address
_HOST: Final = re.compile(r"(\[[0-9a-fA-F:.]{2,45}\]|[A-Za-z0-9._-]{1,253})(:\d{1,5})?")


class Guard:
    """`check` raises HttpRefusal. `takes_addresses`: the server listens at all addresses, and any may be its name."""

    def __init__(self, names: Iterable[str], takes_addresses: bool = False) -> None:
        self._names = frozenset(name.lower() for name in names)
        self._takes_addresses = takes_addresses

    def check(self, request: HttpRequest) -> None:
        """Raises: HttpRefusal."""
        host = request.headers.get("host", "").lower()
        if not self._is_ours(host):
            names = ", ".join(sorted(self._names))
            text = f"this is not the server of {host!r}, but of {names}; 'gandy dashboard --host NAME' adds a name"
            raise HttpRefusal(HTTPStatus.MISDIRECTED_REQUEST, "misdirected", text)
        if not _is_navigation(request) and not _is_from_own_page(request, host):
            raise HttpRefusal(
                HTTPStatus.FORBIDDEN, "other_origin", "the request comes from another page than the dashboard"
            )

    def _is_ours(self, host: str) -> bool:
        found = _HOST.fullmatch(host)
        if found is None:
            return False
        name = found[1].strip("[]")
        return name in self._names or (self._takes_addresses and _is_address(name))


def _is_address(name: str) -> bool:
    """True for an IP: an attacker's page has a name, which it can rebind, but never an address."""
    try:
        ip_address(name)
    except ValueError:
        return False
    return True


def _is_navigation(request: HttpRequest) -> bool:
    """True if the user follows a link to the page itself, which says nothing and changes nothing by being opened."""
    mode = request.headers.get("sec-fetch-mode", "")
    return request.method in SAFE_METHODS and request.path == PAGE and mode == "navigate"


def _is_from_own_page(request: HttpRequest, host: str) -> bool:
    """True if our own page sent it, or no page. The scheme may differ: a proxy may speak TLS for us."""
    origin = request.headers.get("origin")
    is_own_origin = origin is None or origin.lower() in (f"http://{host}", f"https://{host}")
    return is_own_origin and request.headers.get("sec-fetch-site", "") in OWN_SITES


def check_change(request: HttpRequest) -> None:
    """A form of another page can send neither this header nor this type. Raises: HttpRefusal."""
    if request.headers.get("x-gandy") != "1":
        raise HttpRefusal(
            HTTPStatus.FORBIDDEN, "no_header", "a request that changes something needs the header 'X-Gandy: 1'"
        )
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        raise HttpRefusal(HTTPStatus.UNSUPPORTED_MEDIA_TYPE, "bad_request", "the content type must be application/json")
