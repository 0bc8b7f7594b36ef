"""Finds the handler of a request, and checks the numbers in its path, its query and its body against types."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, unquote

import msgspec

from gandy.bounds import BROKEN, describe
from gandy.dashboard.messages import HttpRefusal, HttpRequest
from gandy.limits import LAST_INTEGER, MAX_TASKS

MOST: Final[Mapping[str, int]] = {"job": LAST_INTEGER, "task": MAX_TASKS}  # of the numbers in paths; others are names

Handler = Callable[[Any, "ApiCall"], Awaitable[Any]]  # gets the crew


class ApiCall(NamedTuple):
    """What a handler gets: a request whose parts are checked."""

    request: HttpRequest
    job: int = 0
    task: int = 0
    name: str = ""
    query: Any = None
    body: Any = None


class Endpoint(NamedTuple):
    """One line of the API. `query` and `body` are types of msgspec, and `answer` is one or a media type."""

    method: str
    path: str
    handler: Handler
    summary: str
    answer: Any
    query: type[msgspec.Struct] | None = None
    body: type[msgspec.Struct] | None = None
    status: HTTPStatus = HTTPStatus.OK
    asks: bool = True  # the foreman, so it takes its turn
    is_open: bool = False  # it needs no token

    @property
    def changes(self) -> bool:
        return self.method == "POST"


class Found(NamedTuple):
    """An endpoint, and the parts of the path that it has names for."""

    endpoint: Endpoint
    parts: Mapping[str, str]


class ApiTable:
    """Raises HttpRefusal for what no endpoint is for."""

    def __init__(self, endpoints: Sequence[Endpoint]) -> None:
        self._patterns = [(endpoint, endpoint.path.strip("/").split("/")) for endpoint in endpoints]

    def find(self, request: HttpRequest) -> Found:
        """Raises: HttpRefusal."""
        words = request.path.strip("/").split("/")
        found = [
            Found(endpoint, parts)
            for endpoint, pattern in self._patterns
            if (parts := _match(pattern, words)) is not None
        ]
        method = "GET" if request.method == "HEAD" else request.method
        for each in found:
            if each.endpoint.method == method:
                return each
        if not found:
            raise HttpRefusal(HTTPStatus.NOT_FOUND, "not_found", "there is nothing at this address")
        allowed = ", ".join(sorted({each.endpoint.method for each in found}))
        raise HttpRefusal(HTTPStatus.METHOD_NOT_ALLOWED, "bad_request", f"use {allowed} here", {"Allow": allowed})


def _match(pattern: Sequence[str], words: Sequence[str]) -> dict[str, str] | None:
    if len(pattern) != len(words):
        return None
    parts = {}
    for expected, word in zip(pattern, words, strict=True):
        if expected.startswith("{"):
            parts[expected[1:-1]] = word
        elif expected != word:
            return None
    return parts


def make_call(found: Found, request: HttpRequest, body: bytes) -> ApiCall:
    """Raises: HttpRefusal."""
    endpoint, parts = found
    return ApiCall(
        request,
        _parse_number("job", parts),
        _parse_number("task", parts),
        unquote(parts.get("id", ""), errors="replace"),
        _parse_query(endpoint.query, request.query),
        _parse_body(endpoint.body, body),
    )


def _parse_number(name: str, parts: Mapping[str, str]) -> int:
    text = parts.get(name, "0")
    if name not in parts:
        return 0
    if (
        not (text.isascii() and text.isdecimal() and len(text) <= len(str(LAST_INTEGER)))
        or not 0 < int(text) <= MOST[name]
    ):
        raise HttpRefusal(HTTPStatus.NOT_FOUND, "not_found", f"there is no {name} {unquote(text, errors='replace')!r}")
    return int(text)


def _parse_query(kind: type[msgspec.Struct] | None, text: str) -> Any:
    given = _split_query(text)
    if kind is None:
        kind = _Nothing
    lists = {name for name, about in _list_fields(kind).items() if about}
    values = {name: found if name in lists else found[-1] for name, found in given.items()}
    try:
        return msgspec.convert(values, kind, strict=False)
    except BROKEN as error:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "bad_request", f"the query is not valid: {describe(error)}") from None


def _split_query(text: str) -> dict[str, list[str]]:
    try:
        return parse_qs(text, keep_blank_values=True, strict_parsing=bool(text), errors="strict", max_num_fields=100)
    except ValueError:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "bad_request", "the query is not valid") from None


def _list_fields(kind: type[msgspec.Struct]) -> dict[str, bool]:
    """The names of a query's fields, and if they may be given several times."""
    fields = msgspec.inspect.type_info(kind).fields  # type: ignore[attr-defined]
    return {field.encode_name: isinstance(field.type, msgspec.inspect.VarTupleType) for field in fields}


def _parse_body(kind: type[msgspec.Struct] | None, body: bytes) -> Any:
    if kind is None:
        return None
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except BROKEN as error:
        raise HttpRefusal(HTTPStatus.BAD_REQUEST, "bad_request", f"the body is not valid: {describe(error)}") from None


class _Nothing(msgspec.Struct, forbid_unknown_fields=True):
    """The query of an endpoint that takes none."""
