"""What the server reads and writes: requests, responses, and refusals. It knows no socket."""

import re
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

if TYPE_CHECKING:
    from gandy.dashboard.stream import Stream

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
TEXT: Final = "text/plain; charset=utf-8"
HTML: Final = "text/html; charset=utf-8"

_encode_json: Final = msgspec.json.Encoder(enc_hook=str).encode

_REFUSAL: Final = re.compile(r"q=0(\.0*)?")

NO_HEADERS: Final[Mapping[str, str]] = {}


class HttpRequest(NamedTuple):
    """The line and the headers of a request. Names of headers are in small letters."""

    method: str
    path: str  # as it was sent, with its escapes
    query: str
    headers: Mapping[str, str]

    def accepts_encoding(self, name: str) -> bool:
        """True if the body may be compressed like this. A weight of zero says that it may not."""
        for part in self.headers.get("accept-encoding", "").split(","):
            coding, _, weight = part.partition(";")
            if coding.strip().lower() == name:
                return _REFUSAL.fullmatch(weight.strip()) is None
        return False


class HttpResponse(NamedTuple):
    """A response that is there as a whole."""

    status: int
    body: bytes = b""
    content_type: str = JSON  # empty: there is no body
    headers: Mapping[str, str] = NO_HEADERS


class Streaming(NamedTuple):
    """A response that goes on until `run` returns or the browser is gone."""

    run: Callable[["Stream"], Awaitable[None]]
    content_type: str = EVENTS
    headers: Mapping[str, str] = NO_HEADERS


class HttpRefusal(Exception):
    """The request is answered with an error."""

    def __init__(self, status: int, kind: str, message: str, headers: Mapping[str, str] = NO_HEADERS) -> None:
        super().__init__(message)
        self.status = status
        self.kind = kind
        self.message = message
        self.headers = headers

    def make_response(self) -> HttpResponse:
        body = encode_json({"error": {"kind": self.kind, "message": self.message}})
        return HttpResponse(self.status, body, headers=self.headers)


def encode_json(value: Any) -> bytes:
    return _encode_json(value)


def make_json(value: Any, status: int = HTTPStatus.OK) -> HttpResponse:
    return HttpResponse(status, encode_json(value))
