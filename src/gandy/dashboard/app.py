"""Answers requests: who sent it, whether it may come in, and the handler that answers it."""

from collections.abc import Sequence
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from typing import Any, Final
from urllib.parse import parse_qs

from gandy.clocks import read_monotonic
from gandy.dashboard.api.table import HEALTH, METRICS
from gandy.dashboard.connection import HttpExchange
from gandy.dashboard.crew import ShownCrew
from gandy.dashboard.endpoints import ApiTable, Endpoint, Found, make_call
from gandy.dashboard.gate import count_request
from gandy.dashboard.guard import OWN_SITES, PAGE, Guard, check_change
from gandy.dashboard.limits import MAX_SESSION_STREAMS, MAX_STREAMS
from gandy.dashboard.messages import HTML, HttpRefusal, HttpRequest, HttpResponse, Streaming, make_json
from gandy.dashboard.page_files import make_page, read_page_file
from gandy.dashboard.refusals import refuse
from gandy.dashboard.sessions import Session, Sessions
from gandy.errors import GandyError

API: Final = "/api/"

POLICY: Final = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
)
SECURITY: Final = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
NO_STORE: Final = {"Cache-Control": "no-store"}

WHAT_TO_TYPE: Final = (
    "This browser has not shown a token yet. Look at the terminal in which 'gandy dashboard' runs: it printed an "
    "address with a token. Each address works once; the last one is the one to open."
)


class App:
    """`admit` looks at the head of a request; the exchange that it returns answers it."""

    def __init__(
        self,
        crew: ShownCrew,
        guard: Guard,
        sessions: Sessions,
        endpoints: Sequence[Endpoint],
        *,
        cookie: str,
        is_secure: bool = False,
        has_open_metrics: bool = False,
    ) -> None:
        """`cookie`: its name. `is_secure`: browsers send it over TLS only."""
        self.crew = crew
        self._guard = guard
        self._sessions = sessions
        self._endpoints = ApiTable(endpoints)
        self.cookie = cookie
        self._is_secure = is_secure
        self._open = {HEALTH, METRICS} if has_open_metrics else {HEALTH}

    def admit(self, request: HttpRequest) -> HttpExchange | HttpResponse:
        """Raises: HttpRefusal."""
        self._guard.check(request)
        if request.path == PAGE and "token=" in request.query:
            return self._use_token(request)
        session = self._find_session(request)
        if session is None and request.path not in self._open:
            return self._refuse_stranger(request)
        found = self._find_endpoint(request)
        return _Exchange(self, request, session, found)

    def _find_endpoint(self, request: HttpRequest) -> Found | None:
        """None: the request is for a file of the page. Raises: HttpRefusal."""
        if not request.path.startswith(API) and request.path not in (HEALTH, METRICS):
            return None
        found = self._endpoints.find(request)
        if found.endpoint.changes:
            check_change(request)
        return found

    def finish(self, _request: HttpRequest, response: HttpResponse) -> HttpResponse:
        cache = NO_STORE if "Cache-Control" not in response.headers else {}
        return response._replace(headers={**SECURITY, **cache, **response.headers})

    # Who sent it

    def _use_token(self, request: HttpRequest) -> HttpResponse:
        """HttpExchange a token in the address for a cookie, so that it is in the address no more."""
        token = parse_qs(request.query, errors="replace").get("token", [""])[-1]
        secret = self._sessions.open_browser(token)
        if secret is None:
            is_known = self._find_browser(request) is not None  # the user opened the same address again
            return _lead_to_page(request, {}) if is_known else self._refuse_stranger(request)
        secure = "; Secure" if self._is_secure else ""
        cookie = f"{self.cookie}={secret}; HttpOnly; SameSite=Strict; Path=/{secure}"
        return _lead_to_page(request, {"Set-Cookie": cookie})

    def _find_session(self, request: HttpRequest) -> Session | None:
        kind, _, token = request.headers.get("authorization", "").partition(" ")
        if kind.lower() == "bearer":
            return self._sessions.find_program(token.strip())
        return self._find_browser(request)

    def _find_browser(self, request: HttpRequest) -> Session | None:
        try:
            morsel = SimpleCookie(request.headers.get("cookie", "")).get(self.cookie)
        except CookieError:
            return None
        return None if morsel is None else self._sessions.find_browser(morsel.value)

    def _refuse_stranger(self, request: HttpRequest) -> HttpResponse:
        has_tried = "authorization" in request.headers or "cookie" in request.headers or "token=" in request.query
        if has_tried and self._sessions.note_wrong(read_monotonic()):
            text = "too many requests came without a valid token"
            return HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, "too_many", text, {"Retry-After": "1"}).make_response()
        headers = {"WWW-Authenticate": "Bearer"}
        if request.path.startswith(API) or request.path == METRICS:
            return HttpRefusal(HTTPStatus.UNAUTHORIZED, "no_token", WHAT_TO_TYPE, headers).make_response()
        # If another page sent the browser here, it has kept its cookie back, and sends it when this page sends it on.
        page = make_page("No token", WHAT_TO_TYPE, goes_on=_comes_from_elsewhere(request))
        return HttpResponse(HTTPStatus.UNAUTHORIZED, page, HTML, headers)

    # What it gets

    async def answer(
        self, request: HttpRequest, found: Found | None, session: Session, body: bytes
    ) -> HttpResponse | Streaming:
        """Raises: HttpRefusal."""
        if found is None:
            return read_page_file(request)
        endpoint = found.endpoint
        call = make_call(found, request, body)
        if endpoint.changes:
            self.crew.check_may_change()
        try:
            if endpoint.asks:
                async with self.crew.gate.hold(session):
                    answer = await endpoint.handler(self.crew, call)
            else:
                answer = await endpoint.handler(self.crew, call)
        except GandyError as error:
            raise refuse(error) from None
        return _finish(answer, endpoint)

    def begin_stream(self, session: Session) -> None:
        """Raises: HttpRefusal."""
        if session.streams >= MAX_SESSION_STREAMS or self.crew.streams >= MAX_STREAMS:
            text = "too many streams of events are open; close some"
            raise HttpRefusal(HTTPStatus.TOO_MANY_REQUESTS, "too_many", text, {"Retry-After": "5"})
        session.streams += 1
        self.crew.streams += 1

    def end_stream(self, session: Session) -> None:
        session.streams -= 1
        self.crew.streams -= 1


