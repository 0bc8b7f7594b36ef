"""Which handler a request is for, and what it gets."""

from typing import Annotated

import pytest
from msgspec import Meta, Struct, field

from gandy.dashboard.endpoints import ApiCall, ApiTable, Endpoint, make_call
from gandy.dashboard.messages import HttpRefusal, HttpRequest


class Asked(Struct, forbid_unknown_fields=True):
    number: Annotated[int, Meta(le=9)] = 0
    names: tuple[str, ...] = ()
    begin: Annotated[float, Meta(ge=0)] | None = field(name="from", default=None)


class Told(Struct, forbid_unknown_fields=True):
    now: bool = False


async def handle(_crew: object, call: ApiCall) -> ApiCall:
    return call


TABLE = ApiTable(
    (
        Endpoint("GET", "/api/things", handle, "", None, query=Asked),
        Endpoint("POST", "/api/things", handle, "", None, body=Told),
        Endpoint("GET", "/api/jobs/{job}/tasks/{task}", handle, "", None),
        Endpoint("GET", "/api/named/{id}", handle, "", None),
    )
)


def ask(method: str, target: str, body: bytes = b"") -> ApiCall:
    path, _, query = target.partition("?")
    request = HttpRequest(method, path, query, {})
    return make_call(TABLE.find(request), request, body)


def find_refusal(method: str, target: str, body: bytes = b"") -> int:
    with pytest.raises(HttpRefusal) as refused:
        ask(method, target, body)
    return refused.value.status


def test_parts_of_the_path_are_checked() -> None:
    assert ask("GET", "/api/jobs/12/tasks/7")[1:3] == (12, 7)
    assert ask("HEAD", "/api/named/a%2Fb%20%C3%A9%FF").name == "a/b é\ufffd"
    for path in ("0/tasks/1", "1/tasks/0", "x/tasks/1", "-1/tasks/1", "%31/tasks/1", f"1{'0' * 30}/tasks/1", "1/tasks"):
        assert find_refusal("GET", f"/api/jobs/{path}") == 404


def test_queries_are_checked() -> None:
    assert ask("GET", "/api/things?number=3&names=a&names=b&from=1.5").query == Asked(3, ("a", "b"), 1.5)
    assert ask("GET", "/api/things").query == Asked()
    assert ask("GET", "/api/things?number=1&number=2").query == Asked(2)
    for query in ("number=10", "number=x", "number=", "other=1", "number", "%ff=1", "&" * 200, "from=nan"):
        assert find_refusal("GET", f"/api/things?{query}") == 400, query
    assert find_refusal("GET", "/api/named/x?anything=1") == 400


def test_bodies_are_checked() -> None:
    assert ask("POST", "/api/things").body == Told()
    assert ask("POST", "/api/things", b'{"now": true}').body == Told(True)
    for body in (b"{", b"[]", b"null", b'{"now": 1}', b'{"later": true}', b"\xff", b"[" * 10_000):
        assert find_refusal("POST", "/api/things", body) == 400


def test_other_methods_are_refused() -> None:
    with pytest.raises(HttpRefusal) as refused:
        ask("DELETE", "/api/things")
    assert (refused.value.status, refused.value.headers) == (405, {"Allow": "GET, POST"})
    assert find_refusal("GET", "/api/nothing") == 404
