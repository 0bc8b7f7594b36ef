"""Describes the API in an OpenAPI document, made from the table of its addresses and the types of msgspec in it."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from typing import Any, Final, Literal

import msgspec

from gandy import __version__
from gandy.dashboard.endpoints import MOST, Endpoint
from gandy.dashboard.messages import JSON

TEMPLATE: Final = "#/components/schemas/{name}"

ABOUT: Final = (
    "What `gandy dashboard` serves. Times are seconds since 1970, durations seconds, sizes bytes; what ends in `_us` "
    "is in microseconds. Keys are never renamed or removed; new ones may be added."
)
KINDS: Final = (
    "kind is for programs: bad_request, no_token, not_allowed, other_origin, no_header, not_found, refused, no_clock, "
    "too_large, gone, misdirected, too_many, busy, away, moved, store; message is for people."
)


class ErrorAbout(msgspec.Struct, frozen=True):
    """What went wrong."""

    kind: str
    message: str


class ErrorAnswer(msgspec.Struct, frozen=True):
    """The body of every response that is an error."""

    error: ErrorAbout


def make_document(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    described = [endpoint for endpoint in endpoints if endpoint.answer is not None]
    types = _list_types(described)
    schemas, components = msgspec.json.schema_components(types, ref_template=TEMPLATE)
    schema_of = dict(zip(map(_identify, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for endpoint in described:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _describe(endpoint, schema_of, components)
    for query in {endpoint.query.__name__ for endpoint in described if endpoint.query is not None}:
        components.pop(query, None)  # they are described as parameters
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "gandy",
            "version": __version__,
            "description": ABOUT,
            "license": {"name": "MIT", "identifier": "MIT"},
        },
        "servers": [{"url": "/"}],
        "security": [{"bearer": []}, {"cookie": []}],
        "paths": paths,
        "components": {
            "schemas": dict(sorted(components.items())),
            "responses": {"Error": _describe_content(KINDS, {JSON: {"schema": schema_of[_identify(ErrorAnswer)]}})},
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "cookie": {
                    "type": "apiKey",
                    "in": "cookie",
                    "name": "gandy_5430",
                    "description": "The port is in its name.",
                },
            },
        },
    }


def _list_types(endpoints: Iterable[Endpoint]) -> list[Any]:
    found: list[Any] = [ErrorAnswer]
    for endpoint in endpoints:
        found += [
            kind for kind in (endpoint.query, endpoint.body, endpoint.answer) if kind and not isinstance(kind, str)
        ]
    return found


def _identify(kind: Any) -> str:
    return getattr(kind, "__name__", str(kind))


def _describe(endpoint: Endpoint, schema_of: Mapping[str, Any], components: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {
        "summary": endpoint.summary,
        "operationId": endpoint.handler.__name__,
        "parameters": [*_list_path(endpoint), *_list_query(endpoint, components), *_list_headers(endpoint)],
        "responses": {
            str(endpoint.status.value): _describe_answer(endpoint, schema_of),
            "4XX": {"$ref": "#/components/responses/Error"},
            "503": _describe_answer(endpoint, schema_of)
            if endpoint.is_open
            else {"$ref": "#/components/responses/Error"},
        },
    }
    if endpoint.body is not None:
        described["requestBody"] = {"content": {JSON: {"schema": schema_of[_identify(endpoint.body)]}}}
    if endpoint.is_open:
        described["security"] = []
    return described


def _describe_answer(endpoint: Endpoint, schema_of: Mapping[str, Any]) -> dict[str, Any]:
    if isinstance(endpoint.answer, str):
        kind = endpoint.answer.partition(";")[0]
        return _describe_content(endpoint.summary, {kind: {"schema": {"type": "string"}}})
    return _describe_content(endpoint.summary, {JSON: {"schema": schema_of[_identify(endpoint.answer)]}})


def _describe_content(text: str, content: Mapping[str, Any]) -> dict[str, Any]:
    return {"description": text, "content": content}


def _list_path(endpoint: Endpoint) -> list[dict[str, Any]]:
    names = [word[1:-1] for word in endpoint.path.split("/") if word.startswith("{")]
    return [_describe_parameter("path", name, _describe_part(name), required=True) for name in names]


def _describe_part(name: str) -> dict[str, Any]:
    if name in MOST:
        return {"type": "integer", "minimum": 1, "maximum": MOST[name]}
    return {"type": "string", "minLength": 1}


def _list_query(endpoint: Endpoint, components: Mapping[str, Any]) -> list[dict[str, Any]]:
    if endpoint.query is None:
        return []
    schema = components[endpoint.query.__name__]
    required = schema.get("required", [])
    return [
        _describe_parameter("query", name, about, required=name in required)
        for name, about in schema["properties"].items()
    ]


def _list_headers(endpoint: Endpoint) -> list[dict[str, Any]]:
    if not endpoint.changes:
        return []
    return [_describe_parameter("header", "X-Gandy", {"const": "1"}, required=True)]


def _describe_parameter(
    place: Literal["path", "query", "header"], name: str, schema: Mapping[str, Any], *, required: bool
) -> dict[str, Any]:
    return {"name": name, "in": place, "required": required, "schema": schema}


@cache
def encode_document(endpoints: Sequence[Endpoint]) -> bytes:
    return msgspec.json.encode(make_document(endpoints))