class _Exchange:
    """One request that may come in."""

    def __init__(self, app: App, request: HttpRequest, session: Session | None, found: Found | None) -> None:
        self._app = app
        self._request = request
        self._found = found
        self._session = session or Session()
        self._is_counted = self._is_streaming = False
        self.is_known = session is not None

    async def answer(self, body: bytes) -> HttpResponse | Streaming:
        count_request(self._session)
        self._is_counted = True
        response = await self._app.answer(self._request, self._found, self._session, body)
        if isinstance(response, Streaming):
            self._app.begin_stream(self._session)
            self._is_streaming = True
            self._uncount()
        return response

    def end(self) -> None:
        self._uncount()
        if self._is_streaming:
            self._is_streaming = False
            self._app.end_stream(self._session)

    def _uncount(self) -> None:
        self._session.requests -= self._is_counted
        self._is_counted = False


def _finish(answer: Any, endpoint: Endpoint) -> HttpResponse | Streaming:
    return answer if isinstance(answer, HttpResponse | Streaming) else make_json(answer, endpoint.status)


def _lead_to_page(request: HttpRequest, headers: dict[str, str]) -> HttpResponse:
    """Send the browser to the page. If another page sent it here, a redirect would not carry its new cookie."""
    if _comes_from_elsewhere(request):
        return HttpResponse(HTTPStatus.OK, make_page("gandy", "The dashboard opens.", goes_on=True), HTML, headers)
    return HttpResponse(HTTPStatus.SEE_OTHER, content_type="", headers={"Location": PAGE, **headers})


def _comes_from_elsewhere(request: HttpRequest) -> bool:
    return request.headers.get("sec-fetch-site", "") not in OWN_SITES
