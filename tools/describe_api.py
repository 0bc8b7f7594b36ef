"""Describes the HTTP API in Markdown, from its OpenAPI document: docs/reference takes its tables from here.

It serves nothing and asks nothing.
"""

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple

from gandy.dashboard.api.table import ENDPOINTS
from gandy.dashboard.openapi import make_document
from tools.markdown import table

Schema = Mapping[str, Any]

LARGEST: Final = 2**53  # beyond it, a bound says only that a number fits 64 bits, and readers learn nothing
PLACES: Final = {"path": "in the path", "query": "in the query", "header": "a header"}
COMPONENT: Final = "#/components/schemas/"


class Operation(NamedTuple):
    """One method of one address."""

    name: str
    about: Schema


def find_operations(document: Schema) -> Iterator[Operation]:
    for path, methods in document["paths"].items():
        for method, about in methods.items():
            yield Operation(f"{method.upper()} {path}", about)


def list_addresses() -> str:
    """Every address on a line, with a link to its description."""
    rows = [[f"[`{each.name}`](#{_slug(each.name)})", each.about["summary"]] for each in find_operations(_document())]
    return table(["address", "what it does"], rows)


def describe_addresses() -> str:
    """A section for each address."""
    return "\n\n".join(describe_operation(each) for each in find_operations(_document()))


def describe_types() -> str:
    """A section for each object that comes in or goes out."""
    schemas = _document()["components"]["schemas"]
    return "\n\n".join(describe_type(name, schema) for name, schema in schemas.items())


def _document() -> Schema:
    return make_document(ENDPOINTS)


# Sections


def describe_operation(operation: Operation) -> str:
    about = operation.about
    parts = [f"### {operation.name}", f"{about['summary']}. {_describe_traffic(about)}"]
    if rows := [_make_parameter_row(parameter) for parameter in about["parameters"]]:
        parts.append(table(["parameter", "where", "type", "default"], rows))
    return "\n\n".join(parts)


def _describe_traffic(about: Schema) -> str:
    """What comes in and goes out, and if a token is needed."""
    code, answer = next(iter(about["responses"].items()))
    ((kind, content),) = answer["content"].items()
    goes_out = name_type(content["schema"]) if kind == "application/json" else f"`{kind}`"
    sentences = [f"Answer: {code}, {goes_out}."]
    if "requestBody" in about:
        ((_, content),) = about["requestBody"]["content"].items()
        sentences.insert(0, f"Body: {name_type(content['schema'])}.")
    if about.get("security") == []:
        sentences.append("It needs no token.")
    return " ".join(sentences)


def _make_parameter_row(parameter: Schema) -> list[str]:
    default = "required" if parameter["required"] else _format_default(parameter["schema"])
    return [f"`{parameter['name']}`", PLACES[parameter["in"]], name_type(parameter["schema"]), default]


def describe_type(name: str, schema: Schema) -> str:
    parts = [f"### {name}"]
    if text := " ".join(schema.get("description", "").split()):
        parts.append(text if text.endswith((".", "?")) else f"{text}.")
    if schema.get("type") != "object":
        return "\n\n".join([*parts, f"Type: {name_type(schema)}."])
    if rows := [_make_key_row(key, about, schema) for key, about in schema.get("properties", {}).items()]:
        parts.append(table(["key", "type", "default"], rows))
    return "\n\n".join(parts)


def _make_key_row(key: str, about: Schema, schema: Schema) -> list[str]:
    is_required = key in schema.get("required", ())
    return [f"`{key}`", name_type(about), "" if is_required else _format_default(about)]


def _format_default(schema: Schema) -> str:
    return f"`{json.dumps(schema['default'])}`" if "default" in schema else "left out"


# Types


def name_type(schema: Schema) -> str:
    """A type in words. Objects are links to their sections."""
    if "$ref" in schema:
        name = schema["$ref"].removeprefix(COMPONENT)
        return f"[{name}](#{_slug(name)})"
    if "anyOf" in schema:
        return " or ".join(map(name_type, schema["anyOf"]))
    if "const" in schema:
        return f"`{json.dumps(schema['const'])}`"
    if "enum" in schema:
        return " or ".join(f"`{json.dumps(value)}`" for value in schema["enum"])
    match schema.get("type"):
        case "array":
            return _name_array(schema)
        case "object":
            values = schema.get("additionalProperties")
            return f"object, values: {name_type(values)}" if isinstance(values, Mapping) else "object"
        case "integer" | "number" | "string" as kind:
            return f"{kind}{_describe_bounds(schema)}"
        case "boolean" | "null" as kind:
            return str(kind)
        case None:
            return "anything"
        case other:
            raise ValueError(f"{other} has no name here")


def _name_array(schema: Schema) -> str:
    if "prefixItems" in schema:
        return f"array: {', '.join(map(name_type, schema['prefixItems']))}"
    items = schema.get("items")
    return f"array of {name_type(items)}" if items else "array"


def _describe_bounds(schema: Schema) -> str:
    """The bounds that a person can run into."""
    if "maxLength" in schema:
        return f" of up to {schema['maxLength']:,} characters"
    least, most = schema.get("minimum", -LARGEST), schema.get("maximum", LARGEST)
    has_least, has_most = least > -LARGEST, most < LARGEST
    if has_least and has_most:
        return f" from {_format_number(least)} to {_format_number(most)}"
    if "exclusiveMinimum" in schema:
        return f" above {_format_number(schema['exclusiveMinimum'])}"
    return f" from {_format_number(least)} up" if has_least else ""


def _format_number(value: float) -> str:
    return f"{int(value):,}" if float(value).is_integer() else f"{value:,}"


def _slug(heading: str) -> str:
    """The anchor that GitHub gives a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")
