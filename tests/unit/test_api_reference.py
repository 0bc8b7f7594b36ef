"""The reference of the HTTP API: it has every address and every type of the document that dashboards serve."""

from typing import Any

import pytest
from tools import describe_api as reference

from gandy.dashboard.api.table import ENDPOINTS
from gandy.dashboard.openapi import make_document

DOCUMENT = make_document(ENDPOINTS)


@pytest.mark.parametrize("endpoint", ENDPOINTS, ids=lambda each: f"{each.method} {each.path}")
def test_every_address_is_listed_and_described(endpoint: Any) -> None:
    name = f"{endpoint.method} {endpoint.path}"
    (line,) = (line for line in reference.list_addresses().splitlines() if f"`{name}`" in line)
    assert endpoint.summary in line
    section = reference.describe_addresses().partition(f"### {name}\n")[2].partition("\n### ")[0]
    assert f"Answer: {endpoint.status.value}, " in section
    assert ("It needs no token." in section) == endpoint.is_open
    assert ("`X-Gandy`" in section) == endpoint.changes
    assert ("Body: " in section) == (endpoint.body is not None)
    for field in endpoint.query.__struct_encode_fields__ if endpoint.query else ():
        assert f"| `{field}` | in the query |" in section


@pytest.mark.parametrize("name", DOCUMENT["components"]["schemas"])
def test_every_type_has_all_its_keys(name: str) -> None:
    section = reference.describe_types().partition(f"### {name}\n")[2].partition("\n### ")[0]
    for key in DOCUMENT["components"]["schemas"][name].get("properties", ()):
        assert f"| `{key}` | " in section


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"type": "integer"}, "integer"),
        ({"type": "integer", "minimum": 1, "maximum": 5_000}, "integer from 1 to 5,000"),
        ({"type": "integer", "minimum": 0, "maximum": 2**63 - 1}, "integer from 0 up"),
        ({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, "integer"),
        ({"type": "number", "exclusiveMinimum": 0, "maximum": 1e300}, "number above 0"),
        ({"type": "number", "minimum": 0.5}, "number from 0.5 up"),
        ({"type": "string", "maxLength": 4_000}, "string of up to 4,000 characters"),
        ({"type": "boolean"}, "boolean"),
        ({}, "anything"),
        ({"const": "1"}, '`"1"`'),
        ({"enum": ["a", "b"]}, '`"a"` or `"b"`'),
        ({"anyOf": [{"type": "string"}, {"type": "null"}]}, "string or null"),
        ({"type": "array"}, "array"),
        ({"type": "array", "items": {"type": "string"}}, "array of string"),
        ({"type": "array", "prefixItems": [{"type": "number"}, {"type": "string"}]}, "array: number, string"),
        ({"type": "object"}, "object"),
        ({"type": "object", "additionalProperties": {"type": "null"}}, "object, values: null"),
        ({"$ref": "#/components/schemas/JobLine"}, "[JobLine](#jobline)"),
    ],
)
def test_types_have_names_in_words(schema: dict[str, Any], words: str) -> None:
    assert reference.name_type(schema) == words


def test_type_without_a_name_is_refused() -> None:
    with pytest.raises(ValueError, match="triangle has no name"):
        reference.name_type({"type": "triangle"})
